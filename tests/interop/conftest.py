"""A cache of Triton for the tests of a module, and a session; doctest collection keeps away from modules that need triton to import."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ptxlab.interop.session import Session

collect_ignore_glob = ["triton_*.py"]


@pytest.fixture(scope="module")
def triton_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """An empty cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
        yield


@pytest.fixture
def session() -> Iterator[Session]:
    """A session in which Triton's kernels run; it collects the findings."""
    import ptxlab.interop.triton

    with ptxlab.interop.triton.device("sm_100a", report=lambda _: None) as session:
        yield session
