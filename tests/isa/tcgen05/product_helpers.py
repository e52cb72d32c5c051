"""Products of tcgen05.mma in whole kernels, and what `ptxlab.layout` and `ptxlab.numerics` say that they give."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab import formats, numerics
from ptxlab.descriptors import InstructionDescriptor, ZeroColumnMask
from ptxlab.layout import (
    a_location,
    accumulator_location,
    metadata_chunks,
    metadata_location,
    metadata_positions,
    scale_factor_location,
    zero_column_mask,
)
from ptxlab.tables import MMA_KINDS, PACKINGS, SCALE_IDS, SCALE_VECTOR_TYPES, TYPE_BITS, data_path_of, scale_vector_of
from tests.isa.tcgen05.mma_form_cases import Form
from tests.isa.tcgen05.placing_helpers import HALF, Layout, absolute, arrange, put_cells, write
from tests.isa.tcgen05.tcgen05_helpers import BASE, execute, random_state

Codes = NDArray[Any]
INTEGERS = ("s8", "u8")
A, SCALE_A, SCALE_B, METADATA = 400, 416, 432, 464
"""Columns of tensor memory where operands are put, less a small offset."""


def random_codes(rng: np.random.Generator, type: str, shape: tuple[int, ...]) -> Codes:
    """Codes of moderate numbers; now and then any bits."""
    row = formats.FORMATS[type]
    if type in INTEGERS or rng.random() < 0.1:
        return rng.integers(0, 1 << row.bits, shape, np.uint64).astype(row.dtype)
    return formats.encode(rng.normal(0, 1, shape), type).astype(row.dtype)


def scale_codes(rng: np.random.Generator, type: str, shape: tuple[int, int]) -> Codes:
    """Codes of scale factors around 1."""
    return rng.integers(*((120, 134) if type == "ue8m0" else (0x28, 0x48)), shape).astype(np.uint8)


@dataclass
class Product:
    """One product: a form of the catalogue, a row of the tables, and everything else at random.

    ``fields`` are further fields of the instruction descriptor; ``zero`` is the zero-column mask.
    """

    form: Form
    m: int
    n: int
    a: str
    b: str
    d: str
    rng: np.random.Generator
    k96: bool = False
    scale: str = ""
    swizzles: tuple[str, str] = ("", "")
    shifted: bool = False
    zero: ZeroColumnMask = field(default_factory=ZeroColumnMask)
    fields: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        form = self.form
        self.kind = str(form.choice("kind"))[6:]
        self.group = int(str(form.choice("cta_group"))[-1])
        self.ws, self.sparse = form.has("ws"), form.has("sp")
        self.in_tensor = "a-tmem" in form.operands
        self.path = data_path_of(self.m, self.group, self.ws, self.sparse)
        self.k = 96 if self.k96 else MMA_KINDS[self.kind].k * (1 + self.sparse)
        self.stored = self.k // (1 + self.sparse)
        self.lane = int(self.rng.choice(self.path.alignment))
        self.column = int(self.rng.integers(0, 129))
        self.offset = int(self.rng.integers(0, 4))
        if MMA_KINDS[self.kind].scale:
            vector = form.choice("scale_vectorsize") or "block32"
            fitting = [s for (kind, s), names in SCALE_VECTOR_TYPES.items() if kind == self.kind and vector in names]
            row = scale_vector_of(self.kind, vector, self.k)
            assert row is not None
            self.scales = row.scales
            ids = [int(self.rng.choice(SCALE_IDS[row.scales])) for _ in range(2)]
            self.fields = {
                "scale": self.scale or str(self.rng.choice(fitting)),
                "scale_a_id": ids[0],
                "scale_b_id": ids[1],
                "k96": self.k96,
            } | self.fields
        elif self.sparse and self.kind in ("f16", "tf32"):
            self.fields = {"selector": int(self.rng.integers(2))} | self.fields
        self.idesc = InstructionDescriptor(
            kind=self.kind, m=self.m, n=self.n, a=self.a, b=self.b, d=self.d, sparse=self.sparse, **self.fields
        )

    # ----------------------------------------------------------------------------------------------------- the operands

    def _draw(self) -> None:
        rng, m, n = self.rng, self.m, self.n
        self.a_codes = random_codes(rng, self.a, (m, self.stored))
        self.b_codes = random_codes(rng, self.b, (n + self.zero.shift, self.k))
        self.metadata = None
        if self.sparse:
            legal = [code for code in range(16) if metadata_positions(self.kind, code) is not None]
            self.metadata = rng.choice(legal, (m, metadata_chunks(self.kind))).astype(np.uint8)
        c = rng.integers(-(1 << 31), 1 << 31, (m, n)).astype(np.uint32) if self.d == "s32" else random_codes(rng, self.d, (m, n))
        self.c_bits = c.astype(np.uint32)
        self.factors = [scale_codes(rng, self.idesc.scale, (rows, self.scales)) for rows in (m, n)] if self.idesc.scale else []

    def _place_a(self, image: NDArray[np.uint8], cells: NDArray[np.uint32]) -> int:
        """Matrix A, and the operand that names it."""
        if self.in_tensor:
            container = MMA_KINDS[self.kind].container
            family = "mxf4" if container == 4 else "f8f6f4"
            low = PACKINGS[family, "tensor memory", TYPE_BITS[self.a]].low if TYPE_BITS[self.a] < 8 else 0
            at = a_location(self.m, self.stored, container, self.group, self.ws, self.sparse, self.lane)
            put_cells(cells, (at.cta, A + self.offset + at.column, at.lane), at.bit, self.a_codes.astype(np.uint64) << low, container)
            return (self.lane << 16) + A + self.offset
        rows = self.m // self.group
        layout = self._layout("a", rows, self.stored)
        for cta in range(self.group):
            write(image[cta], layout, self.a_codes[cta * rows : (cta + 1) * rows])
        return int(layout.descriptor)

    def _place_b(self, image: NDArray[np.uint8]) -> int:
        rows = len(self.b_codes) // self.group
        layout = self._layout("b", rows, self.k)
        for cta in range(self.group):
            write(image[cta], layout, self.b_codes[cta * rows : (cta + 1) * rows])
        return int(layout.descriptor)

    def _layout(self, name: str, rows: int, k: int) -> Layout:
        which = name == "b"
        major = "mn" if self.fields.get(f"transpose_{name}") else "k"
        base = BASE + which * HALF
        if self.k96 and self.rng.integers(4):
            # Eight instructions of 48 bytes walk over three buffers of 128; some leave one of them.
            layout = arrange(self.rng, self.kind, getattr(self, name), rows, k, base, swizzle="128B")
            return absolute(layout, base + 16 * int(self.rng.integers(0, 8)), base + HALF // 2)
        swizzle = self.swizzles[which]
        return arrange(self.rng, self.kind, getattr(self, name), rows, k, base, major, swizzle, self.shifted)  # type: ignore[arg-type]

    def _place_factors(self, cells: NDArray[np.uint32]) -> tuple[int, int]:
        if not self.factors:
            return 0, 0
        split = self.m == 128 and self.group == 2
        own = self.m // self.group
        for column, codes, key in ((SCALE_A, self.factors[0], "scale_a_id"), (SCALE_B, self.factors[1], "scale_b_id")):
            of_a = column == SCALE_A
            at = scale_factor_location(own if of_a else self.n, self.scales, self.fields[key], split and not of_a)
            for cta in range(self.group):
                mine = codes[cta * own : (cta + 1) * own] if of_a else codes
                put_cells(cells[cta], (column + self.offset + at.column, at.lane), 8 * at.byte, mine, 8)
        return SCALE_A + self.offset, SCALE_B + self.offset

    def _place_metadata(self, cells: NDArray[np.uint32]) -> int:
        if self.metadata is None:
            return 0
        at = metadata_location(self.kind, self.m, self.group, self.ws, self.fields.get("selector", 0), self.lane)
        put_cells(cells, (at.cta, METADATA + self.offset + at.column, at.lane), at.bit, self.metadata, 4)
        return (self.lane << 16) + METADATA + self.offset

    # --------------------------------------------------------------------------------------------------- the instruction

    def text(self, opcode: str, scale: int | None) -> str:
        """The instruction with the names of the bench's registers."""
        names = {
            "d-tmem": "[da]",
            "a-tmem": "[at]",
            "a-desc": "ad",
            "b-desc": "bd",
            "sp-meta-tmem": "[sp]",
            "idesc": "id",
            "scale-A-tmem": "[sa]",
            "scale-B-tmem": "[sb]",
            "disable-output-lane": "{" + ", ".join(f"m{i}" for i in range(4 * self.group)) + "}",
            "enable-input-d": "e",
            "scale-input-d": str(scale),
            "zero-column-mask-desc": "zd",
        }
        return f"{opcode} {', '.join(names[name] for name in self.form.operands)}"

    def check(self, **options: Any) -> None:
        """Run the product; tensor memory is afterwards what the reference says, and nothing else has changed."""
        self._draw()
        rng = self.rng
        image, before = random_state(rng, self.group)
        at = accumulator_location(self.m, self.n, self.group, self.ws, self.sparse, self.lane)
        place = (at.cta, self.column + at.column, at.lane)
        garbage = rng.integers(0, 1 << 16, self.c_bits.shape).astype(np.uint32) << np.uint32(16) if self.d == "f16" else np.uint32(0)
        before[place] = self.c_bits | garbage
        values = {
            "a": self._place_a(image, before),
            "b": self._place_b(image),
            "factors": self._place_factors(before),
            "metadata": self._place_metadata(before),
        }
        words = rng.integers(0, 1 << 32, 8, np.uint32) if "disable-output-lane" in self.form.operands else np.zeros(8, np.uint32)
        kept = np.unpackbits(words.view(np.uint8), bitorder="little").astype(bool)[128 * at.cta + at.lane]
        enable, scale = bool(rng.integers(4)), int(rng.integers(16)) if "scale-input-d" in self.form.operands else None
        lines = [self.text(self.form.opcode, scale)]
        if self.form.opcode.endswith("use"):
            lines.insert(0, self.text(self.form.opcode.replace(".ashift", "").replace("lastuse", "fill").replace("use", "fill"), scale))
        after = execute(
            ";\n@p ".join(lines),
            image,
            before,
            idesc=int(self.idesc),
            d=(self.lane << 16) + self.column,
            enable=enable,
            mask=tuple(int(word) for word in words),
            zero_columns=int(self.zero) if "zero-column-mask-desc" in self.form.operands else 0,
            group=self.group,
            target="sm_103a" if self.k96 else "sm_100a",
            policy=str(rng.choice(["eager", "lazy", "random"])),
            **values,
            **options,
        )
        bits = self.c_bits
        expected = before.copy()
        for _ in lines:
            bits = np.where(kept, bits, self._reference(bits if enable else None, scale or 0))
        expected[place] = np.where(kept, before[place], bits)
        if self.form.has("ashift"):
            rows = expected[:, A + self.offset : A + self.offset + 8].reshape(self.group, 8, 4, 32)
            rows[..., :-1] = rows[..., 1:].copy()
        wrong = np.argwhere(after != expected)
        assert not len(wrong), (len(wrong), wrong[:4].tolist(), self)

    def _reference(self, c_bits: NDArray[np.uint32] | None, scale: int) -> NDArray[np.uint32]:
        b = self.b_codes[self.zero.shift :].copy()
        b[zero_column_mask(self.zero, self.m, self.n)] = 0
        options: dict[str, Any] = {}
        if self.factors:
            options = {
                "scale_a": self.factors[0],
                "scale_b": self.factors[1],
                "scale": self.idesc.scale,
                "block": self.stored // self.scales,
            }
        if c_bits is not None:
            options["C"] = c_bits.astype(np.uint16) if self.d == "f16" else c_bits
        found = numerics.mma(
            arch="tcgen05",
            kind=self.kind,
            a=self.a,
            b=self.b,
            d=self.d,
            A=self.a_codes,
            B=b,
            saturate=self.idesc.saturate,
            negate_a=self.idesc.negate_a,
            negate_b=self.idesc.negate_b,
            scale_input_d=scale if c_bits is not None else 0,
            metadata=self.metadata,
            **options,
        )
        return found.astype(np.uint32)
