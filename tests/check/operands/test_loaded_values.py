"""Operands that threads load from global memory and store to shared memory: followed as long as they are what was loaded."""

from __future__ import annotations

import pytest

import ptxlab
from ptxlab.engine import Executable

from .word_kernels import (
    INSTRUCTION,
    LOADED_TEXT,
    MATRICES,
    MISTAKES,
    STORED,
    TRANSPOSED,
    expect_mistake,
    expect_swizzle_named,
    launch,
    mistaken,
)

STORE = "st.shared.v4.b32 [%r13], {%r20, %r21, %r22, %r23};"


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str) -> None:
    expect_mistake(name, LOADED_TEXT)


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
@pytest.mark.parametrize("policy", ["eager", "random"])
def test_the_kernel_itself(policy: str, backend: str) -> None:
    result, right = launch(LOADED_TEXT, policy=policy, backend=backend, check="operands")
    assert right
    assert result.diagnostics == ()


def test_the_kernel_itself_with_all_checks() -> None:
    result, right = launch(LOADED_TEXT)
    assert right
    assert result.diagnostics == ()


def test_a_launch_without_the_check_runs_code_without_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of operands alone compiles the functions that note where values were loaded."""
    run = []
    execute = Executable.run_turns
    monkeypatch.setattr(Executable, "run_turns", lambda self, *args: run.append(self.program) or execute(self, *args))
    for check, followed in (("race", False), ("none", False), ("operands", True), ("all", True)):
        run.clear()
        assert launch(LOADED_TEXT, check=check)[1]
        assert {bool(program.loaded.stores) for program in run} == {followed}


def test_programs_that_are_equal_are_one() -> None:
    """A kernel without such stores has one executable for both; each combination of options is made once."""
    followed = ptxlab.loads(LOADED_TEXT).kernel()
    assert followed.variant(False, True, followed=False)[1] is not followed.variant(False, True)[1]
    assert followed.variant(False, True, followed=False)[1] is followed.variant(False, True, followed=False)[1]
    assert followed.variant(False, False)[0] is followed.program
    plain = ptxlab.loads(LOADED_TEXT.replace(STORE, "").replace(STORED, "")).kernel()
    assert plain.variant(False, True, followed=False)[1] is plain.variant(False, True)[1]


FRAGMENT = """shr.u32 %r16, %r1, 5;
    shl.b32 %r16, %r16, 5;
    and.b32 %r17, %r1, 31;
    shr.u32 %r17, %r17, 2;
    add.u32 %r16, %r16, %r17;
    mul.wide.u32 %rd2, %r16, 256;
    and.b32 %r17, %r1, 3;
    mul.wide.u32 %rd9, %r17, 4;
    add.u64 %rd2, %rd2, %rd9;"""
"""A thread loads the words that it has in a register of stmatrix: of row lane / 4 of eight rows, word lane % 4 of a chunk."""

FORMS = {
    "pairs of 64 bits": LOADED_TEXT.replace("ld.global.v4.b32 {%r20, %r21, %r22, %r23}", "ld.global.v2.b64 {%rd7, %rd8}").replace(
        STORE, "st.shared.v2.b64 [%r13], {%rd7, %rd8};"
    ),
    "generic addresses": LOADED_TEXT.replace("ld.global", "ld").replace(
        STORE, "cvt.u64.u32 %rd9, %r13;\n    cvta.shared.u64 %rd9, %rd9;\n    st.v4.b32 [%rd9], {%r20, %r21, %r22, %r23};"
    ),
    "stmatrix": LOADED_TEXT.replace("mul.wide.u32 %rd2, %r1, 256;", FRAGMENT)
    .replace(
        "ld.global.v4.b32 {%r20, %r21, %r22, %r23}, [%rd1];", "\n".join(f"ld.global.b32 %r{20 + i}, [%rd1+{2048 * i}];" for i in range(4))
    )
    .replace(STORE, "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r13], {%r20, %r21, %r22, %r23};"),
    "words in turn": LOADED_TEXT.replace(STORE, "\n".join(f"    st.shared.b32 [%r13+{4 * i}], %r{20 + i};" for i in range(4))),
}


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
@pytest.mark.parametrize("form", FORMS)
def test_forms_of_the_accesses(form: str, backend: str) -> None:
    expect_swizzle_named(FORMS[form], backend=backend)


TURNED = (
    LOADED_TEXT.replace(
        "mul.wide.u32 %rd2, %r1, 256;",
        """and.b32 %r16, %r1, 31;
    shr.u32 %r17, %r16, 2;
    mul.wide.u32 %rd2, %r17, 256;
    sub.u32 %r17, %r1, %r16;
    and.b32 %r16, %r16, 3;
    shl.b32 %r16, %r16, 1;
    add.u32 %r17, %r17, %r16;
    mul.wide.u32 %rd9, %r17, 2;
    add.u64 %rd2, %rd2, %rd9;""",
    )
    .replace(
        "ld.global.v4.b32 {%r20, %r21, %r22, %r23}, [%rd1];", "\n".join(f"ld.global.b32 %r{20 + i}, [%rd1+{16 * i}];" for i in range(4))
    )
    .replace(STORE, "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%r13], {%r20, %r21, %r22, %r23};")
    .replace("add.u64 %rd1, %rd1, 16;", "add.u64 %rd1, %rd1, 2048;")
)
"""The array is the transposed matrix. A thread loads words of row lane / 4 of eight, and stmatrix makes columns of these."""


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
def test_a_transposed_stmatrix(backend: str) -> None:
    first, *_ = expect_swizzle_named(TURNED, backend=backend, turned=True)
    assert first.message == TRANSPOSED


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_behind_a_transposed_stmatrix(name: str) -> None:
    expect_mistake(name, TURNED, turned=True)


def test_a_transposed_stmatrix_of_values_that_are_computed() -> None:
    text = mistaken("swizzle 64B", TURNED)[0].replace("stmatrix", "xor.b32 %r21, %r21, 0x01000100;\n    stmatrix")
    result, _ = launch(text, turned=True, check="operands")
    assert result.diagnostics == ()


TO_PEER = LOADED_TEXT.replace(
    STORE,
    "mov.u32 %r16, %cluster_ctarank;\n    xor.b32 %r16, %r16, 1;\n    mapa.shared::cluster.u32 %r13, %r13, %r16;\n    "
    + STORE.replace("shared", "shared::cluster"),
).replace("    bar.sync 0;\n    ld.shared", "    barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;\n    ld.shared")


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
def test_stores_to_the_shared_memory_of_the_other_cta(backend: str) -> None:
    expect_swizzle_named(TO_PEER, backend=backend, grid=2, cluster=2)


BY_ST_ASYNC = (
    LOADED_TEXT.replace(
        STORE,
        """mov.u32 %r16, %cluster_ctarank;
    xor.b32 %r16, %r16, 1;
    mapa.shared::cluster.u32 %r13, %r13, %r16;
    mapa.shared::cluster.u32 %r17, %r25, %r16;
    st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%r13], {%r20, %r21, %r22, %r23}, [%r17];""",
    )
    .replace(".shared .align 8 .b64 done;", ".shared .align 8 .b64 done;\n    .shared .align 8 .b64 full;")
    .replace(
        "@%p2 mbarrier.init.shared::cta.b64 [%r5], 1;",
        """mov.u32 %r25, full;
    @%p2 mbarrier.init.shared::cta.b64 [%r5], 1;
    @%p2 mbarrier.init.shared::cta.b64 [%r25], 1;
    @%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r25], 16384;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;""",
    )
    .replace(
        "fence.proxy.async.shared::cta;\n    bar.sync 0;",
        """FULL:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p6, [%r25], 0;
    @!%p6 bra FULL;
    fence.proxy.async.shared::cta;
    bar.sync 0;""",
    )
)


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
@pytest.mark.parametrize("policy", ["eager", "lazy"])
def test_st_async(policy: str, backend: str) -> None:
    expect_swizzle_named(BY_ST_ASYNC, backend=backend, policy=policy, grid=2, cluster=2)


def test_st_async_of_values_that_are_computed() -> None:
    """They overwrite what has been stored there before."""
    text = mistaken("swizzle 64B", BY_ST_ASYNC)[0].replace("    st.async", "    add.u32 %r20, %r20, 0;\n    st.async")
    result, _ = launch(text, check="operands", grid=2, cluster=2)
    assert result.diagnostics == ()


def test_st_async_with_all_checks() -> None:
    result, right = launch(BY_ST_ASYNC, grid=2, cluster=2)
    assert right
    # Both CTAs compute all of C.
    assert {(found.code, found.severity) for found in result.diagnostics} == {("X123", "note")}


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
def test_lanes_without_a_load_store_zeros(backend: str) -> None:
    """Rows behind the end of an array."""
    ragged = LOADED_TEXT.replace(
        "ld.global.v4.b32",
        "".join(f"mov.b32 %r{20 + i}, 0;\n    " for i in range(4)) + "setp.lt.u32 %p7, %r1, 100;\n    @%p7 ld.global.v4.b32",
    )
    result, right = launch(ragged, backend=backend, check="operands")
    assert not right
    assert result.diagnostics == ()
    result, _ = launch(mistaken("swizzle 64B", ragged)[0], backend=backend, check="operands")
    assert {found.code for found in result.diagnostics} == {"O101"}


def test_values_that_are_computed_are_not_judged() -> None:
    text = mistaken("swizzle 64B", LOADED_TEXT)[0].replace(
        "st.shared.v4.b32 [%r13]", "xor.b32 %r20, %r20, 0x01000100;\n    st.shared.v4.b32 [%r13]"
    )
    result, _ = launch(text, check="operands")
    assert result.diagnostics == ()


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
def test_loads_of_overlapping_registers(backend: str) -> None:
    """What a store writes is what the last one has brought."""
    twice = LOADED_TEXT.replace("ld.global.v4.b32", "ld.global.v2.b32 {%r21, %r20}, [%rd1];\n    ld.global.v4.b32")
    result, right = launch(twice, backend=backend, check="operands")
    assert right
    assert result.diagnostics == ()
    result, right = launch(mistaken("swizzle 64B", twice)[0], backend=backend, check="operands")
    assert not right
    assert {found.code for found in result.diagnostics} == {"O101"}
    wrong = LOADED_TEXT.replace(f"    {STORE}", f"    ld.global.v2.b32 {{%r21, %r20}}, [%rd1];\n    {STORE}")
    # A and B are the same tile: the permutation of k is that of both.
    result, right = launch(wrong, backend=backend, check="operands")
    assert right
    assert result.diagnostics == ()


ONE_DIMENSION = ["swizzle 64B", "swizzle 32B", "no swizzle", "stride 512", "transposed A", "transposed B"]


@pytest.mark.parametrize("name", ONE_DIMENSION)
def test_mistakes_with_arrays_of_one_dimension(name: str) -> None:
    """Nothing says how long a row of the array is."""
    expect_mistake(name, LOADED_TEXT, flat=True)


def test_an_array_of_one_dimension() -> None:
    result, right = launch(LOADED_TEXT, flat=True)
    assert right
    assert result.diagnostics == ()


def test_more_rows_than_were_copied() -> None:
    wider = hex(int(INSTRUCTION, 16) & ~(0x3F << 17) | 192 // 8 << 17)
    text = LOADED_TEXT.replace(INSTRUCTION, wider).replace("[%r3], 64;", "[%r3], 256;").replace("%r4, 64;", "%r4, 256;")
    result, _ = launch(text)
    (found,) = (each for each in result.diagnostics if each.code == "D704")
    assert found.fix == "set N to 128: 128 of the 192 rows of B are what was copied"


def test_an_operand_that_begins_too_late() -> None:
    text = LOADED_TEXT.replace(f"or.b64 %rd10, %rd10, {MATRICES};", f"or.b64 %rd10, %rd10, {MATRICES};\n    add.u64 %rd10, %rd10, 64;")
    result, right = launch(text)
    assert not right
    (found,) = (each for each in result.diagnostics if each.code == "D704")
    assert found.fix == "set the start address to 0x400: then A is the tile that was copied"
