"""Mutants that lint finds: the shares by operator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.mutations import by_text
from benchmarks.mutations.kernels import Kernel
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


class Launch:
    def __init__(self, kernel: ptxlab.Kernel) -> None:
        self.kernel = kernel

    def launch(self, **options: Any) -> tuple[ptxlab.Result, dict[str, Any]]:
        result = np.zeros(128, np.uint32)
        return self.kernel.launch(args=[result], **options), {"result": result}


def product(text: str = base_text("tcgen05_product")) -> ptxlab.Kernel:
    return ptxlab.loads(text, file="product.ptx").kernel()


def with_launch(kernel: ptxlab.Kernel) -> Kernel:
    return Kernel("product", kernel, {"": Launch(kernel)})


def test_shares() -> None:
    kernel = product()
    found = by_text.shares(verdicts(kernel, {"fence.proxy.async", "mbarrier.wait"}), {"product": with_launch(kernel)})
    assert (found["fence.proxy.async"].reported, found["fence.proxy.async"].found) == (1, 1)
    assert found["mbarrier.wait"].reported == 2
    assert found["tcgen05.commit"].reported == 0
    assert found["tcgen05.wait::ld"].errors == []  # a note
    assert {error.split(": ")[1] for error in found["tcgen05.commit"].errors} == {"X105", "H601"}


def test_errors_are_listed_though_no_launch_executes_them() -> None:
    """The product without a proxy fence is wrong, whether or not the launch comes to it: a launch that does must be added."""
    text = base_text("tcgen05_product")
    never = "    mov.u32 %r20, %nctaid.x;\n    setp.eq.u32 %p7, %r20, 1;\n    @%p7 bra DONE;\n"
    skipped = text.replace("    @!%p1 bra WAIT;\n", never + "    @!%p1 bra WAIT;\n").replace(
        "    ld.param.u64 %rd10", "DONE:\n    ld.param.u64 %rd10"
    )
    for each in (text, skipped):
        kernel = product(each)
        found = by_text.shares(verdicts(kernel, set()), {"product": with_launch(kernel)})["fence.proxy.async"]
        assert {error.split(": ")[1] for error in found.errors} == {"X102"}


def test_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = product()
    path = tmp_path / "verdicts.json"
    path.write_text(json.dumps({"verdicts": verdicts(kernel, {"fence.proxy.async"})}))
    monkeypatch.setattr(by_text, "kernels", lambda folder: ({"product": lambda: with_launch(kernel)}, {}))
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr("sys.argv", ["by_text", str(path)])
    by_text.main()
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "fence.proxy.async" in line and "100 %" in line]
    assert line.split("│")[2].strip() == "1"
