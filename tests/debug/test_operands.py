"""Views of operands against what was placed: whole kernels around one instruction, as the tests of its forms make them.

Those tests place operands by formulas of their own, and compute from them what the instruction must give. Here each launch is first
executed in the debugger up to its instruction, and what the debugger shows is compared with what was placed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ptxlab import numerics
from ptxlab.debug import Session
from ptxlab.debug.views.operands import OperandView
from ptxlab.machine import Kernel
from ptxlab.machine.launch.mma_records import values_of
from ptxlab.tables import MMA_KINDS
from tests.isa.tcgen05 import test_mma_forms as tcgen05
from tests.isa.wgmma import test_mma as wgmma
from tests.isa.wgmma import test_sparse as wgmma_sparse
from tests.sweep_helpers import one_in, part

NAMES = {"a": "A", "b": "B", "d": "C", "scale_a": "scale_a", "scale_b": "scale_b", "metadata": "metadata"}


class Shown:
    """What the debugger shows before each launch, and what the test says that it has placed."""

    def __init__(self) -> None:
        self.waiting: OperandView | None = None
        self.described: dict[str, Any] = {}
        self.compared: set[str] = set()
        self.launch, self.mma = Kernel.launch, numerics.mma

    def launched(self, kernel: Kernel, grid: Any = 1, **options: Any) -> Any:
        """Take the view of the instruction, then launch."""
        more = {name: value for name, value in options.items() if name != "check"}
        self.described = {}
        with Session(kernel.prepare(grid, **more)) as session:
            session.break_at("instruction", "wgmma.mma_async" if kernel.module.target == "sm_90a" else "tcgen05.mma")
            session.run()
            self.waiting = session.operands()
            self._describe(session, options["args"])
        return self.launch(kernel, grid, **options)

    def _describe(self, session: Session, args: list[Any]) -> None:
        """The operands through their descriptors, if one CTA holds them."""
        view = self.waiting
        assert view is not None
        facts, hopper = dict(view.facts), view.opcode.startswith("wgmma")
        said = dict(facts["instruction"])
        if "cta_group::2" in view.opcode or said.get("k96") or view.types["a"] == "b1":
            return
        raws = (args[4].reshape(-1) if hopper else args[3:5]) if not hopper or len(args) == 6 else ()
        for name, raw in zip("ab", raws, strict=False):
            if f"descriptor of {name.upper()}" not in facts:
                continue
            major = str(said[f"major of {name.upper()}"]) if hopper else "mn" if said[f"transpose_{name}"] else "k"
            padded = "kind::f8f6f4" in view.opcode or "kind::mxf8f6f4" in view.opcode
            padded &= view.types[name] == "e2m1"
            rows, k = view.codes[name].shape
            self.described[name] = session.matrix(int(raw), rows, k, view.types[name], major, hopper, padded)  # type: ignore[arg-type]

    def multiplied(self, **given: Any) -> Any:
        """Compare what is shown with what the test multiplies; of two instructions only the first is shown."""
        view, self.waiting = self.waiting, None
        if view is not None:
            for name, key in NAMES.items():
                placed = given.get(key)
                if name == "d":
                    assert view.accumulate == (placed is not None)
                if placed is None:
                    assert name == "d" or name not in view.codes
                    continue
                assert view.codes[name].shape == placed.shape
                assert np.array_equal(view.codes[name], placed), name
                assert name in ("metadata", "scale_a", "scale_b") or view.types[name] == given[name]
                self.compared.add(name)
            for name, matrix in self.described.items():
                assert np.array_equal(matrix, values_of(given[NAMES[name]], view.types[name]), equal_nan=True)
                self.compared.add(f"described {name}")
        return self.mma(**given)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shown]:
    found = Shown()
    monkeypatch.setattr(Kernel, "launch", lambda kernel, grid=1, **options: found.launched(kernel, grid, **options))
    monkeypatch.setattr(numerics, "mma", found.multiplied)
    yield found
    assert {"a", "b"} <= found.compared


@pytest.mark.parametrize(
    ("kind", "major", "swizzle"), part(one_in(6, tcgen05.OPERANDS), lambda *case: tcgen05.OPERANDS.index(case) % 2 == 0)
)
def test_layouts_of_tcgen05(kind: str, major: str, swizzle: str, shown: Shown) -> None:
    tcgen05.test_sizes_major_ness_and_swizzling(kind, major, swizzle)
    assert {"described a", "described b"} <= shown.compared
    assert not MMA_KINDS[kind].scale or {"scale_a", "scale_b"} <= shown.compared


@pytest.mark.parametrize(("kind", "vector", "k", "scale"), one_in(6, tcgen05.SCALINGS))
@pytest.mark.parametrize("group", [1, 2])
def test_scale_vectors_of_tcgen05(kind: str, vector: str, k: int, scale: str, group: int, shown: Shown) -> None:
    tcgen05.test_scale_vectors(kind, vector, k, scale, group)
    assert {"scale_a", "scale_b"} <= shown.compared
    assert k or "metadata" in shown.compared


@pytest.mark.parametrize("kind", one_in(3, [kind for kind, row in MMA_KINDS.items() if not row.scale]))
@pytest.mark.parametrize("sparse", [False, True])
def test_types_of_tcgen05(kind: str, sparse: bool, shown: Shown) -> None:
    for number, types in enumerate(tcgen05.type_rows(kind)):
        rng = tcgen05.generator(kind, types, sparse)
        form = tcgen05.forms_of(kind, False, 1, sparse, in_tensor=bool(number % 2))[0]
        tcgen05.random_product(form, rng, 128, 64, types).check()
    assert ("metadata" in shown.compared) == sparse


@pytest.mark.parametrize("registers", [False, True], ids=["shared", "registers"])
@pytest.mark.parametrize("types", one_in(4, [(types,) for types in wgmma.FLOATS + wgmma.INTEGERS]), ids="-".join)
def test_types_of_wgmma(types: tuple[str, str, str], registers: bool, shown: Shown) -> None:
    wgmma.test_types(types, registers)
    assert ("described a" in shown.compared) == (not registers)


@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B"])
@pytest.mark.parametrize("majors", [("k", "k"), ("k", "mn"), ("mn", "k"), ("mn", "mn")], ids="-".join)
def test_layouts_of_wgmma(majors: tuple[str, str], swizzle: str, shown: Shown) -> None:
    wgmma.test_majorness("bf16", majors, swizzle)
    assert {"described a", "described b"} <= shown.compared


@pytest.mark.parametrize("registers", [False, True], ids=["shared", "registers"])
@pytest.mark.parametrize("types", one_in(3, [(types,) for types in wgmma.FLOATS[:5] + wgmma.INTEGERS[:2]]), ids="-".join)
def test_sparse_wgmma(types: tuple[str, str, str], registers: bool, shown: Shown) -> None:
    wgmma_sparse.test_selectors(types, registers)
    assert "metadata" in shown.compared


@pytest.mark.parametrize("majors", [("k", "mn"), ("mn", "k"), ("mn", "mn")], ids="-".join)
def test_layouts_of_sparse_wgmma(majors: tuple[str, str], shown: Shown) -> None:
    wgmma_sparse.test_majorness("f16", majors)
