"""Functions that are called around the import of a module."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from ptxlab.interop.optional_packages import after_import, before_import

NAME = "a_module_of_this_test"
HOOKS = 200  # if each were a finder that asks the others, the search of a missing module would take 200! steps
CALLS: list[str] = []


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of a module that is not there yet."""
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path / f"{NAME}.py"
    sys.modules.pop(NAME, None)


def test_many_hooks_of_a_missing_module(module: Path) -> None:
    called: list[int] = []
    cancels = [after_import(NAME, lambda: called.append(1)) for _ in range(HOOKS)]
    assert find_spec(NAME) is None
    with pytest.raises(ModuleNotFoundError):
        import_module(NAME)
    for cancel in cancels:
        cancel()
    assert not called


def test_hooks_are_called_once_in_the_order_in_which_they_were_entered(module: Path) -> None:
    module.write_text("calls.append('module')\n".replace("calls", f"__import__({__name__!r}, fromlist=['CALLS']).CALLS"))
    CALLS.clear()
    after_import(NAME, lambda: CALLS.append("after 1"))
    before_import(NAME, lambda: CALLS.append("before 1"))
    before_import(NAME, lambda: CALLS.append("before 2"))
    cancels = [hook(NAME, lambda: CALLS.append("cancelled")) for hook in (before_import, after_import)]
    after_import(NAME, lambda: CALLS.append("after 2"))
    for cancel in cancels:
        cancel()
    import_module(NAME)
    assert CALLS == ["before 1", "before 2", "module", "after 1", "after 2"]
    after_import(NAME, lambda: CALLS.append("imported already"))
    assert CALLS.pop() == "imported already"
    del sys.modules[NAME]
    import_module(NAME)
    assert CALLS[5:] == ["module"]


def test_asking_for_the_spec_keeps_the_hooks(module: Path) -> None:
    module.touch()
    called: list[int] = []
    before_import(NAME, lambda: called.append(0))
    after_import(NAME, lambda: called.append(1))
    assert find_spec(NAME) is not None
    assert not called
    import_module(NAME)
    assert called == [0, 1]


def test_a_module_that_fails_keeps_the_hooks(module: Path) -> None:
    module.write_text("raise ValueError('not today')\n")
    called: list[int] = []
    after_import(NAME, lambda: called.append(1))
    with pytest.raises(ValueError, match="not today"):
        import_module(NAME)
    assert not called
    module.write_text("longer = 1\n")
    import_module(NAME)
    assert called == [1]
