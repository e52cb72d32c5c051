"""wgmma.mma_async: asynchronous products of a warpgroup, of shared memory and registers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ptxlab.descriptors import WgmmaDescriptor
from tests.check.race.order_table.copies import PROXY
from tests.check.race.order_table.pair import Pair

ORDER = "Asynchronous wgmma Instructions: wgmma.wait_group"
REGISTERS = "Asynchronous wgmma Instructions: wgmma.fence"
HOPPER = {"target": "sm_90a", "block": 128}
DESCRIPTOR = int(WgmmaDescriptor(start=0, leading=128, stride=256, swizzle="none"))
"""No swizzling, K-major: core matrices side by side."""
START = (
    "mad.lo.u32 %t, %tid, 32, %smem;\nst.shared.v4.b32 [%t], {%zero, %zero, %zero, %zero};\n"
    "st.shared.v4.b32 [%t+16], {%zero, %zero, %zero, %zero};\nfence.proxy.async.shared::cta;\nbar.sync 0;\n"
    f"shr.u32 %t, %smem, 4;\ncvt.u64.u32 %adesc, %t;\nor.b64 %adesc, %adesc, {DESCRIPTOR:#x};\nadd.u64 %bdesc, %adesc, 128;\n"
    "setp.eq.u32 %enable, %tid, %tid;\nmov.b32 %meta, 0x44444444;\n"
    + "".join(f"mov.b32 %f{i}, 0f00000000;\nmov.b32 %r{i}, 0;\nmov.b32 %r{4 + i}, 0;\n" for i in range(4))
)
"""A has 2 KiB, and B follows it; the accumulator in four or two registers from 0 on, A in registers in %r4 to %r7."""
FENCE, COMMIT, WAIT = "wgmma.fence.sync.aligned;\n", "wgmma.commit_group.sync.aligned;\n", "wgmma.wait_group.sync.aligned 0;\n"
ISSUE = FENCE + "FORM\n" + COMMIT
MEET = "bar.sync 0;\n"


class Product(NamedTuple):
    """A form: whether sparse, the shape, the types, whether A is in registers, and the immediates behind the accumulator's predicate."""

    sparse: bool
    shape: str
    types: str
    registers: bool
    immediates: str

    @property
    def accumulator(self) -> tuple[str, int]:
        """The kind of its registers, and how many."""
        d = self.types.partition(".")[0]
        return ("%f" if d == "f32" else "%r"), (2 if d == "f16" else 4)

    def form(self) -> str:
        """The instruction."""
        kind, count = self.accumulator
        d = "{" + ", ".join(f"{kind}{i}" for i in range(count)) + "}"
        a = "{%r4, %r5, %r6, %r7}" if self.registers else "%adesc"
        sparse = "%meta, 0, " if self.sparse else ""
        name = f"wgmma.mma_async{'.sp' if self.sparse else ''}.sync.aligned.{self.shape}.{self.types}"
        return f"{name} {d}, {a}, %bdesc, {sparse}%enable{self.immediates};"

    def pairs(self) -> Iterator[Pair]:
        """What its operands need."""
        form, first = (self.form(),), f"{self.accumulator[0]}0"
        if not self.registers:
            write = START + "@%first st.shared.b32 [%smem], %smem;\nORDER\n" + MEET + ISSUE + WAIT
            yield Pair(
                form, "reads A in shared memory, async proxy", write, "fence.proxy.async.shared::cta;", PROXY, "X102", options=HOPPER
            )
        overwrite = START + ISSUE + "ORDER\n" + MEET + "@%second st.shared.b32 [%smem+2048], %smem;\n" + WAIT
        yield Pair(form, "reads B in shared memory, async proxy", overwrite, WAIT, ORDER, "X110", options=HOPPER)
        used = START + ISSUE + f"ORDER\nst.global.{'f32' if first == '%f0' else 'b32'} [%out+64], {first};\n" + WAIT
        yield Pair(form, "writes the registers of the accumulator", used, WAIT, ORDER, "R805", options=HOPPER)
        if self.registers:
            changed = START + ISSUE + "ORDER\nmov.b32 %r4, 1;\n" + WAIT
            yield Pair(form, "reads A in registers", changed, WAIT, ORDER, "R806", options=HOPPER)
        written = START + FENCE + f"mov.b32 {first}, %zero;\nORDER\nFORM\n" + COMMIT + WAIT
        yield Pair(form, "reads the registers of the accumulator", written, FENCE, REGISTERS, "R807", options=HOPPER)


SCALES, TRANSPOSED_B, TRANSPOSED = ", 1, 1", ", 1, 1, 0", ", 1, 1, 0, 0"
PRODUCTS = tuple(
    Product(sparse, f"m64n8k{k * (1 + (sparse and bits != 1))}", types, registers, immediates if not registers else in_registers)
    for types, k, bits, immediates, in_registers in (
        ("f16.f16.f16", 16, 16, TRANSPOSED, TRANSPOSED_B),
        ("f32.f16.f16", 16, 16, TRANSPOSED, TRANSPOSED_B),
        ("f32.bf16.bf16", 16, 16, TRANSPOSED, TRANSPOSED_B),
        ("f32.tf32.tf32", 8, 32, SCALES, SCALES),
        ("f16.e4m3.e5m2", 32, 8, SCALES, SCALES),
        ("f32.e5m2.e4m3", 32, 8, SCALES, SCALES),
        ("s32.u8.s8", 32, 8, "", ""),
        ("s32.b1.b1.and.popc", 256, 1, "", ""),
    )
    for sparse in (False, True)
    for registers in (False, True)
    if not (sparse and bits == 1)
)
ONE = PRODUCTS[4].form()
USE = "st.global.f32 [%out+64], %f0;\n"
SYNCHRONISATION = (
    Pair(
        ("wgmma.fence.sync.aligned;",),
        "orders accesses to registers before wgmma.mma_async",
        START + FENCE + "mov.b32 %f0, %zero;\nORDER\n" + ONE + "\n" + COMMIT + WAIT,
        "FORM",
        REGISTERS,
        "R807",
        options=HOPPER,
    ),
    Pair(
        ("wgmma.commit_group.sync.aligned;",),
        "makes a group of the products of the warp",
        START + FENCE + ONE + "\nORDER\n" + WAIT + USE + COMMIT + WAIT,
        "FORM",
        ORDER,
        "R805",
        options=HOPPER,
    ),
    Pair(
        ("wgmma.wait_group.sync.aligned 0;",),
        "completes the products of the warp",
        START + FENCE + ONE + "\n" + COMMIT + "ORDER\n" + USE + WAIT,
        "FORM",
        ORDER,
        "R805",
        without="wgmma.wait_group.sync.aligned 1;",
        options=HOPPER,
    ),
)
TABLE: tuple[Pair, ...] = (*(pair for product in PRODUCTS for pair in product.pairs()), *SYNCHRONISATION)
