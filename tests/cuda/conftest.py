"""The virtual driver of the test process, with one session for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ptxlab.cuda.building import compiler
from ptxlab.interop.session import Session
from tests.cuda.driver_helpers import Driver, own_session


@pytest.fixture(scope="session")
def _driver() -> Driver:
    if compiler() is None:
        pytest.skip("no C compiler")
    return Driver()


@pytest.fixture
def found() -> Iterator[Session]:
    """The session that records launches and findings of a test."""
    with own_session() as session:
        yield session


@pytest.fixture
def driver(_driver: Driver, found: Session) -> Iterator[Driver]:
    """The driver with the primary context of device 0, which is reset afterwards."""
    _driver.context()
    yield _driver
    _driver.library.cuDevicePrimaryCtxReset_v2(0)
    _driver.library.cuCtxSetCurrent(None)
