"""Every form of tcgen05.mma, and every row of the tables about it, in whole kernels against `ptxlab.numerics` on placed operands.

Tables are named by their titles; the rows are those of `ptxlab.tables`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ptxlab.descriptors import InstructionDescriptor, ZeroColumnMask, format_of
from ptxlab.isa.catalogue import Row
from ptxlab.tables import (
    BLOCK_SCALED_KINDS,
    K96_TARGETS,
    KINDS,
    MMA_KINDS,
    SCALE_IDS,
    SCALE_VECTOR_TYPES,
    SCALE_VECTORS,
    SHAPES,
    SWIZZLES,
    TRANSPOSED_8_BIT_N,
    TYPE_BITS,
    scale_vector_of,
)
from tests.isa.tcgen05.mma_form_cases import Form, cover, forms, hash_of, rows
from tests.isa.tcgen05.placing_helpers import modes
from tests.isa.tcgen05.product_helpers import Product
from tests.sweep_helpers import one_in
from tests.tables.specification_helpers import PATTERN_STARTS, TYPE_SIZES

SHOWS = {
    "test_forms": ("tcgen05.mma*",),
}

MMA = rows("mma")
LINES = list(SHAPES)
"""The lines of table "Various combinations of .kind and shapes": (kind, .ws, cta_group, sparse)."""


def generator(*words: object) -> np.random.Generator:
    return np.random.default_rng(hash_of(*words))


def type_rows(kind: str) -> list[tuple[str, str, str]]:
    """Types of A, B and D that go together."""
    row = MMA_KINDS[kind]
    pairs = [(a, b) for a in row.ab for b in row.ab]
    return [(a, b, d) for d in row.d for a, b in pairs if {a, b} <= row.d_for_ab.get(d, {a, b})]


def line_of(form: Form) -> tuple[str, bool, int, bool]:
    return str(form.choice("kind"))[6:], form.has("ws"), int(str(form.choice("cta_group"))[-1]), form.has("sp")


def zero_columns(rng: np.random.Generator, m: int, shift: int) -> ZeroColumnMask:
    skip, use = (int(x) for x in rng.integers(0, 12, 2))
    spans = tuple(int(x) for x in rng.integers(0, 2, 4))
    counts = tuple(int(rng.integers(0, (skip if first else use) + 1)) for first in spans)
    return ZeroColumnMask(counts, spans, bool(rng.integers(4)), skip, use, shift)  # type: ignore[arg-type]


def random_product(form: Form, rng: np.random.Generator, m: int, n: int, types: tuple[str, str, str], **more: Any) -> Product:
    """The product of a form with random legal flags."""
    kind, _, group, _ = line_of(form)
    a, b, d = types
    row = MMA_KINDS[kind]
    in_tensor = "a-tmem" in form.operands
    fields: dict[str, Any] = {}
    for name, type in (("a", a), ("b", b)):
        fields[f"negate_{name}"] = row.negate and bool(rng.integers(2))
        free = row.transpose and TYPE_BITS[type] >= 8 and not (name == "a" and in_tensor)
        fits = name == "a" or TYPE_BITS[type] != 8 or n in TRANSPOSED_8_BIT_N[group]
        fields[f"transpose_{name}"] = free and fits and bool(rng.integers(2))
    if row.saturate:
        fields["saturate"] = bool(rng.integers(2))
    if "zero-column-mask-desc" in form.operands:
        fields["max_shift"] = int(rng.choice([0, 8, 16, 32]))
        # Columns behind those of the product must lie where B of this layout has them.
        shift = int(rng.integers(0, min(fields["max_shift"], 16 if m == 32 else 32) + 1))
        more["zero"] = zero_columns(rng, m, shift)
    return Product(form, m, n, a, b, d, rng, fields=fields | more.pop("fields", {}), **more)


def forms_of(kind: str, ws: bool, group: int, sparse: bool, in_tensor: bool = False, **choices: str | None) -> list[Form]:
    """Forms without .ashift and collector qualifiers, with all operands that may be missing."""
    found = []
    for row in MMA:
        if ("a-tmem" in dict(row.operands)) != in_tensor or ".ashift" in row.pattern:
            continue
        for form in forms(row):
            fits = line_of(form) == (kind, ws, group, sparse) and form.choice("collector") is None
            if fits and len(form.operands) == len(row.operands) and all(form.choice(c) == v for c, v in choices.items()):
                found.append(form)
    assert found
    return found


def execute_form(form: Form, **options: Any) -> None:
    rng = generator(form.opcode, form.operands)
    line = line_of(form)
    shapes = SHAPES[line]
    m = int(rng.choice([m for m in shapes.m if m >= 128 or not form.has("ashift")]))
    types = type_rows(line[0])
    random_product(form, rng, m, int(rng.choice(list(shapes.n))), types[int(rng.integers(len(types)))]).check(**options)


@pytest.mark.parametrize("row", one_in(6, MMA), ids=[str(i) for i in range(len(MMA))])
def test_forms(row: Row) -> None:
    """Each modifier and each operand of each row of the catalogue; nothing is said against the order of events of the first."""
    for i, form in enumerate(cover(row)):
        execute_form(form, **({} if i else {"check": "all"}))


@pytest.mark.slow
@pytest.mark.parametrize("row", MMA, ids=[str(i) for i in range(len(MMA))])
def test_all_forms(row: Row) -> None:
    """All combinations of modifiers and operands."""
    for form in forms(row):
        execute_form(form)


def shapes_of(line: tuple[str, bool, int, bool], whole: bool) -> list[tuple[int, int, tuple[str, str, str]]]:
    """M, N and types: all M; all N, or the ends and some between; all rows of types, or a part of many, another one for each line."""
    shapes = SHAPES[line]
    some = sorted({shapes.n[0], shapes.n[1], shapes.n[-1], shapes.n[len(shapes.n) // 2]})
    pairs = [(m, n) for m in shapes.m for n in (shapes.n if whole else some)]
    types = type_rows(line[0])
    if not whole and len(types) > len(pairs):
        types = types[LINES.index(line) % 4 :: 4]
    return [(*pairs[i % len(pairs)], types[i % len(types)]) for i in range(max(len(pairs), len(types)))]


def execute_shapes(line: tuple[str, bool, int, bool], whole: bool) -> None:
    listed = {in_tensor: forms_of(*line, in_tensor=in_tensor) for in_tensor in (False, True)}
    for i, (m, n, types) in enumerate(shapes_of(line, whole)):
        rng = generator(line, m, n, types)
        choices = listed[bool((i + i // len(SHAPES[line].m)) % 2)]
        random_product(choices[i % len(choices)], rng, m, n, types).check()


@pytest.mark.parametrize("line", one_in(5, [(line,) for line in LINES]), ids=str)
def test_kinds_and_shapes(line: tuple[str, bool, int, bool]) -> None:
    """Table "Various combinations of .kind and shapes": every line, every M and row of types, some N."""
    execute_shapes(line, False)


@pytest.mark.slow
@pytest.mark.parametrize("line", LINES, ids=str)
def test_all_kinds_and_shapes(line: tuple[str, bool, int, bool]) -> None:
    """The same with every N."""
    execute_shapes(line, True)


@pytest.mark.parametrize("swizzle", PATTERN_STARTS)
@pytest.mark.parametrize("major", ["k", "mn"])
def test_starts_of_the_repeating_pattern(swizzle: str, major: str) -> None:
    """Tables "Shared memory descriptor layout" and "Starting address of repeating pattern": patterns that begin off their boundary."""
    form = forms_of("f16", False, 1, False)[0]
    for seed in range(12):
        fields = {"transpose_a": major == "mn", "transpose_b": major == "mn"}
        rng = generator(swizzle, major, seed)
        Product(form, 128, 64, "f16", "f16", "f32", rng, swizzles=(swizzle, swizzle), shifted=True, fields=fields).check()


def legal_values(kind: str) -> list[tuple[str, Any]]:
    """Every value of every field of the instruction descriptor but the shape, sparsity, and what needs K = 96."""
    found: list[tuple[str, Any]] = []
    for item in format_of("idesc", kind).fields:
        if item.name in ("m", "n", "sparse", "k96", "selector", "scale_a_id", "scale_b_id"):
            continue
        flag = item.name.split("_")[0]
        if flag in ("negate", "transpose") and not getattr(MMA_KINDS[kind], flag):
            continue
        if item.name == "saturate" and not MMA_KINDS[kind].saturate:
            continue
        assert item.values is not None, item
        found += [(item.name, value) for value in item.values]
    return found


@pytest.mark.parametrize("kind", one_in(4, MMA_KINDS))
def test_fields_of_the_instruction_descriptor(kind: str) -> None:
    """Tables "Instruction descriptor format for ...": each legal value of each field."""
    for name, value in legal_values(kind):
        rng = generator(kind, name, value)
        types = [t for t in type_rows(kind) if name not in ("a", "b", "d") or dict(zip("abd", t, strict=True))[name] == value]
        if name in ("transpose_a", "transpose_b"):
            types = [t for t in types if TYPE_BITS[t["ab".index(name[-1])]] >= 8]
        a, b, d = types[int(rng.integers(len(types)))]
        fields = {} if name in ("a", "b", "d", "scale") else {name: value}
        scale = value if name == "scale" else ""
        vectors = [v for v in SCALE_VECTOR_TYPES.get((kind, scale or "ue8m0"), ()) if v.startswith("block")]
        choices = {"scale_vectorsize": vectors[0]} if vectors else {}
        form = forms_of(kind, False, 1, False, **choices)[0]
        Product(form, 128, 64, a, b, d, rng, scale=scale, fields=fields).check()


class ColumnNumbers(Product):
    """A product whose every row is the number of the column of B that was used, or 0."""

    def _draw(self) -> None:
        self.a_codes, self.b_codes = np.zeros((self.m, self.k), np.uint8), np.zeros((self.n + 2, self.k), np.uint8)
        self.a_codes[:, 0], self.b_codes[:, 0] = 1, np.arange(self.n + 2)
        self.c_bits = np.zeros((self.m, self.n), np.uint32)
        self.metadata, self.factors = None, []

    def _reference(self, c_bits: Any, scale: int) -> Any:
        # The four masks of the example from column 0 on, where the text prints it at the right.
        first = ("1110000" * 5)[:32], ("11" + "0000111" * 5)[:32], ("00" + "1110000" * 5)[:32], ("000" + "1110000" * 5)[:32]
        used = np.arange(2, 130)
        return np.broadcast_to(np.where([bit == "1" for bit in "".join(first)], 0, used), (self.m, self.n)).astype(np.uint32)


def test_the_fourth_example_of_zero_columns() -> None:
    """Section "Zero-Column Mask Descriptor": with N = 128 and a shift of 2, columns 2 to 129 of B are used."""
    zero = ZeroColumnMask(start_counts=(0, 1, 2, 1), first_spans=(1, 1, 0, 0), non_zero=True, skip_span=2, use_span=3, shift=2)
    form = forms_of("i8", True, 1, False, in_tensor=False)[0]
    for transposed in (False, True):
        fields = {"max_shift": 8, "transpose_b": transposed}
        ColumnNumbers(form, 32, 128, "u8", "u8", "s32", generator("fourth", transposed), zero=zero, fields=fields).check()


@pytest.mark.parametrize("m", [32, 64, 128])
@pytest.mark.parametrize("sparse", [False, True])
def test_zero_columns(m: int, sparse: bool) -> None:
    """Table "Zero-Column Mask descriptor layout": spans, start counts and shifts, for every number of sub-masks."""
    for kind in KINDS:
        form = forms_of(kind, True, 1, sparse, in_tensor=bool(m % 3))[0]
        for shift in (0, 1, 8, 16) if m == 32 else (0, 3, 32):
            rng = generator(m, sparse, kind, shift)
            n = int(rng.choice(list(SHAPES[kind, True, 1, sparse].n)))
            a, b, d = type_rows(kind)[0]
            zero = zero_columns(rng, m, shift)
            Product(form, m, n, a, b, d, rng, zero=zero, fields={"max_shift": 32}).check()


OPERANDS = [
    (kind, major, swizzle)
    for kind, row in MMA_KINDS.items()
    for major in ("k", "mn")
    for swizzle in SWIZZLES
    if (major == "k" or row.transpose) and swizzle in modes(kind, next(iter(row.ab)), major, 32)  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("kind", "major", "swizzle"), one_in(5, OPERANDS))
def test_sizes_major_ness_and_swizzling(kind: str, major: str, swizzle: str) -> None:
    """Tables "Transpose and Negate operation", "... 8bit transpose B", "Valid Combinations of Type-Size, Major-ness and Swizzling",
    "Major-ness for different matrices" and "Layout for swizzle atoms"."""
    transposed = major == "mn"
    sizes = {TYPE_BITS[t] for t in MMA_KINDS[kind].ab}
    assert any(swizzle in row.swizzles and row.major == major and sizes & set(row.bits) for row in TYPE_SIZES)
    for group, in_tensor in ((1, False), (1, True), (2, False), (2, True)):
        rng = generator(kind, major, swizzle, group, in_tensor)
        choices = {"scale_vectorsize": "block32"} if MMA_KINDS[kind].scale else {}
        form = forms_of(kind, False, group, False, in_tensor, **choices)[0]
        types = [t for t in type_rows(kind) if not transposed or min(TYPE_BITS[t[0]], TYPE_BITS[t[1]]) >= 8]
        a, b, d = types[int(rng.integers(len(types)))]
        shapes = SHAPES[kind, False, group, False]
        n = int(rng.choice([n for n in shapes.n if n in TRANSPOSED_8_BIT_N[group]]))
        fields = {
            "transpose_a": transposed and not in_tensor,
            "transpose_b": transposed,
            "negate_a": MMA_KINDS[kind].negate,
            "negate_b": False,
        }
        Product(form, int(rng.choice(shapes.m)), n, a, b, d, rng, swizzles=(swizzle, swizzle), fields=fields).check()


SCALINGS = [
    (row.kind, row.name, row.k, scale)
    for row in SCALE_VECTORS
    for (kind, scale), names in SCALE_VECTOR_TYPES.items()
    if kind == row.kind and row.name in names
]


@pytest.mark.parametrize(("kind", "vector", "k", "scale"), one_in(4, SCALINGS))
@pytest.mark.parametrize("group", [1, 2])
def test_scale_vectors(kind: str, vector: str, k: int, scale: str, group: int) -> None:
    """Tables "Valid combinations of scale_vectorsize and shapes" and "... with types and MMA-Kind", with every scale factor ID."""
    row = scale_vector_of(kind, vector, k)
    assert row is not None
    for scale_id in SCALE_IDS[row.scales]:
        for sparse in (False,) if k else (False, True):
            rng = generator(kind, vector, k, scale, group, scale_id, sparse)
            shapes = SHAPES[kind, False, group, sparse]
            for m in shapes.m:
                form = forms_of(kind, False, group, sparse, bool(rng.integers(2)), scale_vectorsize=vector)[0]
                a, b, d = type_rows(kind)[int(rng.integers(len(type_rows(kind))))]
                other = int(rng.choice(SCALE_IDS[row.scales]))
                n = int(rng.choice(list(shapes.n)))
                product = Product(form, m, n, a, b, d, rng, k96=bool(k), scale=scale, fields={"scale_a_id": scale_id, "scale_b_id": other})
                product.check()


def test_every_kind_and_table_row_is_listed() -> None:
    """The sweeps above leave nothing out."""
    assert {line_of(form) for row in MMA for form in forms(row)} == set(LINES)
    assert {kind for kind, *_ in SCALINGS} == set(BLOCK_SCALED_KINDS)
    assert {(kind, vector, k) for kind, vector, k, _ in SCALINGS} == {(row.kind, row.name, row.k) for row in SCALE_VECTORS if row.k or row}
    assert K96_TARGETS == ("sm_103a",)
    for kind in MMA_KINDS:
        for a, b, d in type_rows(kind):
            m, n = SHAPES[kind, False, 1, False].m[-1], 64
            assert not InstructionDescriptor(kind=kind, m=m, n=n, a=a, b=b, d=d).findings(1)
