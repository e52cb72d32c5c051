"""What the sanitizer keeps of a launch does not grow with what has exited."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import pytest

from ptxlab.check.race import _sanitizer

from .small_kernels import launch

BODY = """
st.shared.b32 [%r2], 7;
fence.proxy.async.shared::cta;
@%p1 mbarrier.init.shared::cta.b64 [%r7], 1;
bar.sync 0;
@%p1 atom.acq_rel.cta.shared::cta.add.u32 %r5, [%r2+64], 1;
mov.u32 %r3, %ctaid.x;
mul.wide.u32 %rd2, %r3, 128;
add.u64 %rd2, %rd1, %rd2;
mov.u32 %r4, 0;
AGAIN:
@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r2], 16;
@%p1 cp.async.bulk.commit_group;
@%p1 cp.async.bulk.wait_group 0;
@%p1 ld.relaxed.gpu.global.u32 %r5, [%rd1+64];
add.u32 %r4, %r4, 1;
setp.lt.u32 %p2, %r4, {times};
@%p2 bra AGAIN;
"""


def kept(monkeypatch: pytest.MonkeyPatch, ctas: int, times: int) -> int:
    """Bytes that the sanitizer of a launch holds when it is over."""
    made = []
    start = _sanitizer.Sanitizer.__init__
    monkeypatch.setattr(_sanitizer.Sanitizer, "__init__", lambda self, *args: (made.append(self), start(self, *args))[1])
    options: dict[str, Any] = {"grid": ctas, "words": 32 * 1024, "shared_bytes": 1024, "max_instructions": 10_000_000, "check": ["race"]}
    tracemalloc.start()
    result = launch(BODY.format(times=times), **options)
    assert result.ok
    del result
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    monkeypatch.undo()
    return size


@pytest.mark.sweep
def test_a_grid_of_many_ctas(monkeypatch: pytest.MonkeyPatch) -> None:
    kept(monkeypatch, 8, 1)
    assert kept(monkeypatch, 208, 1) - kept(monkeypatch, 8, 1) < 200 * 512, "half a kilobyte for each CTA: its name"


@pytest.mark.sweep
def test_a_cta_that_copies_and_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    # What a process makes once, as functions that it optimises after many calls, is kept by one launch only.
    long = [kept(monkeypatch, 1, 1300) for _ in range(3)]
    assert min(long) - kept(monkeypatch, 1, 300) < 1000 * 16
