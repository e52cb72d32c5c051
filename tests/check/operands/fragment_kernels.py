"""Products whose matrices lanes bring to registers in many ways; addresses are in a table, so that layouts share the PTX.

A row of an operand has slots of one word for each lane of a group of four: `Order` says which word of the array each one holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

import ptxlab

SLOTS = 8
"""Slots of a row: each step of 16 elements of k takes two."""
K = 8 * SLOTS
ROWS = 16
"""Of A and of the array of B, of which eight are multiplied."""
LANES = np.arange(32)
_SHARED = 8192
"""Bytes of shared memory for A of a warp, and for B."""


@dataclass(frozen=True)
class Order:
    """Which word of a row is in which slot: lanes have ``together`` contiguous words, and slots are permuted."""

    together: int = 1
    slots: tuple[int, ...] = tuple(range(SLOTS))

    def word(self, slot: int, thread: NDArray[Any]) -> NDArray[Any]:
        """The word of a thread of a group."""
        chunk, inside = divmod(self.slots[slot], self.together)
        return chunk * 4 * self.together + thread * self.together + inside


@dataclass(frozen=True)
class Way:
    """How an operand comes to registers: the path, the words that an instruction loads, the elements after a row, and its order of k.

    ``odd`` is the order of the odd rows, ``trans`` whether ldmatrix has .trans.
    """

    path: str
    width: int = 1
    padding: int = 0
    order: Order = Order()
    odd: Order | None = None
    trans: bool | None = None

    @property
    def transposing(self) -> bool:
        """Whether ldmatrix has .trans."""
        return self.path == "transposed" if self.trans is None else self.trans


@dataclass
class Writing:
    """The PTX and the table of addresses, by lane."""

    lines: list[str] = field(default_factory=list)
    table: list[NDArray[Any]] = field(default_factory=list)

    def address(self, base: str, offsets: NDArray[Any]) -> str:
        """A register with the address of each lane."""
        self.lines.append(f"ld.global.u32 %r3, [%rd4+{4 * 32 * len(self.table)}];")
        self.table.append(np.broadcast_to(offsets, 32))
        if base.startswith("%rd"):
            self.lines += ["cvt.u64.u32 %rd5, %r3;", f"add.u64 %rd5, %rd5, {base};"]
            return "%rd5"
        self.lines.append(f"add.u32 %r4, %r3, {base};")
        return "%r4"

    def bring(self, name: str, way: Way, rows: int) -> None:
        """The registers of an operand: ``%a<slot, half of the rows>`` or ``%b<slot>``."""
        base, halves = f"%rd{1 if name == 'a' else 2}", rows // 8
        start = 0 if name == "a" else _SHARED
        size = 1 if way.path == "upcast" else 2
        transposed = way.path in ("transposed", "packed")
        pitch = size * ((ROWS if transposed else K) + way.padding)
        group, thread = LANES // 4, LANES % 4

        def words(slot: int, half: int) -> NDArray[Any]:
            plain = way.order.word(slot, thread)
            return plain if way.odd is None else np.where(group % 2, way.odd.word(slot, thread), plain)

        if way.path in ("shared", "ldmatrix", "transposed"):
            self._copy(base, start, (K if transposed else ROWS) * pitch)
        for half in range(halves):
            row = group + 8 * half
            if way.path in ("global", "shared"):
                place = {way.order.slots[slot]: slot for slot in range(SLOTS)}
                for first in range(0, SLOTS, way.width):
                    slots = [place[first + i] for i in range(way.width)]
                    at = self.address(
                        base if way.path == "global" else "%r2", row * pitch + 4 * words(slots[0], half) + start * (way.path == "shared")
                    )
                    held = ", ".join(f"%{name}{2 * slot + half}" for slot in slots)
                    vector = f".v{way.width}.b32 {{{held}}}" if way.width > 1 else f".b32 {held}"
                    self.lines.append(f"ld.{way.path}{vector}, [{at}];")
            elif way.path == "packed":
                for slot in range(SLOTS):
                    for i in range(2):
                        at = self.address(base, (2 * words(slot, half) + i) * pitch + 2 * row)
                        self.lines.append(f"ld.global.b16 %h{i}, [{at}];")
                    self.lines.append(f"mov.b32 %{name}{2 * slot + half}, {{%h0, %h1}};")
            elif way.path == "upcast":
                for slot in range(SLOTS):
                    at = self.address(base, row * pitch + 2 * words(slot, half))
                    self.lines += [f"ld.global.b16 %h0, [{at}];", f"cvt.rn.f16x2.e4m3x2 %{name}{2 * slot + half}, %h0;"]
            else:
                for first in range(0, SLOTS, way.width):
                    # Lanes 8 q to 8 q + 7 have the addresses of the rows of matrix q.
                    i, q = LANES % 8, np.minimum(LANES // 8, way.width - 1)
                    chunk = np.array(way.order.slots)[first + q]
                    if way.odd is not None:
                        chunk = np.where(i % 2, np.array(way.odd.slots)[first + q], chunk)
                    line = i + 8 * half
                    offset = (8 * chunk + i) * pitch + 16 * half if transposed else line * pitch + 16 * chunk
                    at = self.address("%r2", offset + start)
                    held = ", ".join(f"%{name}{2 * (first + j) + half}" for j in range(way.width))
                    trans = ".trans" * way.transposing
                    self.lines.append(f"ldmatrix.sync.aligned.m8n8.x{way.width}{trans}.shared.b16 {{{held}}}, [{at}];")

    def _copy(self, base: str, start: int, size: int) -> None:
        for first in range(0, size, 512):
            offsets = np.minimum(first + 16 * LANES, size - 16)
            source = self.address(base, offsets)
            target = self.address("%r2", offsets + start)
            self.lines.append(f"cp.async.cg.shared.global [{target}], [{source}], 16;")
        self.lines += ["cp.async.wait_all;", "bar.warp.sync 0xffffffff;"]


_TEXT = """
.version 8.1
.target sm_89
.address_size 64
.visible .entry product(.param .u64 a, .param .u64 b, .param .u64 d, .param .u64 table)
{
    .reg .b16 %h<2>; .reg .b32 %r<8>; .reg .b32 %a<32>; .reg .b32 %b<32>; .reg .b64 %rd<10>; .reg .f32 %f<4>;
    .shared .align 128 .b8 tile[16384];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, tile;
    ld.param.u64 %rd1, [a];
    ld.param.u64 %rd2, [b];
    ld.param.u64 %rd4, [table];
    mul.wide.u32 %rd5, %r1, 4;
    add.u64 %rd4, %rd4, %rd5;
    BODY
    ld.param.u64 %rd6, [d];
    mul.wide.u32 %rd7, %r1, 8;
    add.u64 %rd6, %rd6, %rd7;
    st.global.v2.f32 [%rd6], {%f0, %f1};
    st.global.v2.f32 [%rd6+256], {%f2, %f3};
    ret;
}
"""


@cache
def _kernel(text: str) -> ptxlab.Kernel:
    return ptxlab.loads(text, file="fragments.ptx").kernel()


def arrays(a: NDArray[Any], b: NDArray[Any], of_a: Way, of_b: Way) -> list[NDArray[Any]]:
    """The matrices as the ways need them: transposed, with padding, of 8 bits."""
    found = []
    for matrix, way in ((a, of_a), (b, of_b)):
        laid = matrix.T if way.path in ("transposed", "packed") else matrix
        array = np.full((laid.shape[0], laid.shape[1] + way.padding), 7, ml_dtypes.float8_e4m3fn if way.path == "upcast" else np.float16)
        array[:, : laid.shape[1]] = laid
        found.append(array)
    return found


def launch(of_a: Way, of_b: Way, change: Callable[[str], str] = str, **options: Any) -> tuple[Any, bool]:
    """The result of a product of 16 x 8 of one warp, and whether it is right."""
    rng = np.random.default_rng(5)
    a, b = rng.integers(-4, 5, (2, 16, K)).astype(np.float16)
    d = np.zeros((16, 8), np.float32)
    writing = Writing()
    writing.bring("a", of_a, 16)
    writing.bring("b", of_b, 8)
    for step in range(SLOTS // 2):
        c = "%f0, %f1, %f2, %f3" if step else "0f00000000, 0f00000000, 0f00000000, 0f00000000"
        of_step = ", ".join(f"%a{4 * step + i}" for i in range(4))
        of_b_step = f"%b{4 * step}, %b{4 * step + 2}"
        writing.lines.append(
            f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{%f0, %f1, %f2, %f3}}, {{{of_step}}}, {{{of_b_step}}}, {{{c}}};"
        )
    text = change(_TEXT.replace("BODY", "\n    ".join(writing.lines)))
    args = [*arrays(a, b, of_a, of_b), d, np.stack(writing.table).astype(np.uint32)]
    result = _kernel(text).launch(block=32, args=args, check="operands", **options)
    return result, bool((d == a.astype(np.float64) @ b[:8].astype(np.float64).T).all())
