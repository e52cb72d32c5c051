"""Operators of torch's own test database, on the device cuda and on the CPU: equal results, gradients, types and strides.

``pytest tests/interop/torch_device/test_operators.py -m slow`` runs all that CPUs have; the other test takes those that networks use.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from ptxlab.interop.torch._build import CannotBuild, installed_torch, library_file

torch = installed_torch()
if torch is None or torch.cuda is not None or importlib.util.find_spec("expecttest") is None:
    pytest.skip("needs a CPU build of torch, and the package expecttest for torch's test database", allow_module_level=True)

pytestmark = [pytest.mark.compiler, pytest.mark.oracle]
ROOT = Path(__file__).parents[3]
USED_BY_NETWORKS = (
    "add", "sub", "mul", "div", "addmm", "bmm", "matmul", "cat", "chunk", "clamp", "cumsum", "exp", "gather", "index_add", "index_put",
    "index_select", "masked_fill", "max", "mean", "nn.functional.batch_norm", "nn.functional.conv2d", "nn.functional.cross_entropy",
    "nn.functional.dropout", "nn.functional.embedding", "nn.functional.gelu", "nn.functional.layer_norm", "nn.functional.linear",
    "nn.functional.scaled_dot_product_attention", "normal", "randint_like", "scatter_add", "softmax", "sort", "split", "sum", "to", "topk",
    "tril", "var", "view", "where",
)  # fmt: skip


def compared(*names: str) -> list[dict[str, object]]:
    """One entry for each operator: how many samples are equal, and what is wrong with the first that is not."""
    assert torch is not None
    try:
        library_file(torch)
    except CannotBuild as error:
        pytest.skip(str(error))
    command = [sys.executable, "-m", "tests.interop.torch_device.opinfo_cases", *names]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=3000, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_operators_that_networks_use() -> None:
    found = compared(*USED_BY_NETWORKS)
    assert [entry for entry in found if entry["wrong"] or not entry["equal"]] == []
    assert len(found) >= len(USED_BY_NETWORKS)


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_all_operators() -> None:
    found = compared()
    assert [entry for entry in found if entry["wrong"]] == []
    assert sum(bool(entry["equal"]) for entry in found) >= 650
