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


SHOW = """history.replaceState(null, "", "#" + arguments[0]);
    document.documentElement.dataset.theme = "light";
    scrollTo(0, 0);
    readFragment();
    update();"""


@pytest.fixture
def page(browser: Any, address: str) -> Any:
    """The page with a fragment: loaded, if ``fresh``, or else one that is loaded already, with this fragment."""

    def open_page(fragment: str = "", fresh: bool = False) -> Any:
        if fresh or browser.run("return location.href.split('#')[0]") != address:
            browser.open("about:blank")
            browser.open(f"{address}#{fragment}")
        else:
            browser.run(SHOW, fragment)
        return browser

    return open_page
