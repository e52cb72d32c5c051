"""Where in the program calls of the driver come from."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ptxlab.cuda.sites import CodeNumbers, calling_place
from ptxlab.diagnostics import Place

WRAPPERS = """
import functools

def deprecated(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)
    return wrapper

def launch(function, *args, **kwargs):
    return function(*args, **kwargs)
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Any]:
    """Put a module into a folder of installed packages, and import it."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))

    def load(name: str, text: str) -> Any:
        file = folder / f"{name}.py"
        file.write_text(text)
        module = ModuleType(name)
        exec(compile(text, str(file), "exec"), module.__dict__)
        return module

    return load


def here() -> int:
    """The line of the caller."""
    return sys._getframe(1).f_lineno


def test_wrappers_of_decorators_are_no_call_sites(installed: Callable[[str, str], Any]) -> None:
    wrapped = installed("some_extensions", WRAPPERS).deprecated(calling_place)
    assert wrapped() == Place(__file__, here(), 0)
    assert installed("other_extensions", WRAPPERS).deprecated(wrapped)() == Place(__file__, here(), 0)


def test_functions_of_installed_packages_are_call_sites(installed: Callable[[str, str], Any]) -> None:
    library = installed("some_library", WRAPPERS)
    assert library.launch(calling_place) == Place(library.launch.__code__.co_filename, 11, 0)


def test_wrappers_of_the_program_are_call_sites() -> None:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    function = calling_place
    assert wrapper() == Place(__file__, wrapper.__code__.co_firstlineno + 1, 0)


def test_the_library_is_told_the_same(installed: Callable[[str, str], Any]) -> None:
    numbers, library = CodeNumbers(), installed("some_extensions", WRAPPERS)
    assert numbers.number(library.deprecated(here).__code__) == 0
    assert numbers.number(library.launch.__code__) == 1
    assert numbers.number(here.__code__) == 2


def test_equal_code_of_two_files_has_two_places(tmp_path: Path) -> None:
    """Python compares code objects without the names of their files."""
    numbers, text = CodeNumbers(), "def launch(function):\n    return function()\n"
    for name in ("first.py", "second.py"):
        module: dict[str, Any] = {}
        exec(compile(text, str(tmp_path / name), "exec"), module)
        assert numbers.place(module["launch"](lambda: numbers.noted(sys._getframe(1)))) == Place(str(tmp_path / name), 2, 0)
        assert module["launch"](calling_place) == Place(str(tmp_path / name), 2, 0)
