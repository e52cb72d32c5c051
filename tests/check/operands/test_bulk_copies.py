"""Operands that bulk copies without a tensor map have brought to shared memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ptxlab

from . import word_kernels

_START = word_kernels.TEXT.index("    ld.param.u64 %rd1, [a];")
_END = word_kernels.TEXT.index("    fence.proxy.async")
_LOOP = word_kernels.TEXT[word_kernels.TEXT.index("    mov.u32 %r15, 0;\nSTEP:") : word_kernels.TEXT.index("    tcgen05.commit")]
_BULK = "cp.async.bulk.shared::cluster.{}.mbarrier::complete_tx::bytes"
_WAIT = "{0}:\n    mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r5], {1};\n    @!%p3 bra {0};\n"
STRIDES = "0x0000400800800000"
"""Without swizzling: 2,048 bytes from 8 elements of k to the next ones, 128 from 8 rows to the next ones."""


def ptx(through: bool) -> str:
    """The array holds 8 elements of k of all rows, then the next ones; ``through`` other bytes of shared memory, which are copied."""
    first = "%r20" if through else "%r2"
    again = (
        _WAIT.format("FETCHED", 0)
        + "    bar.sync 0;\n"
        + "    @%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], 4096;\n"
        + f"    @%p2 {_BULK.format('shared::cta')} [%r2], [%r20], 4096, [%r5];\n"
        + _WAIT.format("COPIED", 1)
    )
    copies = f"""    bar.sync 0;
    ld.param.u64 %rd1, [a];
    add.u32 %r20, %r2, 8192;
    @%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], 4096;
    @%p2 {_BULK.format("global")} [{first}], [%rd1], 4096, [%r5];
{again if through else _WAIT.format("FETCHED", 0)}"""
    one = "    tcgen05.mma.cta_group::1.kind::f16 [%r4], %rd10, %rd11, %r6, 0;\n"
    text = (word_kernels.TEXT[:_START] + copies + word_kernels.TEXT[_END:]).replace(_LOOP, one)
    return text.replace("[%r5], 0;\n    @!%p6", f"[%r5], {0 if through else 1};\n    @!%p6").replace(word_kernels.MATRICES, STRIDES)


def launch(text: str, **options: Any) -> tuple[Any, bool]:
    """The result, and whether the product is right."""
    rows = np.random.default_rng(5).integers(-4, 5, (128, 16)).astype(np.float16)
    blocked = np.ascontiguousarray(rows.reshape(128, 2, 8).transpose(1, 0, 2))
    c = np.zeros((128, 64), np.float32)
    result = ptxlab.loads(text, file="bulk.ptx").kernel().launch(block=128, args=[blocked, c], **options)
    wide = rows.astype(np.float64)
    return result, bool((c == wide @ wide[:64].T).all())


@pytest.mark.parametrize("through", [False, True], ids=["from global memory", "through shared memory"])
@pytest.mark.parametrize("policy", ["eager", "lazy", "random"])
def test_the_kernels_themselves(policy: str, through: bool) -> None:
    result, right = launch(ptx(through), policy=policy)
    assert right
    assert result.diagnostics == ()


@pytest.mark.parametrize("through", [False, True], ids=["from global memory", "through shared memory"])
def test_the_element_type_is_that_of_the_array(through: bool) -> None:
    result, right = launch(ptx(through).replace(word_kernels.INSTRUCTION, "0x08100490"), check="operands")
    assert not right
    assert [found.code for found in result.diagnostics] == ["O103"]
    assert result.diagnostics[0].message == "matrix A is read as bf16, but the elements of a are float16"


def test_the_same_bytes() -> None:
    result, right = launch(ptx(False).replace(STRIDES, "0x0000400800400000"), check="operands")
    assert not right
    assert {found.code for found in result.diagnostics} == {"O102"}


def test_a_layout_that_was_prepared_in_global_memory() -> None:
    """With another descriptor the bytes would be rows in equal steps, too; nothing says that this one is wrong."""
    result, _ = launch(ptx(False).replace(STRIDES, "0xc000401000800000"), check="operands")
    assert result.diagnostics == ()
