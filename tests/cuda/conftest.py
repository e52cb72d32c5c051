"""The virtual driver of the test process, with one session for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ptxlab.cuda.building import compiler
from ptxlab.interop.session import Session
from tests.cuda.driver_helpers import Driver, own_session


@pytest.fixture
def found() -> Iterator[Session]:
    """The session that records launches and findings of a test."""
    with own_session() as session:
        yield session


@pytest.fixture
def driver(found: Session) -> Iterator[Driver]:
    """The driver with the primary context of device 0, which is reset afterwards."""
    if compiler() is None:
        pytest.skip("no C compiler")
    made = Driver()
    made.context()
    yield made
    made.library.cuDevicePrimaryCtxReset_v2(0)
    made.library.cuCtxSetCurrent(None)
