"""The note on floating-point additions whose result depends on their order."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import ptxlab

THREADS, CTAS = 64, 3

ADD = """
    and.b32 r1, r0, {mask};
    mad.wide.u32 rd2, r1, {size}, rd0;
    mad.wide.u32 rd3, r0, {size}, rd1;
    ld.global.b{bits} {v}, [rd3];
    {add}
"""


def launch(body: str, out: NDArray[Any], source: NDArray[Any], **options: Any) -> ptxlab.Result:
    text = f"""
.version 9.4
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 source)
{{
    .reg .pred p;
    .reg .b16 h<4>;
    .reg .b32 r<8>;
    .reg .b64 rd<8>;
    .shared .align 16 .b8 staging[1024];
    .shared .align 4 .f32 sum;
    ld.param.u64 rd0, [out];
    ld.param.u64 rd1, [source];
    mov.u32 r0, %tid.x;
    mov.u32 r2, %ctaid.x;
    mad.lo.u32 r0, r2, {THREADS}, r0;
    {body}
    ret;
}}
"""
    return ptxlab.loads(text).kernel().launch(grid=CTAS, block=THREADS, args=[out, source], **options)


def atomic(add: str, dtype: Any, mask: int = 7, values: NDArray[Any] | None = None, **options: Any) -> tuple[NDArray[Any], ptxlab.Result]:
    """Every thread adds one value to ``out[thread & mask]``."""
    if values is None:
        values = np.random.default_rng(1).standard_normal(THREADS * CTAS)
    size = np.dtype(dtype).itemsize
    out, source = np.zeros(THREADS * CTAS, dtype), values.astype(dtype)
    register = {2: "h1", 4: "r3", 8: "rd4"}[size]
    body = ADD.format(mask=mask, size=size, bits=8 * size, v=register, add=add.replace("$v", register))
    return out, launch(body, out, source, **options)


def codes(result: ptxlab.Result) -> list[str]:
    return [d.code for d in result.diagnostics]


@pytest.mark.parametrize(
    ("add", "dtype"),
    [
        ("red.global.add.f32 [rd2], $v;", np.float32),
        ("red.global.add.noftz.f32 [rd2], $v;", np.float32),
        ("atom.global.add.f32 r4, [rd2], $v;", np.float32),
        ("red.global.add.f64 [rd2], $v;", np.float64),
        ("red.global.add.noftz.f16 [rd2], $v;", np.float16),
        ("red.global.add.noftz.bf16 [rd2], $v;", ml_dtypes.bfloat16),
    ],
)
def test_sums_of_several_threads_are_noted(add: str, dtype: Any) -> None:
    _, result = atomic(add, dtype)
    assert codes(result) == ["M410"]
    assert result.ok
    found = result.diagnostics[0]
    assert found.severity == "note"
    assert found.message == (
        f"the sums that {add.split()[0]} makes depend on the order of the additions: several threads or copies add to one element, "
        "and sums are rounded"
    )
    details = dict(found.details)
    assert details["most additions to an element"] == f"{THREADS * CTAS // 8}, at byte 0 of argument 0 (out)"


def test_the_sums_do_depend_on_the_order() -> None:
    values = np.random.default_rng(2).standard_normal(THREADS * CTAS)
    first, _ = atomic("red.global.add.f32 [rd2], $v;", np.float32, values=values)
    second, _ = atomic("red.global.add.f32 [rd2], $v;", np.float32, values=values.reshape(-1, 8)[::-1].ravel())
    assert (first != second).any()
    assert np.allclose(first, second, rtol=1e-5)


@pytest.mark.parametrize(
    ("add", "dtype", "mask", "values"),
    [
        ("red.global.add.f32 [rd2], $v; red.global.add.f32 [rd2], $v;", np.float32, 255, None),  # one thread for each element
        ("red.global.add.f32 [rd2], $v;", np.float32, 7, np.arange(192.0) - 90),  # exact sums
        ("red.global.add.f64 [rd2], $v;", np.float64, 0, 2.0 ** (np.arange(192) % 40)),
        ("red.global.add.f32 [rd2], $v;", np.float32, 0, np.full(192, np.nan)),
        ("red.global.add.u32 [rd2], $v;", np.uint32, 0, np.arange(192)),
        ("red.global.add.noftz.v2.f16 [rd0], {h1, h1};", np.float16, 0, np.ones(192)),
        ("st.global.f32 [rd2], $v;", np.float32, 255, None),
    ],
)
def test_nothing_is_noted(add: str, dtype: Any, mask: int, values: NDArray[Any] | None) -> None:
    out, result = atomic(add, dtype, mask, values)
    assert result.diagnostics == ()
    assert out.any()


def test_without_checks_nothing_is_noted() -> None:
    _, result = atomic("red.global.add.f32 [rd2], $v;", np.float32, check="none")
    assert result.diagnostics == ()


def test_each_instruction_has_its_note() -> None:
    _, result = atomic("red.global.add.f32 [rd2], $v;\n red.global.add.f32 [rd2], $v;", np.float32)
    assert codes(result) == ["M410", "M410"]
    assert len({d.place for d in result.diagnostics}) == 2


SHARED = """
    setp.eq.u32 p, %tid.x, 0;
    mov.b32 r3, 0;
    @p st.shared.b32 [sum], r3;
    bar.sync 0;
    mad.wide.u32 rd3, r0, 4, rd1;
    ld.global.b32 r3, [rd3];
    {who} red.shared.add.f32 [sum], r3;
    bar.sync 0;
    ld.shared.b32 r4, [sum];
    mad.wide.u32 rd2, r0, 4, rd0;
    st.global.b32 [rd2], r4;
"""


@pytest.mark.parametrize(("who", "noted"), [("", True), ("@p", False)])
def test_shared_memory(who: str, noted: bool) -> None:
    """CTAs that follow each other on the same bytes do not add to the same elements."""
    out, source = np.zeros(192, np.float32), np.random.default_rng(3).standard_normal(192).astype(np.float32)
    result = launch(SHARED.format(who=who), out, source, device=ptxlab.Device("sm_90a", sms=1, ctas_per_sm=1))
    assert codes(result) == ["M410"] * noted
    if noted:
        assert dict(result.diagnostics[0].details)["most additions to an element"] == f"{THREADS}, in shared memory"
    else:
        assert np.array_equal(out[::64], source[::64])


BULK = """
    mad.wide.u32 rd3, r0, 4, rd1;
    ld.global.b32 r3, [rd3];
    mov.u32 r4, staging;
    mov.u32 r5, %tid.x;
    mad.lo.u32 r4, r5, 4, r4;
    st.shared.b32 [r4], r3;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    setp.eq.u32 p, r5, 0;
    {address}
    mov.u32 r4, staging;
    @p cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [rd0], [r4], 256;
    @p cp.async.bulk.commit_group;
    @p cp.async.bulk.wait_group 0;
"""


@pytest.mark.parametrize(("address", "noted"), [("", True), ("mad.wide.u32 rd0, r2, 256, rd0;", False)])
def test_bulk_reductions(address: str, noted: bool) -> None:
    out, source = np.full(192, 0.1, np.float32), np.random.default_rng(4).standard_normal(192).astype(np.float32)
    result = launch(BULK.format(address=address), out, source)
    assert codes(result) == ["M410"] * noted
    want = np.full(192, 0.1) + (np.append(source.reshape(3, 64).sum(0, dtype=np.float64), np.zeros(128)) if noted else source)
    assert np.allclose(out, want, atol=1e-5)
    if noted:
        assert dict(result.diagnostics[0].details)["most additions to an element"].startswith("3, at byte ")
