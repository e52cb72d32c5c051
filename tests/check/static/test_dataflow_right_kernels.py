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

_DESCRIPTOR = "    mov.u32 %r12, 0x08100010;\n"
_CHOSEN = """
    ld.param.u64 %rd20, [result];
    setp.eq.u64 %p7, %rd20, 0;
    selp.b32 %r12, FIRST, 0, %p7;
    selp.b32 %r20, 0, 0x08000000, %p7;
    or.b32 %r12, %r12, %r20;
    or.b32 %r12, %r12, 0x00100010;
"""
_LOAD_IN_LOOP = "    ld.shared.v4.b32 {%r13, %r14, %r15, %r16}, [%r12];\n"
_COPY_IN_LOOP = "    cp.async.cg.shared.global [%r10], [%rd4], 16;\n    cp.async.commit_group;\n"

_EXACT = (".maxntid 256, 1, 1", ".reqntid 256, 1, 1")

_OBJECT = "    .shared .align 8 .b64 done;\n"
_INIT = "    @%p1 mbarrier.init.shared::cta.b64 [done], 1;\n"
_COMMIT = "    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r9];\n"
_OTHER = tuple((piece, piece + piece.replace("done", "other")) for piece in (_OBJECT, _INIT))
_COMMIT_OTHER = _COMMIT.replace("%r9", "other")

RIGHT: dict[str, tuple[str, tuple[Edit, ...]]] = {
    "a descriptor of two parts, not all of which go together": (
        "tcgen05_product",
        ((_DESCRIPTOR, _CHOSEN.replace("FIRST", "0x04000000")),),
    ),
    "stores between a copy that is not awaited yet and the load of a stage": (
        "cp_async",
        ((_LOAD_IN_LOOP, "    st.shared.b32 [%r12], %r1;\n    bar.sync 0;\n" + _LOAD_IN_LOOP),),
    ),
    "four groups in flight in a ring of two stages, all awaited": (
        "cp_async",
        (("    cp.async.wait_group 1;\n", "    cp.async.commit_group;\n    cp.async.commit_group;\n    cp.async.wait_group 3;\n"),),
    ),
    "a barrier between stores, which the threads after it do not need": ("tensor_memory", ((_STORES, _STORES_WITH_BARRIER),)),
    "warps that take all the registers that others give back": ("warps", (_EXACT, ("u32 160;", "u32 216;"))),
    "a commit that nothing waits for before one that is waited for": (
        "tcgen05_product",
        (*_OTHER, (_COMMIT, _COMMIT_OTHER + _COMMIT)),
    ),
    "a commit that nothing waits for after one that is waited for": (
        "tcgen05_product",
        (*_OTHER, (_COMMIT, _COMMIT + _COMMIT_OTHER)),
    ),
    "a box of two rows of 32 words": ("tensor_map", (("[%r3], 0, 16;", "[%r3], 0, 32;"), ("[%r3], 1, 4;", "[%r3], 1, 2;"))),
    "zeros of an accumulator behind the fence": (
        "wgmma",
        ((_ZEROS, "\n"), (_FENCE_OF_REGISTERS, _FENCE_OF_REGISTERS.replace(";\n", f";{_ZEROS.replace('%f5, 0f00000000', '%f5, %f4')}", 1))),
    ),
}
WRONG: dict[str, tuple[str, tuple[Edit, ...], str]] = {
    "a descriptor that is not legal with either choice": ("tcgen05_product", ((_DESCRIPTOR, _DESCRIPTOR.replace("08", "0c")),), "D703"),
    "a group too many in flight in a ring of two stages": (
        "cp_async",
        (("    cp.async.wait_group 1;\n", "    cp.async.commit_group;\n    cp.async.commit_group;\n    cp.async.wait_group 4;\n"),),
        "X111",
    ),
    "a barrier between a store and a load": (
        "tensor_memory",
        ((_STORES, _STORES.replace("tcgen05.wait::st.sync.aligned;", "bar.sync 0;")),),
        "X107",
    ),
    "only a commit that nothing waits for": ("tcgen05_product", (*_OTHER, (_COMMIT, _COMMIT_OTHER)), "H601"),
    "a tensor map that is used with no fence": (
        "tensor_map",
        (("    fence.proxy.tensormap::generic.acquire.gpu [%rd2], 128;\n", ""),),
        "X117",
    ),
    "bytes of a box of two rows": ("tensor_map", (("[%r3], 1, 4;", "[%r3], 1, 2;"),), "H601"),
    "warps that take more registers than others give back": ("warps", (_EXACT, ("u32 160;", "u32 224;")), "H601"),
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


def test_stores_whose_columns_only_some_path_uses() -> None:
    """The columns of the second store are read if there are two steps."""
    text = edited("tensor_memory", ("    tcgen05.wait::st.sync.aligned;\n", "    bar.sync 0;\n"))
    lines = [number for number, line in enumerate(text.splitlines(), 1) if "tcgen05.st" in line]
    found = [(d.code, d.severity, d.place.line) for d in lint_module(text, "kernel.ptx", None, None) if d.place is not None]
    assert found == [("X107", "error", lines[0]), ("X107", "warning", lines[1])]
    assert {d.code for d in launch("tensor_memory", text)[0].diagnostics} == {"X107"}


def test_a_wait_for_the_phase_before_the_first() -> None:
    """Lint says that nothing waits for the copy; a run reports what follows, which depends on the order of the threads."""
    text = edited("bulk", ("[%r3], 0;", "[%r3], 1;"))
    assert codes(text) == ["X103", "X103"]
    assert not launch("bulk", text)[0].ok
