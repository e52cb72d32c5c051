"""Legal descriptors that do not fit what was copied: each is found, and the descriptor that fits is named."""

from __future__ import annotations

import numpy as np
import pytest

import ptxlab
from tests.check.race.gemm_kernels import TEXT, launch
from tests.sweep_helpers import one_in

from .mistakes import MISTAKES, wrong

SHOWS = {"test_mistakes": ("tcgen05.mma*",)}


@pytest.mark.parametrize("name", one_in(2, MISTAKES))
def test_mistakes(name: str) -> None:
    text, code, fix = wrong(name)
    result, right = launch(text, check="operands")
    assert not right
    assert {found.code for found in result.diagnostics if found.code.startswith("O")} >= {code}
    assert any(fix in found.fix for found in result.diagnostics if found.code == code)
    assert all(found.severity == "warning" for found in result.diagnostics)


@pytest.mark.parametrize("policy", ["eager", "lazy", "random"])
def test_the_kernel_itself(policy: str) -> None:
    result, right = launch(TEXT, check="operands", policy=policy)
    assert right
    assert result.diagnostics == ()


def test_the_letter_makes_it_an_error() -> None:
    result, _ = launch(wrong("swizzle 64B")[0], check="operands", model="spec")
    assert {found.severity for found in result.diagnostics} == {"error"}


def test_a_finding_in_full() -> None:
    result, _ = launch(wrong("swizzle 64B")[0], check="operands")
    first = result.diagnostics[0]
    assert first.message == (
        "matrix A is not an image of the tile that was copied: its rows do not begin at the same place in the rows of the tile; "
        "A[1, 0] is element [0, 32] of the array, but A[0, 0] is element [0, 0] of the array"
    )
    assert first.fix == (
        "set the swizzling mode to 128B: then A is the tile that was copied; or encode the tensor map with swizzling mode 64B"
    )
    assert first.place is not None
    assert (first.place.line, first.place.column) == (85, 5)
    details = dict(first.details)
    assert details["copied by"].startswith("gemm.ptx:62:5 `cp.async.bulk.tensor.2d.shared::cta.global")
    assert [details[f"row {i} is row.chunk"] for i in range(4)] == ["0.0 0.1", "0.4 0.5", "1.0 1.1", "1.4 1.5"]


def test_k_of_a_and_b() -> None:
    """B begins at another k than A, and advances as it does."""
    text = TEXT.replace("add.u64 %rd11, %rd10, 1024;", "add.u64 %rd11, %rd10, 1026;")
    result, right = launch(text, check="operands")
    assert not right
    found = next(each for each in result.diagnostics if each.code == "O104")
    assert found.message == "A and B are multiplied with different k: A begins at k = 0 of its tile and B at k = 16"
    assert found.fix == "set the start address to 0x4800 in the descriptor of B"


def test_bytes_that_threads_have_overwritten_are_not_judged() -> None:
    """A wrong image of what was copied says nothing if threads have written the bytes since: a tile rearranged in place."""
    text = wrong("swizzle 64B")[0].replace(
        "mad.lo.u32 %r15, %r10, 24576, %r6;\n    shr.u32 %r16, %r15, 4;",
        "mad.lo.u32 %r15, %r10, 24576, %r6;\n    mov.u32 %r40, %r15;\n    add.u32 %r41, %r15, 24576;\n"
        "MIX:\n    ld.shared.b32 %r42, [%r40];\n    xor.b32 %r42, %r42, 0x01000100;\n    st.shared.b32 [%r40], %r42;\n"
        "    add.u32 %r40, %r40, 16;\n    setp.lt.u32 %p10, %r40, %r41;\n    @%p10 bra MIX;\n    fence.proxy.async.shared::cta;\n"
        "    shr.u32 %r16, %r15, 4;",
    )
    assert "MIX" in text
    result, _ = launch(text, check="operands")
    assert result.diagnostics == ()


def test_types_that_say_nothing() -> None:
    """A tensor map of integers fits all element types of its width."""
    generator = np.random.default_rng(5)
    a, b = (generator.integers(-4, 5, (rows, 256)).astype(np.float16) for rows in (128, 64))
    c = np.zeros((128, 64), np.float16)
    maps = [ptxlab.TensorMap(x.view(np.uint16), box=(64, len(x)), swizzle="128B") for x in (a, b)]
    kernel = ptxlab.loads(TEXT).kernel()
    result = kernel.launch(args=[*maps, ptxlab.TensorMap(c, box=(64, 128)), 4], shared_bytes=66560, check="operands")
    assert result.diagnostics == ()
    assert np.array_equal(c, (a.astype(np.float64) @ b.astype(np.float64).T).astype(np.float16))


@pytest.mark.parametrize("policy", ["eager", "lazy", "random"])
def test_a_cta_that_exits_before_its_products_are_complete(policy: str) -> None:
    """What performs afterwards has no shared memory to be compared with."""
    text = TEXT[: TEXT.index("STORE:\n")] + "STORE:\n    ret;\n}\n"
    result, _ = launch(text, check="operands", policy=policy)
    assert result.completed
    assert result.diagnostics == ()
