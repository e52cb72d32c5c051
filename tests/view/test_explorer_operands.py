"""Default operands of the explorer page never overlap: A and B in shared memory, what is in tensor memory there."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from ptxlab import layout
from ptxlab.descriptors import SharedMemoryDescriptor, WgmmaDescriptor
from ptxlab.tables import MMA_KINDS, TYPE_BITS
from ptxlab.view import explorer_tables
from tests.sweep_helpers import one_in

pytestmark = pytest.mark.sweep

WALK = """
    const [start, names, least] = arguments, found = [], seen = new Set();
    // Every state that the controls of these names reach from the start, in their order; `least`: only the first and the last value.
    const walk = (s, left) => {
      if (!left.length) {
        const key = JSON.stringify(s);
        if (!seen.has(key)) { seen.add(key); found.push({ ...s }); }
        return;
      }
      const [name, ...rest] = left, offered = choices(s)[name] || [], values = offered.length ? offered : [s[name]];
      const some = least.includes(name) ? [...new Set([values[0], values.at(-1)])] : values;
      for (const v of some) {
        const next = settle({ ...s, [name]: v });
        if (String(next[name]) === String(v)) walk(next, rest);
      }
    };
    walk(settle({ ...DEFAULTS, ...start }), names);
"""

SHARED = (
    WALK
    + """
    return found.map((s) => {
      const model = { mma: buildMma, wgmma: buildWgmma }[s.op](s), { A, B } = model.shared;
      const remark = (o) => F.strideRemark(o.d, o.major, o.padded ? 8 : o.bits);
      return [A, B].map((o) => [String(o.value), o.rows, o.k, o.bits, o.major, o.padded, remark(o)]);
    });"""
)

COLUMNS = (
    WALK
    + """
    return found.map((s) => [s, buildMma(s).grid.regions.map((r) => [r.matrix, r.first, r.columns])]);"""
)


@cache
def slots(form: Any, value: str, rows: int, k: int, bits: int, major: Any, padded: bool) -> Any:
    """The slots of 16 bytes that an operand takes, by the library."""
    at = layout.operand_addresses(form.decode(int(value)), rows, k, bits, major, padded)
    return np.unique(at // (128 if bits < 8 else 16))


def check_shared(page: Any, op: str, start: dict[str, Any], names: list[str], least: list[str]) -> int:
    form = WgmmaDescriptor if op == "wgmma" else SharedMemoryDescriptor
    states = page("op=" + op).run(SHARED, {"op": op, **start}, names, least)
    for (*a, of_a), (*b, of_b) in states:
        assert of_a is of_b is None  # no remark on the strides of a tile without gaps
        taken, others = slots(form, *a), slots(form, *b)
        assert np.intersect1d(taken, others).size == 0, (a, b)
        # Both begin at a multiple of every swizzle pattern, and B directly after A.
        assert form.decode(int(a[0])).start == 0x400
        first = form.decode(int(b[0])).start
        assert first == -(-(int(taken.max()) + 1) * 16 // 1024) * 1024
    return len(states)


# Types of one size have the same addresses.
TYPES = {
    "f16": ["f16"],
    "tf32": ["tf32"],
    "i8": ["s8"],
    "mxf4": ["e2m1"],
    "f8f6f4": ["e4m3", "e2m3", "e2m1"],
    "mxf8f6f4": ["e4m3", "e2m3", "e2m1"],
    "mxf4nvf4": ["e2m1"],
}
LAYOUT = ["group", "ws", "sparse", "m", "n", "ta", "tb", "sa", "sb", "k"]


def test_operands_of_m_128_and_k_16(page: Any) -> None:
    """Rows of 32 bytes in a swizzle of 128 bytes: A takes 16 KiB."""
    found = page("kind=f16&m=128&k=16").run("return ['A', 'B'].map((name) => ptxlab.model.shared[name].d.start)")
    assert found == [0x400, 0x4400]


def test_every_kind_has_types() -> None:
    assert set(TYPES) == set(MMA_KINDS)


@pytest.mark.parametrize("kind", one_in(3, TYPES))
def test_shared_memory_of_tcgen05_mma(page: Any, kind: str) -> None:
    """Every M, swizzle, majorness and K, for the smallest and the largest N."""
    for a in TYPES[kind]:
        for b in TYPES[kind]:
            least = ["n", "tb", "sb"] if kind.endswith(("f8f6f4", "f16")) else ["n"]
            states = check_shared(page, "mma", {"kind": kind, "a": a, "b": b}, LAYOUT, least)
            assert states >= 24, (a, b)


@pytest.mark.parametrize("type_", one_in(4, ["f16", "tf32", "e4m3", "s8"]))
def test_shared_memory_of_wgmma(page: Any, type_: str) -> None:
    assert check_shared(page, "wgmma", {"a": type_, "b": type_}, LAYOUT, ["n"]) >= 60


@cache
def last_column(matrix: str, kind: str, m: int, n: int, group: int, ws: bool, sparse: bool, scales: int, id_: int, sel: int) -> int:
    """The last column, relative to the first, that a matrix takes in tensor memory, by the library."""
    if matrix == "D":
        return int(layout.accumulator_location(m, n, group, ws, sparse).column.max())
    if matrix == "E":
        return int(layout.metadata_location(kind, m, group, ws, sel).column.max())
    split = matrix == "SFB" and group == 2 and m == 128
    rows = m // group if matrix == "SFA" else n
    return int(layout.scale_factor_location(rows, scales, id_, split)[1].max())


@pytest.mark.parametrize("kind", one_in(3, TYPES))
def test_tensor_memory_of_tcgen05_mma(page: Any, kind: str) -> None:
    """D, A, scale factors and metadata have columns of their own, as many as they need."""
    names = ["group", "ws", "sparse", "m", "n", "asrc", "k", "scale", "sfa", "sfb", "sel"]
    a = TYPES[kind][0]
    states = page("op=mma").run(COLUMNS, {"kind": kind, "a": a, "b": a}, names, ["k", "n"] if "mx" in kind else ["k"])
    counts = {row["name"]: row["scales"] for row in explorer_tables()["scale_vectors"] if row["kind"] == kind and row["k"] != 96}
    counts96 = {row["name"]: row["scales"] for row in explorer_tables()["scale_vectors"] if row["kind"] == kind and row["k"] == 96}
    for s, regions in states:
        free = 0
        for matrix, first, columns in regions:
            assert first >= free, s
            free = first + columns
            scales = (counts96 if s["k"] == 96 else counts).get(s["scale"], 0)
            if matrix == "A":
                at = layout.a_location(s["m"], s["k"], container(kind, a), s["group"], bool(s["ws"]), bool(s["sparse"]))
                last = int(at.column.max())
            else:
                id_ = {"SFA": s["sfa"], "SFB": s["sfb"]}.get(matrix, 0)
                last = last_column(matrix, kind, s["m"], s["n"], s["group"], bool(s["ws"]), bool(s["sparse"]), scales, id_, s["sel"])
            assert last < columns, (matrix, s)
        wanted = (
            {"D"} | ({"A"} if s["asrc"] == "tmem" else set()) | ({"SFA", "SFB"} if counts else set()) | ({"E"} if s["sparse"] else set())
        )
        assert {matrix for matrix, _, _ in regions} == wanted
    assert len(states) >= 40


def container(kind: str, type_: str) -> int:
    return max(TYPE_BITS[type_], MMA_KINDS[kind].container)
