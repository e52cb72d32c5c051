"""Executions of tcgen05.mma that compiled code may repeat, beside the same ones that the handler completes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from numpy.typing import NDArray

import ptxlab
from ptxlab.descriptors import InstructionDescriptor, SharedMemoryDescriptor
from ptxlab.isa.tcgen05 import _alloc, _mma
from ptxlab.numerics import MmaProgram
from tests.isa.tcgen05.tcgen05_helpers import BASE, IMAGE, Cells, launch
from tests.repetition_helpers import both_ways, note_handled

HANDLED: list[int] = []
"""The lines of the instructions whose handler was called."""


STATE = _alloc.repeated_state


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Repeat executions although the functions of the product are not optimised yet, and count those that the handler completes.

    A CTA learns of earlier launches only by the first execution that its handler completes.
    """
    monkeypatch.setattr(MmaProgram, "optimised", True)
    monkeypatch.setattr(_alloc, "repeated_state", lambda warp, cta_group: object())
    note_handled(monkeypatch, _mma, "launch", HANDLED)
    HANDLED.clear()
    yield
    HANDLED.clear()


def descriptor(start: int) -> int:
    return int(SharedMemoryDescriptor(start=start, leading=16, stride=1024, swizzle="128B"))


def idesc(**fields: Any) -> int:
    return int(InstructionDescriptor(**{"kind": "f16", "m": 128, "n": 64, "a": "f16", "b": "f16", "d": "f32", **fields}))


ROWS = IMAGE - 1024
"""Where the operands of a sequence are: rows of the column of D, the starts of A and B, the instruction descriptor, if D is read."""
LAST = "mov.u32 i, 0"
"""The test kernel executes one instruction under a guard, before and after which others may stand: this one does nothing there."""


def loop(body: str, turns: int, before: str = "") -> str:
    """A body that is executed so often; ``i`` counts."""
    return f"{LAST};\nmov.u32 i, 0;\n{before}\nTURN:\n{body}\nadd.u32 i, i, 1;\nsetp.lt.u32 q, i, {turns};\n@q bra TURN;\n{LAST}"


MMA = "tcgen05.mma.cta_group::{group}.kind::f16{more} [da], {a}, bd, {id}, {rest}e;"


def mma(group: int = 1, more: str = "", a: str = "ad", id: str = "id", rest: str = "") -> str:
    return MMA.format(group=group, more=more, a=a, id=id, rest=rest)


def sequence(turns: int, group: int, a: str) -> str:
    """Executions of one instruction with the operands of rows."""
    body = f"""
        mad.lo.u32 w, i, 32, w0;
        ld.shared.v4.u32 {{x0, x1, x2, x3}}, [w+{ROWS}];
        ld.shared.u32 n, [w+{ROWS + 16}];
        mov.b64 ad, {{x1, v}}; mov.b64 bd, {{x2, v}};
        add.u32 da, ta, x0; add.u32 at, ta, x1;
        setp.ne.u32 e, n, 0;
        @p {mma(group, a=a, id="x3")}
    """
    return loop(body, turns, "mov.b64 {n, v}, ad;")


def state(group: int, seed: int = 1) -> tuple[NDArray[np.uint8], Cells]:
    rng = np.random.default_rng(seed)
    image = rng.standard_normal((group, IMAGE // 2)).astype(np.float16).view(np.uint8)
    return image, rng.standard_normal((group, 512, 128)).astype(np.float32).view(np.uint32)


def both(text: str, image: NDArray[np.uint8], before: Cells, **options: Any) -> tuple[Cells, ptxlab.Result, list[int]]:
    """What a launch gives, which is the same if the handler completes each execution; and the lines of those that it does complete."""
    checks = {"check": ("tmem", "descriptor"), **options}
    (after,), result, handled, _ = both_ways(lambda: launch(text, image, before, **checks), HANDLED)
    return after, result, handled


WIDE = {"a": descriptor(BASE), "b": descriptor(BASE + 16384), "idesc": idesc()}


ROW = st.tuples(
    st.sampled_from([0, 64, 128]),
    st.sampled_from([BASE, BASE + 32, BASE + 16384]),
    st.sampled_from([BASE + 16384, BASE + 49152]),
    st.sampled_from([idesc(), idesc(n=32), idesc(negate_a=True), idesc(d="f16")]),
    st.integers(0, 1),
)
"""Operands of an execution of `sequence`."""


def idesc_of_pair(raw: int) -> int:
    """The same instruction descriptor for M = 256."""
    found = InstructionDescriptor.decode(raw, "f16")
    return idesc(m=256, n=found.n, d=found.d, negate_a=found.negate_a)


def state_of_sequence(rows: list[tuple[int, ...]], group: int, seed: int) -> tuple[NDArray[np.uint8], Cells]:
    """The memory with the operands of executions."""
    image, before = state(group, seed)
    table = image[:, ROWS:].view(np.uint32).reshape(group, -1, 8)
    for number, (d, a, b, raw, enable) in enumerate(rows):
        low = [descriptor(start) & 0xFFFFFFFF for start in (a, b)]
        fields = idesc_of_pair(raw) if group == 2 else raw
        table[:, number, :5] = d, *low, fields, enable
    return image, before
