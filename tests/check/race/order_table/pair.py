"""One line of the table, and the frame that its kernels stand in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

FRAME = """.version 9.0
.target {target}
.address_size 64
.extern .shared .align 1024 .b8 dynamic[];
.const .align 16 .b32 constant[4] = {{1, 2, 3, 4}};
.visible .entry k(.param .u64 array, .param .align 64 .b8 map[128])
{{
.shared .align 8 .b64 barrier_object;
.shared .align 8 .b64 barrier_object_2;
.shared .align 4 .b32 tensor_slot;
.shared .align 16 .b8 response[16];
.reg .pred %p<4>, %first, %second, %warp0, %warp1, %done, %cta0, %cta1, %first0, %first1, %copied, %ignored, %enable, %lead;
.reg .b16 %h<8>;
.reg .b32 %r<130>, %tid, %warp, %rank, %smem, %peer, %mbar, %mbar2, %peer_mbar, %tmem, %at, %ta, %sfa, %sfb, %meta, %t;
.reg .b32 %zero, %one, %two, %three;
.reg .b64 %d<20>, %gmem, %out, %generic, %tensormap, %adesc, %bdesc, %policy, %map;
.reg .b128 %q<4>;
.reg .f32 %f<130>;
.reg .f64 %fd<4>;
ld.param.u64 %gmem, [array];
mov.u32 %tid, %tid.x;
mov.u32 %warp, %warpid;
mov.u32 %r0, %ctaid.x;
mov.u32 %r1, %ntid.x;
mad.lo.u32 %r0, %r0, %r1, %tid;
mad.wide.u32 %out, %r0, 128, %gmem;
add.u64 %out, %out, 32768;
mov.b32 %smem, dynamic;
mov.b32 %mbar, barrier_object;
mov.b32 %mbar2, barrier_object_2;
cvt.u64.u32 %generic, %smem;
cvta.shared.u64 %generic, %generic;
mov.b64 %tensormap, map;
cvta.param.u64 %tensormap, %tensormap;
add.u64 %map, %gmem, 24576;
mov.b32 %zero, 0;
mov.b32 %one, 1;
mov.b32 %two, 2;
mov.b32 %three, 3;
mov.b64 %policy, 0x1000000000000000;
setp.eq.u32 %first, %tid, 0;
setp.eq.u32 %second, %tid, 32;
setp.eq.u32 %warp0, %warp, 0;
setp.eq.u32 %warp1, %warp, 1;
setp.ne.u32 %copied, %tid, %tid;
setp.eq.u32 %ignored, %tid, %tid;
mov.b32 %r0, 1;
mov.b32 %r8, 0;
mov.b16 %h0, 1;
mov.b64 %d0, 1;
mov.b32 %f0, 1.0;
mov.b64 %fd0, 1.0;
mov.b128 %q0, {{%d0, %d0}};
{body}
{use}
ret;
}}
"""
"""``%first`` and ``%second`` are the first threads of warps 0 and 1.

The array has 64 KiB, with a tensor map at ``%map``; in its second half each thread of the grid has 128 bytes of its own, from ``%out`` on.
"""

USES = {
    "%r0": "st.global.b32 [%out], %r0;",
    "%h0": "st.global.b16 [%out+8], %h0;",
    "%d0": "st.global.b64 [%out+16], %d0;",
    "%f0": "st.global.f32 [%out+24], %f0;",
    "%fd0": "st.global.f64 [%out+32], %fd0;",
    "%q0": "st.global.b128 [%out+48], %q0;",
}
"""Each instruction writes register 0 of its kind (the first of a vector); the value is used at the end."""


@dataclass(frozen=True)
class Pair:
    """What an instruction needs before another may access the same bytes.

    Attributes
    ----------
    forms : the instructions, each in the text of PTX; every one of them makes a pair of kernels
    accesses : what the instruction reads or writes, through which proxy
    kernel : the body, with ``FORM`` where the instruction stands and ``ORDER`` where the order does
    order : what the PTX ISA asks for between the two accesses; ``FORM`` where the instruction itself is the order; empty where the ISA
        asks for nothing
    section : the title of the section that says so
    code : the finding without the order, empty where no order is needed; several where it depends on which access happens first
    also : what goes wrong besides
    always : what is reported with the order, too
    without : what stands in place of the order
    options : of the launch; ``target`` is that of the module, ``launches`` how often the kernel is launched
    tensor_map : makes the kernel parameter ``map``, which also stands in the array, from the array
    """

    forms: tuple[str, ...]
    accesses: str
    kernel: str
    order: str
    section: str
    code: str = ""
    also: tuple[str, ...] = ()
    always: tuple[str, ...] = ()
    without: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    tensor_map: Callable[[Any], Any] | None = None

    @property
    def target(self) -> str:
        """The target of the module."""
        return str(self.options.get("target", "sm_100a"))

    def text(self, form: str, ordered: bool) -> str:
        """The module with this instruction, with the order or without."""
        return self._template(ordered).replace("FORM", form)

    def line(self) -> int:
        """The line of the instruction in the kernel without the order, 0 if it is itself the order."""
        return 0 if "FORM" in self.order else self._template(ordered=False).partition("FORM")[0].count("\n") + 1

    def _template(self, ordered: bool) -> str:
        body = self.kernel.replace("ORDER", self.order if ordered else self.without)
        used = body + " ".join(self.forms)
        use = "\n".join(store for register, store in USES.items() if register in used)
        return FRAME.format(target=self.target, body=body, use=use)
