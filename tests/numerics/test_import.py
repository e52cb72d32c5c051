"""`import ptxlab` is quick, and brings no compiler; what is compiled is compiled once on a computer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.time_helpers import quickest

CODE = """
import sys, time
start = time.process_time()
import ptxlab
print(time.process_time() - start, sorted({"numba", "llvmlite", "ml_dtypes", "rich", "click"} & set(sys.modules)))
"""


def test_import() -> None:
    def seconds() -> float:
        shown = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True).stdout
        taken, loaded = shown.split(maxsplit=1)
        assert loaded.strip() == "[]"
        return float(taken)

    assert quickest(seconds, 0.2) < 0.2


PRODUCTS = """
import sys
import numpy as np
from llvmlite import binding
if "cached" in sys.argv:
    def refuse(*_):
        raise AssertionError("compiled again")
    binding.parse_assembly = binding.parse_bitcode = refuse
from ptxlab import numerics

ones, bytes_ = np.full((3, 16), 0x3C00, np.uint16), np.ones((3, 64), np.uint8)
scales = {"scale": "ue8m0", "block": 32, "scale_a": np.full((3, 2), 127, np.uint8), "scale_b": np.full((3, 2), 127, np.uint8)}
for D in (
    numerics.mma(arch="tcgen05", kind="f16", a="f16", b="f16", d="f32", A=ones, B=ones).view(np.float32),
    numerics.mma(arch="tcgen05", kind="i8", a="s8", b="s8", d="s32", A=bytes_[:, :32], B=bytes_[:, :32]),
    numerics.mma(arch="tcgen05", kind="mxf4", a="e2m1", b="e2m1", d="f32", A=bytes_, B=bytes_, **scales).view(np.float32),
):
    print(float(D[0, 0]))
"""


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    """It has no use for LLVM's parsers, which every compilation goes through, and adds nothing to the cache."""
    found = []
    for argument in ("first", "cached"):
        environment = {**os.environ, "PTXLAB_CACHE_DIR": str(tmp_path)}
        command = [sys.executable, "-c", PRODUCTS, argument]
        shown = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert (shown.stdout, shown.stderr) == ("16.0\n32.0\n16.0\n", "")
        found.append(sorted(tmp_path.rglob("*.o")))
    assert found[0]
    assert found[0] == found[1]


def test_a_compilation_would_show(tmp_path: Path) -> None:
    """With an empty cache the refusal above is met."""
    environment = {**os.environ, "PTXLAB_CACHE_DIR": str(tmp_path)}
    shown = subprocess.run([sys.executable, "-c", PRODUCTS, "cached"], capture_output=True, text=True, check=False, env=environment)
    assert shown.returncode == 1
    assert "compiled again" in shown.stderr
