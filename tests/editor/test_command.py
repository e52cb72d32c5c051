"""``ptxlab lsp`` where pygls is not installed."""

from __future__ import annotations

import sys

import pytest
from click.testing import CliRunner

from ptxlab.cli import main


@pytest.mark.parametrize("package", ["pygls.lsp.server", "lsprotocol"])
def test_the_extra_is_named(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("ptxlab.editor.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    result = CliRunner().invoke(main, ["lsp"])
    assert result.exit_code == 2
    assert "pip install 'ptxlab[lsp]'" in result.output
