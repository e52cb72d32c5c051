"""What a single thread cannot see: cache control, fences, events, sleeping. What was stored before them is loaded after them."""

from __future__ import annotations

import numpy as np
import pytest

import ptxlab

SHOWS = {
    "test_nothing_changes": (
        "applypriority*", "discard*", "prefetch{.space=global}.*", "prefetchu*", "prefetch{.space=global|local}*", "createpolicy*",
        "membar*", "fence.*", "nanosleep*", "pmevent*",
    ),
    "test_loads_through_the_uniform_cache": ("ldu*",),
}  # fmt: skip
FORMS = """
applypriority.global.L2::evict_normal [at], 128;
applypriority.L2::evict_normal [at], 128;
discard.global.L2 [other], 128;
discard.L2 [other], 128;
prefetch.global.L1 [at];
prefetch.global.L2 [at];
prefetch.local.L1 [own];
prefetch.local.L2 [own];
prefetch.L1 [at];
prefetch.L2 [at];
prefetch.global.L2::evict_last [at];
prefetch.global.L2::evict_normal [at];
prefetchu.L1 [at];
createpolicy.cvt.L2.b64 policy, 0x10000000;
createpolicy.fractional.L2::evict_last.b64 policy;
createpolicy.fractional.L2::evict_first.L2::evict_unchanged.b64 policy, 0.25;
createpolicy.range.global.L2::evict_last.L2::evict_unchanged.b64 policy, [at], 128, 256;
createpolicy.range.L2::evict_normal.b64 policy, [at], 128, 256;
membar.cta;
membar.gl;
membar.sys;
membar.proxy.alias;
membar.proxy.async;
membar.proxy.async.global;
membar.proxy.async.shared::cta;
membar.proxy.async.shared::cluster;
fence.cta;
fence.sc.gpu;
fence.acq_rel.cluster;
fence.acquire.sys;
fence.release.cta;
fence.proxy.alias;
fence.proxy.async;
fence.proxy.async.global;
fence.proxy.async.shared::cta;
fence.proxy.async.shared::cluster;
fence.proxy.tensormap::generic.release.gpu;
fence.proxy.tensormap::generic.acquire.gpu [other], 128;
fence.mbarrier_init.release.cluster;
fence.acquire.sync_restrict::shared::cluster.cluster;
fence.release.sync_restrict::shared::cta.cluster;
fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;
fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;
nanosleep.u32 40;
pmevent 7;
pmevent.mask 0xff;
""".strip().splitlines()
KERNEL = """
.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 a) {{
    .reg .b64 at, other, policy, base;
    .reg .b32 tid, r, s, l;
    .reg .pred p;
    .local .align 4 .b32 own;
    .shared .align 128 .b8 here[256];
    ld.param.u64 base, [a];
    mov.u32 tid, %tid.x;
    mad.wide.u32 at, tid, 128, base;
    add.u64 other, at, 4096;
    mad.lo.u32 s, tid, 3, 7;
    mov.b64 policy, 0;
    st.global.u32 [at], s;
    st.local.u32 [own], s;
    mov.u32 l, here;
    mad.lo.u32 l, tid, 4, l;
    st.shared.u32 [l], s;
    {form}
    ld.global.u32 r, [at];
    ld.shared.u32 s, [l];
    add.u32 r, r, s;
    ld.local.u32 s, [own];
    add.u32 r, r, s;
    st.global.u32 [at+4], r;
    {last}
    ret;
}}
"""


def run(form: str, last: str = "", block: int = 32) -> tuple[np.ndarray, ptxlab.LaunchResult]:
    words = np.zeros((64, 32), np.uint32)
    result = ptxlab.loads(KERNEL.format(form=form, last=last)).kernel().launch(block=block, args=[words])
    return words, result


@pytest.mark.parametrize("form", FORMS)
def test_nothing_changes(form: str) -> None:
    use = "ld.global.L2::cache_hint.u32 r, [at+4], policy; st.global.u32 [at+8], r;" if form.startswith("createpolicy") else ""
    words, result = run(form, use)
    assert result.diagnostics == ()
    stored = 3 * np.arange(32) + 7
    assert np.array_equal(words[:32, 0], stored)
    assert np.array_equal(words[:32, 1], 3 * stored)
    assert np.array_equal(words[:32, 2], 3 * stored if use else np.zeros(32))


@pytest.mark.parametrize("space", ["", ".global"])
def test_loads_through_the_uniform_cache(space: str) -> None:
    """The address is the same for the whole warp, as ``ldu`` wants it."""
    form = f"bar.sync 0; ldu{space}.u32 r, [base+640]; ldu{space}.v2.b32 {{s, l}}, [base+1152]; add.u32 r, r, s; add.u32 r, r, l;"
    words, result = run("", f"{form} ldu{space}.s8 s, [base]; add.u32 r, r, s; st.global.u32 [at+8], r;")
    assert result.diagnostics == ()
    assert np.array_equal(words[:32, 2], np.full(32, (3 * 5 + 7) + 4 * (3 * 9 + 7) + 7))
