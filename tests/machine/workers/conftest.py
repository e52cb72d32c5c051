"""Worker processes that a test makes."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The processes that are made; none must be left."""
    made: list[int] = []
    fork = os.fork

    def noted() -> int:
        pid = fork()
        if pid:
            made.append(pid)
        return pid

    monkeypatch.setattr(os, "fork", noted)
    gc.collect()  # descriptors of earlier tests
    files = len(os.listdir("/proc/self/fd"))
    yield made
    for pid in made:
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
    assert len(os.listdir("/proc/self/fd")) <= files
