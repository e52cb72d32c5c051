"""Kernels that are right in ways that compilers use: they have no findings, and each has a wrong neighbour that has one."""

from __future__ import annotations

import pytest

from ptxlab.check import lint_module
from tests.check.static.dataflow_kernels.launches import base_text, launch

Edit = tuple[str, str]


def edited(base: str, *edits: Edit) -> str:
    """A kernel of the folder with some pieces replaced, each of which occurs once."""
    text = base_text(base)
    for old, new in edits:
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text


def codes(text: str) -> list[str]:
    return [d.code for d in lint_module(text, "kernel.ptx", None, None)]


_STORES = """
    tcgen05.st.sync.aligned.32x32b.x2.b32 [%r8], {%r1, %r10};
    tcgen05.st.sync.aligned.32x32b.x1.b32 [%r9], {%r1};
    tcgen05.wait::st.sync.aligned;
"""
_STORES_WITH_BARRIER = """
    tcgen05.st.sync.aligned.32x32b.x2.b32 [%r8], {%r1, %r10};
    bar.sync 0;
    tcgen05.st.sync.aligned.32x32b.x1.b32 [%r9], {%r1};
    tcgen05.wait::st.sync.aligned;
    bar.sync 0;
"""
_ZEROS = """
    mov.f32 %f4, 0f00000000;
    mov.f32 %f5, 0f00000000;
    mov.f32 %f6, 0f00000000;
    mov.f32 %f7, 0f00000000;
"""
_FENCE_OF_REGISTERS = "    wgmma.fence.sync.aligned;\n    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f4, %f5, %f6, %f7}"

RIGHT: dict[str, tuple[str, tuple[Edit, ...]]] = {
    "a barrier between stores, which the threads behind it do not need": ("tensor_memory", ((_STORES, _STORES_WITH_BARRIER),)),
    "zeros of an accumulator behind the fence": (
        "wgmma",
        ((_ZEROS, "\n"), (_FENCE_OF_REGISTERS, _FENCE_OF_REGISTERS.replace(";\n", f";{_ZEROS.replace('%f5, 0f00000000', '%f5, %f4')}", 1))),
    ),
}
WRONG: dict[str, tuple[str, tuple[Edit, ...], str]] = {
    "a barrier between a store and a load": (
        "tensor_memory",
        ((_STORES, _STORES.replace("tcgen05.wait::st.sync.aligned;", "bar.sync 0;")),),
        "X107",
    ),
    "values of an accumulator behind the fence": (
        "wgmma",
        ((_ZEROS, "\n"), (_FENCE_OF_REGISTERS, _FENCE_OF_REGISTERS.replace(";\n", f";{_ZEROS.replace('%f5, 0f00000000', '%f5, %f3')}", 1))),
        "R807",
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right(name: str) -> None:
    base, edits = RIGHT[name]
    text = edited(base, *edits)
    assert codes(text) == []
    result, stored = launch(base, text)
    assert result.diagnostics == ()
    assert stored.any()


@pytest.mark.parametrize("name", WRONG)
def test_wrong(name: str) -> None:
    base, edits, code = WRONG[name]
    text = edited(base, *edits)
    assert code in codes(text)
    assert code in {d.code for d in launch(base, text)[0].diagnostics}
