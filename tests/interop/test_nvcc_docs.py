"""The guide's examples run."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from ptxlab.interop import nvcc

pytestmark = pytest.mark.compiler

PAGE = Path(__file__).parents[2] / "docs" / "cuda.md"


def test_the_examples_of_the_page() -> None:
    try:
        nvcc.find_nvcc()
    except nvcc.NvccError:
        pytest.skip("needs nvcc")
    if shutil.which("g++") is None:
        pytest.skip("needs a host compiler")
    names: dict[str, Any] = {}
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 2
    for block in blocks:
        exec(block, names)
    assert names["host"].launches
