"""The explorer page in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ptxlab.view import explorer_page
from tests.view import webdriver_helpers as webdriver


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("explorer") / "page.html"
    path.write_text(explorer_page(), encoding="utf-8")
    return path.as_uri()


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    if webdriver.MISSING:
        pytest.skip(webdriver.MISSING)
    found = webdriver.Browser()
    yield found
    found.close()


@pytest.fixture
def page(browser: Any, address: str) -> Any:
    def open_page(fragment: str = "") -> Any:
        browser.open("about:blank")
        browser.open(f"{address}#{fragment}")
        return browser

    return open_page
