"""Mutants that lint finds: the shares by operator."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from benchmarks.mutations import by_text
from benchmarks.mutations.mutants import mutants

import ptxlab
from tests.check.static.dataflow_kernels.launches import base_text


def verdicts(kernel: ptxlab.Kernel, reported: set[str]) -> list[dict[str, object]]:
    return [
        {
            "kernel": "product",
            "model": "practice",
            "line": mutant.line,
            "family": mutant.family,
            "how": mutant.how,
            "state": "reported" if mutant.family in reported else "redundant",
        }
        for mutant in mutants(kernel.program, "practice")
    ]


def product() -> ptxlab.Kernel:
    return ptxlab.loads(base_text("tcgen05_product"), file="product.ptx").kernel()


def test_shares() -> None:
    kernel = product()
    found = by_text.shares(verdicts(kernel, {"fence.proxy.async", "mbarrier.wait"}), {"product": kernel})
    assert (found["fence.proxy.async"].reported, found["fence.proxy.async"].found) == (1, 1)
    assert found["mbarrier.wait"].reported == 2
    assert found["tcgen05.commit"].reported == 0
    assert found["tcgen05.wait::ld"].errors == []  # a note
    assert {error.split(": ")[1] for error in found["tcgen05.commit"].errors} == {"X105", "H601"}


def test_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = product()
    path = tmp_path / "verdicts.json"
    path.write_text(json.dumps({"verdicts": verdicts(kernel, {"fence.proxy.async"})}))
    monkeypatch.setattr(by_text, "kernels", lambda: ({"product": lambda: SimpleNamespace(kernel=kernel)}, {}))
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr("sys.argv", ["by_text", str(path)])
    by_text.main()
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "fence.proxy.async" in line and "100 %" in line]
    assert line.split("│")[2].strip() == "1"
