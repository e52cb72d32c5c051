"""What the tests of CuTe DSL kernels share: the examples as modules, and runs under several policies against exact results."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ptxlab

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "cute"


@cache
def example(name: str) -> ModuleType:
    """An example, imported from where it stands."""
    spec = importlib.util.spec_from_file_location(f"examples_cute_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def integers(seed: int, shape: tuple[int, ...], dtype: Any, low: int = -3, high: int = 4) -> NDArray[Any]:
    """Small integers: every product and sum of them is exact in all types used here."""
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


def exact(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
    """A B^T in float64."""
    return a.astype(np.float64) @ b.astype(np.float64).T


def run(
    compiled: Any,
    inputs: list[Any],
    output: NDArray[Any],
    expected: NDArray[np.float64],
    policies: Sequence[dict[str, Any]],
    **options: Any,
) -> list[Any]:
    """Launch under these policies with all checks; the result is exact and nothing is found. Lint finds no error in the PTX."""
    assert [str(found) for found in ptxlab.lint(compiled.ptx) if found.severity == "error"] == []
    results = []
    for policy in policies:
        output.reshape(-1).view(np.uint8)[:] = 0xFF
        result = compiled.launch(*inputs, output, check="all", **policy, **options)
        assert result.ok, "\n".join(map(str, result.diagnostics))
        findings = [str(d) for d in result.diagnostics if d.code != "X123"]
        assert not findings, "\n".join(findings)
        np.testing.assert_array_equal(output.astype(np.float64), expected, err_msg=str(policy))
        results.append(result)
    return results
