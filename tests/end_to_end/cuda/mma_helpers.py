"""Problems for ``tcgen05_mma.cu``: matrices of small numbers, where they stand in shared and tensor memory, and what comes out.

The places are written out here once more, from the tables of the ISA: nothing of ptxlab is used. The numbers are small enough that every
sum is exact.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from pathlib import Path

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tests.end_to_end.cuda.packing_helpers import codes_of, in_shared, in_tensor, scale_tiles_of

FORMS = Path(__file__).with_name("tcgen05_forms.inc")
STEPS = 2
A, METADATA, SCALE_A, SCALE_B = 256, 320, 352, 384
"""Columns of tensor memory; D begins at 0."""

STORED = {"f16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32, "mxf8f6f4": 32, "mxf4": 64, "mxf4nvf4": 64}
"""Elements of a row of A that one multiplication takes: 32 bytes."""
CODES = {
    "f16": {"f16": 0, "bf16": 1},
    "tf32": {"tf32": 2},
    "i8": {"u8": 0, "s8": 1},
    "f8f6f4": {"e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5},
    "mxf4": {"e2m1": 1},
    "mxf4nvf4": {"e2m1": 1},
}
CODES["mxf8f6f4"] = CODES["f8f6f4"]
D_CODES = {"f16": 0, "f32": 1, "s32": 2}
SCALES = {
    "scale_vec::1X": ("ue8m0", 1),
    "scale_vec::2X": ("ue8m0", 2),
    "scale_vec::4X": ("ue8m0", 4),
    "block16": ("ue4m3", 4),
}
PAIRS = {4: (0, 1), 8: (0, 2), 12: (0, 3), 9: (1, 2), 13: (1, 3), 14: (2, 3), 6: (2, 1)}
"""Code of a chunk of four -> the positions of the two elements that are stored."""


USES = ("fill", "use", "lastuse", "discard")
COLLECTORS = {
    "COLLECT_A": ("", *(f".collector::a::{use}" for use in USES)),
    "COLLECT_B": ("", *(f".collector::b{buffer}::{use}" for buffer in range(4) for use in USES)),
    "SHIFT_A": (".ashift", ".ashift.collector::a::lastuse", ".ashift.collector::a::discard"),
}
"""Macro of the list of forms -> what follows the opcode, in turn."""


@cache
def forms() -> dict[tuple[str, ...], int]:
    """(opcode, place of A, what stands behind B, behind the instruction descriptor, at the end) -> number in the list of forms."""
    pattern = re.compile(r'(\w+)\(\d, "([^"]+)", (\w+), (\w+), (\w+), (\w+)\)')
    lines = enumerate(map(pattern.match, FORMS.read_text().splitlines()), 1)
    return {
        (match[2] + collector, *match.groups()[2:]): 32 * line + use
        for line, match in lines
        if match
        for use, collector in enumerate(COLLECTORS[match[1]])
    }


@dataclass
class Problem:
    """One GEMM.

    ``vector`` is the qualifier of the scale factors. ``collectors`` follow the opcodes of the four multiplications of a step; the matrix
    that collector buffers keep (A; B with ``ws``) is in each the one of multiplication ``takes``.
    """

    kind: str
    m: int
    n: int
    a: str
    b: str
    d: str = "f32"
    group: int = 1
    ws: bool = False
    sparse: bool = False
    tensor_a: bool = False
    transpose_a: bool = False
    transpose_b: bool = False
    negate_a: bool = False
    negate_b: bool = False
    vector: str | None = None
    disabled: bool = False
    scale_d: bool = False
    zero_columns: bool = False
    saturate: bool = False
    k96: bool = False
    collectors: tuple[str, ...] = ("",) * 4
    takes: tuple[int, ...] = (0, 1, 2, 3)
    steps: int = STEPS
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))

    # ------------------------------------------------------------------------------------------ names and numbers

    @property
    def keys(self) -> list[tuple[str, ...]]:
        """The forms of the four multiplications of a step, as `forms` names them."""
        name = f"{'.ws' if self.ws else ''}{'.sp' if self.sparse else ''}.cta_group::{self.group}.kind::{self.kind}"
        if self.vector is not None:
            name += ".block_scale" + (f".{self.vector}" if self.vector else "")
        behind = "FACTORS" if self.vector is not None else f"DISABLED_{self.group}" if self.disabled else "NONE"
        tail = "ZERO_COLUMNS" if self.zero_columns else "SCALE_D" if self.scale_d else "NONE"
        place, metadata = "A_TENSOR" if self.tensor_a else "A_SHARED", "METADATA" if self.sparse else "NONE"
        return [(name + collector, place, metadata, behind, tail) for collector in self.collectors]

    @property
    def takes_a(self) -> tuple[int, ...]:
        return (0, 1, 2, 3) if self.ws else self.takes

    @property
    def takes_b(self) -> tuple[int, ...]:
        return self.takes if self.ws else (0, 1, 2, 3)

    @property
    def stored(self) -> int:
        return 96 if self.k96 else STORED[self.kind]

    @property
    def cells_a(self) -> int:
        """Cells of a row of A in tensor memory that one multiplication takes."""
        return 12 if self.k96 else 8

    @property
    def whole(self) -> int:
        """K of one multiplication."""
        return self.stored * (1 + self.sparse)

    @property
    def scales(self) -> tuple[str, int]:
        """The type of the scale factors, and how many a row has in one multiplication."""
        if self.vector in (None, "", "block32"):
            return "ue8m0", 3 if self.k96 else 1 if self.kind == "mxf8f6f4" else 2
        kind, count = SCALES[self.vector]
        return kind, 6 if self.k96 else count

    def descriptor(self, k: int) -> int:
        """The instruction descriptor of multiplication k of a step."""
        bits = (
            self.sparse << 2
            | self.saturate << 3
            | CODES[self.kind][self.a] << 7
            | CODES[self.kind][self.b] << 10
            | self.negate_a << 13
            | self.negate_b << 14
        )
        bits |= self.transpose_a << 15 | self.transpose_b << 16 | self.n >> 3 << 17 | self.m >> 4 << 24
        if self.vector is None:
            return bits | D_CODES[self.d] << 4 | self._selector(self.takes_a[k])
        kind, count = self.scales
        first_a, first_b = self.takes_a[k] * count % 4, self.takes_b[k] * count % 4
        return bits | first_b << 4 | (kind == "ue8m0") << 23 | first_a << 29 | self.k96 << 31

    def _selector(self, k: int) -> int:
        return k % 2 if self.sparse and self.kind in ("f16", "tf32") else 0

    # ------------------------------------------------------------------------------------------ places

    def place(self) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
        """CTA, lane and column of every element of D: the layouts A to G."""
        m, n = np.meshgrid(np.arange(self.m), np.arange(self.n), indexing="ij")
        if self.group == 2 and self.m == 256:
            return m // 128, m % 128, n
        if self.group == 2 and self.sparse:
            return m // 64, 32 * (m % 64 // 16) + m % 16, n
        if self.group == 2:
            return m // 64, m % 64 + 64 * (n // (self.n // 2)), n % (self.n // 2)
        if self.ws:
            part = self.n // (128 // self.m)
            return 0 * m, m + self.m * (n // part), n % part
        return 0 * m, (m if self.m == 128 else 32 * (m // 16) + m % 16), n

    def copies(self) -> tuple[int, ...]:
        """Lanes, from that of a row on, at which A and its metadata stand once more."""
        if self.group == 2:
            return (0, 64) if self.m == 128 and not self.sparse else (0,)
        return tuple(range(0, 128, self.m)) if self.ws else (0,)

    # ------------------------------------------------------------------------------------------ matrices

    def build(self) -> None:
        """Draw the matrices."""
        rng, stored, whole = self.rng, self.stored, self.whole
        count = 4 * self.steps
        low_a, low_b = (0 if t == "u8" else -2 for t in (self.a, self.b))
        self.few = rng.integers(low_a, 3, (self.m, count, stored)).astype(np.float64)
        self.full_b = rng.integers(low_b, 3, (self.n, count, whole)).astype(np.float64)
        self.full_a = self.few
        if self.sparse:
            self.chunks, position = self._sparsity(count)
            self.full_a = np.zeros((self.m, count, whole))
            np.put_along_axis(self.full_a, position, self.few, axis=2)
        self.c = rng.integers(-50, 50, (self.m, self.n)).astype(np.float64)
        if self.d == "s32":
            self.c += rng.choice([0, 2.0**31 - 51, 50 - 2.0**31], self.c.shape)
        kind, factors = self.scales
        if self.vector is not None:
            self.factors_a, self.factors_b = (self._factors(kind, (rows, count, factors)) for rows in (self.m, self.n))
        self.mask = rng.integers(0, 1 << 32, 8, np.uint64).astype(np.uint32) if self.disabled else np.zeros(8, np.uint32)

    def _sparsity(self, count: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Codes of the chunks [m, multiplication, chunk], and the place in the whole K of each stored element."""
        if self.kind == "tf32":
            codes = self.rng.choice([4, 14], (self.m, count, self.stored))
            return codes, 2 * np.arange(self.stored) + (codes == 14)
        together = 2 if self.kind in ("mxf4", "mxf4nvf4") else 1
        codes = self.rng.choice(list(PAIRS), (self.m, count, self.stored // (2 * together)))
        pairs = np.array([PAIRS.get(code, (0, 0)) for code in range(16)])[codes]
        chunk = np.arange(codes.shape[2])[:, None, None] * 4 * together
        return codes, (chunk + pairs[..., None] * together + np.arange(together)).reshape(self.m, count, self.stored)

    def _factors(self, kind: str, shape: tuple[int, ...]) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
        """Codes and values."""
        if kind == "ue8m0":
            codes = self.rng.integers(126, 129, shape).astype(np.uint8)
            return codes, 2.0 ** (codes.astype(np.float64) - 127)
        values = self.rng.choice([0.5, 1.0, 1.5, 2.0], shape)
        return values.astype(ml_dtypes.float8_e4m3fn).view(np.uint8), values

    def result(self) -> NDArray[np.float64]:
        """D."""
        d = self.c.copy()
        a, b = self.full_a * (-1 if self.negate_a else 1), self.full_b * (-1 if self.negate_b else 1)
        if self.vector is not None:
            each = self.whole // self.scales[1]
            a, b = a * np.repeat(self.factors_a[1], each, axis=2), b * np.repeat(self.factors_b[1], each, axis=2)
        keep = self._zero_mask()[0]
        for step, k in np.ndindex(self.steps, 4):
            of_a, of_b = 4 * step + self.takes_a[k], 4 * step + self.takes_b[k]
            product = np.ascontiguousarray(a[:, of_a]) @ np.ascontiguousarray(b[:, of_b]).T  # BLAS takes no gaps between rows
            d = d / (8 if self.scale_d else 1) + product * keep
            if self.saturate:
                d = np.clip(d, -(2.0**31), 2.0**31 - 1)
        return d

    def _zero_mask(self) -> tuple[NDArray[np.float64], tuple[int, int]]:
        """1 for the columns of B that count, and the mask's descriptor: section "Zero-Column Mask Descriptor"."""
        if not self.zero_columns:
            return np.ones(self.n), (0, 0)
        banks = 128 // self.m
        skip, use = 3, 5  # columns that are zero, columns that count
        starts, firsts = [2, 0, 1, 2], [0, 1, 1, 0]
        column = np.arange(self.n // banks)
        keep = []
        for bank in range(banks):
            p = (column + starts[bank]) % (skip + use)
            keep.append(p >= skip if firsts[bank] else p < use)
        low = sum(start << 8 * i for i, start in enumerate(starts))
        high = sum(first << i for i, first in enumerate(firsts)) | 1 << 7 | (skip - 1) << 8 | (use - 1) << 16
        return np.concatenate(keep).astype(np.float64), (low, high)

    # ------------------------------------------------------------------------------------------ memory

    def rows(self, matrix: NDArray[np.float64], kind: str, transposed: bool) -> NDArray[np.uint8]:
        """A matrix [rows, multiplication, K] as the kernel loads it: [CTA, step, row of 128 bytes]."""
        own = len(matrix) // self.group
        found = []
        for part in matrix.reshape(self.group, own, self.steps, -1).transpose(0, 2, 1, 3).reshape(self.group * self.steps, own, -1):
            if transposed:
                raw = codes_of(part, kind).T.copy().view(np.uint8)  # rows of K
                found.append(raw.reshape(len(raw), -1, 128).transpose(1, 0, 2).reshape(-1, 128))
            else:
                raw = in_shared(part, kind, self.kind).reshape(own, -1, 96 if self.k96 else 128)
                tiles = np.zeros((raw.shape[1], own, 128), np.uint8)  # K of 96: two multiplications in a row, then 32 bytes of nothing
                tiles[:, :, : raw.shape[2]] = raw.transpose(1, 0, 2)
                found.append(tiles.reshape(-1, 128))
        return np.stack(found).reshape(self.group, self.steps, -1, 128)

    def places_in_rows(self, own: int, kind: str, transposed: bool, sparse: bool) -> tuple[list[int], int]:
        """Bytes from the first row to each multiplication's part of a step, and the leading dimension byte offset."""
        if not transposed:
            tile = own * 128
            each = 48 if self.k96 else 64
            return [k // 2 * tile + k % 2 * each if sparse or self.k96 else 32 * k for k in range(4)], 16
        bits = {"f16": 16, "tf32": 32}.get(self.kind, 8)
        rows = 4 * self.whole
        return [k * self.whole * 128 for k in range(4)], rows * 128 if own * bits > 1024 else 16

    def tensor_before(self) -> NDArray[np.uint32]:
        """Tensor memory [CTA, lane, column]: bits that must stay, C, and perhaps A and the metadata."""
        before = self.rng.integers(0, 1 << 32, (self.group, 128, 512), np.uint64).astype(np.uint32)
        cta, lane, column = self.place()
        before[cta, lane, column] = self.cells(self.c)
        row_cta, row_lane = cta[:, 0], lane[:, 0]
        for copy in self.copies():
            if self.tensor_a:
                words = in_tensor(self.few.reshape(self.m, -1), self.a, self.kind)
                before[row_cta[:, None], row_lane[:, None] + copy, A + np.arange(words.shape[1])] = words
            if self.sparse:
                self._place_metadata(before, row_cta, row_lane + copy)
        return before

    def _place_metadata(self, before: NDArray[np.uint32], ctas: NDArray[np.intp], lanes: NDArray[np.intp]) -> None:
        """Four bits for each chunk; in the narrow form rows r and r + 8 share the 16-bit halves of cells."""
        narrow = self.kind in ("f16", "tf32")
        for half in (0, 1):
            rows = np.flatnonzero(lanes % 16 // 8 == half)
            p, cta = lanes[rows], ctas[rows]
            for k, c in np.ndindex(self.chunks.shape[1:]):
                lane, column, bit = p, METADATA + 2 * k + c // 8, 4 * (c % 8)
                if narrow:
                    lane = 32 * (p // 32) + p % 8 + 16 * (p % 32 // 16) + 8 * (c // 4)
                    column, bit = METADATA + 2 * k + self._selector(k % 4), 16 * half + 4 * (c % 4)
                old = before[cta, lane, column] & ~np.uint32(15 << bit)
                before[cta, lane, column] = old | self.chunks[rows, k, c].astype(np.uint32) << np.uint32(bit)

    def cells(self, values: NDArray[np.float64]) -> NDArray[np.uint32]:
        if self.d == "s32":
            return values.astype(np.int64).astype(np.uint32)
        if self.d == "f16":
            return (values + 0.0).astype(np.float16).view(np.uint16).astype(np.uint32)
        return (values + 0.0).astype(np.float32).view(np.uint32)

    @property
    def split_b(self) -> bool:
        """Whether the scale factors of B stand in two halves of the lanes, as its columns do in D."""
        return self.vector is not None and self.group == 2 and self.m == 128

    def scale_tiles(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Tiles of the scale factors of A and of B, [CTA, step, tile, halves, 512]; every CTA has all of B's."""
        if self.vector is None:
            nothing = np.zeros((self.group, self.steps, 0, 1, 512), np.uint8)
            return nothing, nothing
        own = self.m // self.group
        a = [scale_tiles_of(self.factors_a[0][cta * own : (cta + 1) * own], self.steps) for cta in range(self.group)]
        b = [scale_tiles_of(half, self.steps) for half in np.split(self.factors_b[0], 1 + self.split_b)]
        return np.stack(a)[:, :, :, None], np.stack([np.stack(b, axis=2)] * self.group)

    def tensor_after(self, before: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Tensor memory afterwards."""
        after = before.copy()
        cta, lane, column = self.place()
        after[cta, lane, column] = self.cells(self.result())
        if self.disabled:
            bits = np.unpackbits(self.mask.view(np.uint8), bitorder="little").reshape(2, 128).astype(bool)[: self.group]
            after[:, :, :256][bits] = before[:, :, :256][bits]
        for step, k in np.ndindex(self.steps, 4):
            if ".ashift" in self.collectors[k]:
                first = A + 32 * step + 8 * self.takes[k]
                rows = after[:, :, first : first + 8].reshape(self.group, 4, 32, 8)
                rows[:, :, :-1] = rows[:, :, 1:].copy()
                after[:, :, first : first + 8] = rows.reshape(self.group, 128, 8)
        for first, tiles in zip((SCALE_A, SCALE_B), self.scale_tiles(), strict=True):
            for i in range(tiles.shape[2]):
                rows = tiles[:, -1, i].reshape(self.group, -1, 32, 16)
                words = np.repeat(rows, 4 // rows.shape[1], axis=1).reshape(self.group, 128, 16).view(np.uint32)
                after[:, :, first + 4 * i : first + 4 * i + 4] = words
        return after

    # ------------------------------------------------------------------------------------------ launch

    def multiplications(self, a: list[int], b: list[int]) -> list[list[int]]:
        """What the four multiplications of a step differ in; ``a`` and ``b`` are the places in shared memory."""
        factors = self.scales[1]
        group_a, group_b = ([k * factors // 4 for k in takes] for takes in (self.takes_a, self.takes_b))
        rows_a, rows_b = -(-(self.m // self.group) // 128), 1 if self.split_b else -(-self.n // 128)
        return [
            [forms()[key] for key in self.keys],
            [self.descriptor(k) for k in range(4)],
            [A + self.cells_a * k if self.tensor_a else a[k] for k in self.takes_a],
            [b[k] for k in self.takes_b],
            [0] * 4,
            [METADATA + 2 * k for k in self.takes_a],
            [SCALE_A + 4 * rows_a * g for g in group_a],
            [SCALE_B + 4 * rows_b * g for g in group_b],
            [1] * 4,
        ]

    def arguments(self, before: NDArray[np.uint32]) -> tuple[list[object], int]:
        """The kernel's arguments, the result last, and the bytes of shared memory."""
        a = self.rows(self.few, self.a, self.transpose_a)
        b = self.rows(self.full_b, self.b, self.transpose_b)
        a_places, a_leading = self.places_in_rows(self.m // self.group, self.a, self.transpose_a, False)
        b_places, b_leading = self.places_in_rows(self.n // self.group, self.b, self.transpose_b, self.sparse)
        tiles = self.scale_tiles()
        scales = np.concatenate([t.reshape(self.group, self.steps, -1) for t in tiles], axis=2)
        counts = [t.shape[2] for t in tiles]
        each = self.multiplications(a_places, b_places)
        base32 = [self.kind == "tf32" and transposed for transposed in (self.transpose_a, self.transpose_b)]
        head = [self.steps, a.shape[2], b.shape[2], a_leading, b_leading, *counts, SCALE_A, SCALE_B, self.split_b, self.tensor_a, *base32]
        shape = np.array([*head, *self.mask.tolist(), *self._zero_mask()[1], *chain(*each), 4 * self.cells_a, 8], np.uint32)
        shared = 128 * (a.shape[2] + b.shape[2]) + scales.shape[2]
        return [shape.tobytes(), a, b, scales if scales.size else np.zeros(16, np.uint8), before, np.zeros_like(before)], shared
