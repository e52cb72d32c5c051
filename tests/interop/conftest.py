"""A cache of Triton for the tests of a module; doctest collection keeps away from modules that need triton to import."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

collect_ignore_glob = ["triton_*.py"]


@pytest.fixture(scope="module")
def triton_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """An empty cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
        yield
