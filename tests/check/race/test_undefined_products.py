"""Undefined bits through tcgen05.mma and wgmma: of any kind, with operands in any place, exactly the elements of D that depend on them.

Everything that the instruction does not read is undefined, padding included, and some elements of its operands. The expected elements of D
are those of the rows and columns of these elements; that others do not depend on them, random fillings show.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ptxlab.check.race.undefined.observer import UndefinedBitsObserver
from ptxlab.check.race.undefined.raced import Raced
from ptxlab.engine import mirrored
from ptxlab.layout import accumulator_location, zero_column_mask
from ptxlab.tables import SHAPES, TYPE_BITS
from tests.isa.tcgen05.product_helpers import A, Product
from tests.isa.tcgen05.tcgen05_helpers import launch, random_state
from tests.isa.tcgen05.test_mma_forms import forms_of, generator, random_product, type_rows
from tests.isa.wgmma import wgmma_helpers as bench
from tests.isa.wgmma.test_mma import A_START, B_START, BITS, FLOATS, INTEGERS, accumulators, instruction, place
from tests.isa.wgmma.test_mma import codes as matrix_codes
from tests.sweep_helpers import one_in

pytestmark = pytest.mark.sweep

FILLINGS = 3
Codes = NDArray[Any]
LINES = [(line, in_tensor) for line in SHAPES for in_tensor in (False, True)]
FEW = LINES[::7]


class SeededObserver(UndefinedBitsObserver):
    """A run in which arguments have undefined bits at the start."""

    def __init__(self, launched: Any, masks: dict[str, NDArray[np.uint8]]) -> None:
        super().__init__(launched, Raced())
        for name, mask in masks.items():
            self.mirror_of(name)[: mask.size] = mask


def some(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Up to two elements."""
    found = np.zeros(shape, bool)
    for _ in range(int(rng.integers(0, 3))):
        found[tuple(int(rng.integers(size)) for size in shape)] = True
    return found


def marks(open_: NDArray[np.bool_], codes: Codes, bits: int) -> Codes:
    """All bits of open elements."""
    return (open_ * codes.dtype.type((1 << bits) - 1)).astype(codes.dtype)


class Case:
    """A product, and those elements of its operands that are undefined."""

    def __init__(self, product: Product) -> None:
        self.product = p = product
        p._draw()
        self.rng = p.rng
        self.legal = [] if p.metadata is None else sorted(set(p.metadata.reshape(-1).tolist()))
        self.codes: dict[str, Codes] = {"a": p.a_codes, "b": p.b_codes, "c": p.c_bits}
        self.codes |= {f"scale_{name}": codes for name, codes in zip("ab", p.factors, strict=False)}
        if p.metadata is not None:
            self.codes["metadata"] = p.metadata
        self.open = {name: some(self.rng, codes.shape) for name, codes in self.codes.items()}
        at = accumulator_location(p.m, p.n, p.group, p.ws, p.sparse, p.lane)
        self.place = (at.cta, p.column + at.column, at.lane)
        words = self.rng.integers(0, 1 << 32, 8, np.uint32)
        self.words = words if "disable-output-lane" in p.form.operands else np.zeros(8, np.uint32)
        self.kept = np.unpackbits(self.words.view(np.uint8), bitorder="little").astype(bool)[128 * at.cta + at.lane]
        self.enable = bool(self.rng.integers(2))
        self.scale = int(self.rng.integers(16)) if "scale-input-d" in p.form.operands else None
        self.state = deepcopy(self.rng)

    def put(self, image: NDArray[np.uint8], cells: NDArray[np.uint32], codes: dict[str, Codes]) -> dict[str, Any]:
        """Place the operands as always, with these codes."""
        p = self.product
        p.rng = deepcopy(self.state)
        p.a_codes, p.b_codes, p.metadata = codes["a"], codes["b"], codes.get("metadata")
        p.factors = [codes[name] for name in ("scale_a", "scale_b") if name in codes]
        high = cells[self.place] & np.uint32(0xFFFF0000 if p.d == "f16" else 0)
        cells[self.place] = codes["c"].astype(np.uint32) | high
        return {
            "a": p._place_a(image, cells),
            "b": p._place_b(image),
            "factors": p._place_factors(cells),
            "metadata": p._place_metadata(cells),
        }

    def run(self, codes: dict[str, Codes], **options: Any) -> tuple[NDArray[np.uint32], Any]:
        p = self.product
        image, before = random_state(self.rng, p.group)
        values = self.put(image, before, codes)
        return launch(
            p.text(p.form.opcode, self.scale),
            image,
            before,
            idesc=int(p.idesc),
            d=(p.lane << 16) + p.column,
            enable=self.enable,
            mask=tuple(int(word) for word in self.words),
            zero_columns=int(p.zero) if "zero-column-mask-desc" in p.form.operands else 0,
            group=p.group,
            check="none",
            **values,
            **options,
        )

    def masks(self) -> tuple[NDArray[np.uint8], NDArray[np.uint32]]:
        """The undefined bits of shared and of tensor memory before the instruction."""
        p = self.product
        bits = {"a": TYPE_BITS[p.a], "b": TYPE_BITS[p.b], "c": TYPE_BITS[p.d], "metadata": 4}
        codes = {name: marks(self.open[name], codes, bits.get(name, 8)) for name, codes in self.codes.items()}
        image, cells = (np.full_like(each, ~each.dtype.type(0)) for each in random_state(self.rng, p.group))
        self.put(image, cells, codes)
        return image, cells

    def expected(self, cells: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """The undefined bits of tensor memory afterwards."""
        p, open_ = self.product, self.open
        rows = open_["a"].any(axis=1)
        of_b = open_["b"][p.zero.shift :].copy()
        of_b[zero_column_mask(p.zero, p.m, p.n)] = False
        columns = of_b.any(axis=1)
        if "scale_a" in open_:
            rows, columns = rows | open_["scale_a"].any(axis=1), columns | open_["scale_b"].any(axis=1)
        if "metadata" in open_:
            rows = rows | open_["metadata"].any(axis=1)
        found = rows[:, None] | columns | (open_["c"] & self.enable)
        after = cells.copy()
        bits = np.uint32((1 << TYPE_BITS[p.d]) - 1)
        after[self.place] = np.where(self.kept, cells[self.place], np.where(found, bits, np.uint32(0)))
        if p.form.has("ashift"):
            shifted = after[:, A + p.offset : A + p.offset + 8].reshape(p.group, 8, 4, 32)
            shifted[..., :-1] = shifted[..., 1:].copy()
        return after

    def refilled(self) -> dict[str, Codes]:
        """Other codes of the undefined elements."""
        found = {}
        for name, codes in self.codes.items():
            values = self.rng.choice(self.legal, codes.shape) if name == "metadata" else self.rng.integers(0, 256, codes.shape)
            bits = TYPE_BITS[{"a": self.product.a, "b": self.product.b}.get(name, "u8")] if name in "ab" else 8
            found[name] = np.where(self.open[name], values & (1 << bits) - 1, codes).astype(codes.dtype)
        return found


def after_launch(result: Any, seeds: dict[str, Codes], name: str, like: Codes) -> Codes:
    """The undefined bits of an array after a launch, if arguments have had these before."""
    replay = result.replay
    program = mirrored(replay.kernel.variant(False, False, True)[0], frozenset())
    raw = {seeded: np.ascontiguousarray(mask).reshape(-1).view(np.uint8) for seeded, mask in seeds.items()}
    again, observer = replay.observe(lambda launched: SeededObserver(launched, raw), program)
    assert again.completed
    found: Codes = observer.mirror_of(name)[: like.nbytes].view(like.dtype).reshape(like.shape)
    return found


def undefined_after(case: Case, policy: str) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    image, cells = case.masks()
    _, result = case.run(case.codes, keep_inputs=True, policy=policy)
    return after_launch(result, {"p_image": image, "p_before": cells}, "p_after", cells), case.expected(cells)


def check(product: Product, policy: str) -> None:
    case = Case(product)
    found, expected = undefined_after(case, policy)
    wrong = np.argwhere(found != expected)
    assert not len(wrong), (len(wrong), wrong[:4].tolist(), product)
    first, _ = case.run(case.codes)
    for _ in range(FILLINGS):
        other, _ = case.run(case.refilled())
        assert not ((first ^ other) & ~expected).any()


def execute(line: tuple[str, bool, int, bool], in_tensor: bool) -> None:
    rng = generator("undefined", line, in_tensor)
    listed = forms_of(*line, in_tensor=in_tensor)
    shapes, types = SHAPES[line], type_rows(line[0])
    form = listed[int(rng.integers(len(listed)))]
    n = int(rng.choice([n for n in shapes.n if n <= 128]))
    product = random_product(form, rng, int(rng.choice(list(shapes.m))), n, types[int(rng.integers(len(types)))])
    check(product, str(rng.choice(["eager", "lazy", "random"])))


@pytest.mark.parametrize(("line", "in_tensor"), one_in(4, FEW), ids=str)
def test_rows_and_columns(line: tuple[str, bool, int, bool], in_tensor: bool) -> None:
    """One product of each kind."""
    execute(line, in_tensor)


@pytest.mark.slow
@pytest.mark.parametrize(("line", "in_tensor"), LINES, ids=str)
def test_all_rows_and_columns(line: tuple[str, bool, int, bool], in_tensor: bool) -> None:
    """Each kind, CTA group, .ws and sparse, and A in shared or tensor memory."""
    execute(line, in_tensor)


# ------------------------------------------------------------------------------------------------------------------- wgmma
@pytest.mark.parametrize("registers", [False, True], ids=["shared", "registers"])
@pytest.mark.parametrize("types", [*FLOATS[:5], INTEGERS[1]], ids="-".join)
def test_rows_and_columns_of_a_warpgroup(types: tuple[str, str, str], registers: bool) -> None:
    """A is in registers or in shared memory, all of which but the operands is undefined."""
    d, a, b = types
    rng = generator("wgmma", types, registers)
    n, k, enable = 8 * int(rng.integers(1, 9)), 256 // BITS[a], bool(rng.integers(2))
    given = {"a": matrix_codes(rng, a, (64, k)), "b": matrix_codes(rng, b, (n, k)), "c": accumulators(rng, d, n)[0]}
    open_ = {name: some(rng, matrix.shape) for name, matrix in given.items()}
    majors = [str(rng.choice(["k", "mn"])) if BITS[a] == 16 and not (name == "a" and registers) else "k" for name in "ab"]
    tail = bench.tail_of(a, registers, transposed=tuple(int(major == "mn") for major in majors))
    policy = str(rng.choice(["eager", "lazy", "random"]))

    def placed(image: Codes, matrices: dict[str, Codes]) -> dict[str, Codes]:
        at = [
            place(image, matrices[name], start, major, "128B") for name, start, major in zip("ab", (A_START, B_START), majors, strict=True)
        ]
        of_a = bench.a_registers(matrices["a"]) if registers else np.zeros((128, 4), np.uint32)
        return {"image": image, "c": bench.to_registers(matrices["c"]), "a": of_a, "desc": np.array(at, np.uint64)}

    def run(matrices: dict[str, Codes], **options: Any) -> tuple[Codes, Any]:
        found = placed(rng.integers(0, 256, bench.IMAGE).astype(np.uint8), matrices)
        out = np.zeros_like(found["c"])
        loaded = bench.kernel(instruction(d, a, b, n), found["c"].shape[1], tail, registers)
        arguments = [found["image"], found["c"], out, found["a"], found["desc"], int(enable)]
        return out, loaded.launch(grid=1, block=128, args=arguments, check="none", policy=policy, **options)

    masks = {name: marks(open_[name], matrix, 8 * matrix.itemsize) for name, matrix in given.items()}
    seeds = placed(np.full(bench.IMAGE, 0xFF, np.uint8), masks)
    del seeds["desc"]
    first, result = run(given, keep_inputs=True)
    rows, columns = open_["a"].any(axis=1), open_["b"].any(axis=1)
    whole = rows[:, None] | columns | (open_["c"] & enable)
    expected = bench.to_registers(marks(whole, given["c"], 8 * given["c"].itemsize))
    assert np.array_equal(after_launch(result, seeds, "o", first), expected)
    for _ in range(FILLINGS):
        other, _ = run({name: np.where(open_[name], ~matrix, matrix) for name, matrix in given.items()})
        assert not ((first ^ other) & ~expected).any()
