"""A product that is looked up once gives what `mma` gives, for every pair of types, with any strides and options."""

from __future__ import annotations

import numpy as np
import pytest

from ptxlab import numerics
from ptxlab.formats import FORMATS
from ptxlab.native import address_of
from ptxlab.numerics import mma_kernel
from ptxlab.numerics._steps import STEPS

CASES = [
    (kind, step.d, a, b, step.lengths[0], step)
    for (arch, kind), steps in STEPS.items()
    if arch == "tcgen05"
    for step in steps
    if not step.scales
    for a in step.a
    for b in step.b
]


def codes(generator: np.random.Generator, fmt: str, shape: tuple[int, int], transposed: bool) -> np.ndarray:
    made = generator.integers(0, 1 << FORMATS[fmt].bits, shape[::-1] if transposed else shape, dtype=np.uint64).astype(FORMATS[fmt].dtype)
    return made.T if transposed else made


def scattered(generator: np.random.Generator, made: np.ndarray, base: int) -> tuple[np.ndarray, numerics.OperandGather]:
    """Memory that holds codes in pieces of 16 bytes in any order, and where they are."""
    plain = made if made.flags.c_contiguous else made.T
    pieces = plain.view(np.uint8).reshape(-1, 16)
    order = generator.permutation(len(pieces))
    memory = np.empty_like(pieces)
    memory[order] = pieces
    return memory, numerics.OperandGather(base, 0, order, 16, *made.strides)


def held(
    generator: np.random.Generator, cells: np.ndarray, base: int, apart: bool
) -> tuple[np.ndarray, np.ndarray, numerics.AccumulatorRef]:
    """Memory that holds cells [n, m], the same as an index of what was put there, and where they are."""
    n, m = cells.shape
    index = np.arange(n * m).reshape(n, m)
    if not apart:
        memory = np.zeros((n, m + 4), np.uint32)
        memory[:, 2 : m + 2] = cells
        return memory, index // m * (m + 4) + index % m + 2, numerics.AccumulatorRef(base, 8, memory.strides[0])
    order = generator.permutation(n * m // 16)
    memory = np.empty((len(order), 16), np.uint32)
    memory[order] = cells.reshape(-1, 16)
    return memory, order[index // 16] * 16 + index % 16, numerics.AccumulatorRef(base, 0, 0, order)


@pytest.mark.parametrize(("kind", "d", "a", "b", "k", "step"), CASES, ids=lambda v: str(v) if isinstance(v, str | int) else "")
def test_a_program_is_the_step(kind: str, d: str, a: str, b: str, k: int, step: object) -> None:
    """From memory to memory, with units of all in any order, two products of one program; rows that fill no vector are padded."""
    generator = np.random.default_rng(7)
    n = 24
    for transposed, m in ((False, 128), (True, 128), (False, 32)):
        for negate in (False, True) if not FORMATS[a].is_integer else (False,):
            kernel = mma_kernel(kind, (d, a, b), m, n, k, (negate, False))
            left, right = codes(generator, a, (m, k), transposed), codes(generator, b, (n, k), not transposed)
            c = generator.integers(0, 1 << 32, (m, n), np.uint32).astype(np.uint16 if d == "f16" else np.uint32)
            for accumulate in (True, False):
                memory_a, source_a = scattered(generator, left, 1)
                memory_b, source_b = scattered(generator, right, 2)
                results = [held(generator, c.T.astype(np.uint32), 3 + apart, bool(apart)) for apart in (0, 1)]
                program = kernel.program([(source_a, source_b, cells) for *_, cells in results if m == 128 or cells.order is not None])
                bases = np.array([0, *map(address_of, (memory_a, memory_b, *(memory for memory, *_ in results)))])
                program.run(address_of(bases), accumulate, 0)
                wanted = numerics.mma(
                    arch="tcgen05", kind=kind, a=a, b=b, d=d, A=left, B=right, C=c if accumulate else None, negate_a=negate
                )
                for memory, index, cells in results:
                    if m != 128 and cells.order is None:
                        continue
                    assert np.array_equal(memory.reshape(-1)[index].T, wanted.view(c.dtype))


def test_operands_from_a_row_on() -> None:
    """Parts of one matrix B are operands of their own; what is prepared already takes part as it is."""
    generator = np.random.default_rng(8)
    left, right = codes(generator, "f16", (64, 16), False), codes(generator, "f16", (40, 16), False)
    memory, whole = scattered(generator, right, 1)
    a = numerics.prepare(left, "f16", role="a", kind="f16")
    cells = np.zeros((2, 16, 64), np.uint32)
    parts = [(a, whole._replace(first=first), numerics.AccumulatorRef(2 + i, 0, 256)) for i, first in enumerate((3, 24))]
    program = mma_kernel("f16", ("f32", "f16", "f16"), 64, 16, 16).program(parts)
    program.run(address_of(np.array([0, *map(address_of, (memory, cells[0], cells[1]))])), False, 0)
    for i, first in enumerate((3, 24)):
        wanted = numerics.mma(arch="tcgen05", kind="f16", a="f16", b="f16", d="f32", A=left, B=right[first : first + 16])
        assert np.array_equal(cells[i].T, wanted)
