"""A in tensor memory, and scale factors and metadata, which tcgen05.st or tcgen05.cp has written there."""

from __future__ import annotations

import pytest

from . import scaled_kernels, sparse_kernels
from .tensor_kernels import HALVES, MISTAKES, STORE, TEXT, mistaken
from .test_scale_factors import OF_A, with_ids
from .word_kernels import launch


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
@pytest.mark.parametrize("stores", [STORE, HALVES])
def test_the_kernel_itself(stores: str, backend: str) -> None:
    result, right = launch(TEXT.replace(STORE, stores), backend=backend)
    assert right
    assert result.diagnostics == ()


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str, backend: str) -> None:
    text, code, fix = mistaken(name)
    result, right = launch(text, backend=backend, check="operands")
    assert not right
    assert {found.code for found in result.diagnostics} == {code}
    assert any(fix in found.fix for found in result.diagnostics)


def test_message() -> None:
    result, _ = launch(mistaken("odd rows")[0], check="operands")
    assert result.diagnostics[0].message == (
        "matrix A in tensor memory is not a matrix of the elements that were loaded: its rows do not have the same k; "
        "A[1, 8] is a[1, 0], but A[0, 8] is a[0, 8]"
    )


@pytest.mark.parametrize("name", ["registers", "odd rows", "halves"])
def test_values_that_are_computed_are_not_judged(name: str) -> None:
    """As the softmax between two products."""
    change = "".join(f"    xor.b32 %a{i}, %a{i}, 0x10001;\n" for i in (7, 15, 23, 31))
    text = mistaken(name)[0].replace("    add.u32 %r24, %r4, 64;", change + "    add.u32 %r24, %r4, 64;")
    result, _ = launch(text, check="operands")
    assert result.diagnostics == ()


def test_columns_that_are_computed_later_are_not_judged() -> None:
    """A store of computed values overwrites what was loaded."""
    text = mistaken("odd rows")[0].replace(
        "    tcgen05.wait::st", "    xor.b32 %r26, %r1, 5;\n    tcgen05.st.sync.aligned.32x32b.x1.b32 [%r24], {%r26};\n    tcgen05.wait::st"
    )
    result, _ = launch(text, check="operands")
    assert [found.code for found in result.diagnostics] == ["O101"]
    assert result.diagnostics[0].message.endswith("A[1, 8] is a[1, 16], but A[0, 8] is a[0, 24]")


STORED_SCALES = """ld.param.u64 %rd6, [scales];
    and.b32 %r30, %r1, 31;
    mul.wide.u32 %rd7, %r30, 16;
    add.u64 %rd6, %rd6, %rd7;
    ld.global.v4.b32 {%r31, %r32, %r33, %r34}, [%rd6];
    tcgen05.st.sync.aligned.32x32b.x4.b32 [%r24], {%r31, %r32, %r33, %r34};
    tcgen05.wait::st.sync.aligned;
    tcgen05.fence::before_thread_sync;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;"""
SCALED = scaled_kernels.TEXT.replace(f"@%p2 {scaled_kernels.COPY}", STORED_SCALES)


def test_scale_factors_that_are_stored() -> None:
    result, right = scaled_kernels.launch(SCALED)
    assert right
    assert result.diagnostics == ()


def test_mistaken_scale_factors_that_are_stored() -> None:
    text = with_ids(OF_A, (0, 0, 2, 3)).replace(f"@%p2 {scaled_kernels.COPY}", STORED_SCALES)
    result, right = scaled_kernels.launch(text, check="operands")
    assert not right
    (found,) = result.diagnostics
    assert found.code == "O108"
    assert found.fix == "let each instruction take the scale factors of its own k: set the scale factor ID of A to 1"


SPARSE = sparse_kernels.TEXT.replace(f"@%p2 {scaled_kernels.COPY}", STORED_SCALES)


def test_metadata_that_are_stored() -> None:
    result, right = sparse_kernels.launch(SPARSE)
    assert right
    assert result.diagnostics == ()


def test_mistaken_metadata_that_are_stored() -> None:
    """All metadata are equal here: the product is right by chance."""
    text = SPARSE.replace(sparse_kernels.NEXT, f"setp.eq.u32 %p7, %r15, 1;\n    @!%p7 {sparse_kernels.NEXT}")
    result, _ = sparse_kernels.launch(text, check="operands")
    assert {found.code for found in result.diagnostics} == {"O108"}


def copied(step: int) -> str:
    """A is copied from shared memory to tensor memory; ``step`` is by how many 16 bytes the source advances."""
    copies = "".join(
        f"    add.u32 %r25, %r4, {64 + 8 * i};\n    add.u64 %rd15, %rd10, {step * i};\n"
        "    @%p2 tcgen05.cp.cta_group::1.128x256b [%r25], %rd15;\n"
        for i in range(4)
    )
    begin, end = TEXT.index("    ld.param.u64 %rd13, [a];"), TEXT.index("    shr.u32 %r14, %r2, 4;")
    return (TEXT[:begin] + "    add.u32 %r24, %r4, 64;\n" + TEXT[end:]).replace("    @!%p2 bra WAIT;", copies + "    @!%p2 bra WAIT;")


def test_an_a_that_is_copied_to_tensor_memory() -> None:
    result, right = launch(copied(2))
    assert right
    assert result.diagnostics == ()


def test_an_a_that_is_copied_with_another_step() -> None:
    result, right = launch(copied(1), check="operands")
    assert not right
    assert {found.code for found in result.diagnostics} == {"O105"}
    assert "k of A moves by 8" in result.diagnostics[0].message
