"""The program of docs/torch.md runs, in a process that has not imported torch."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ptxlab.interop.torch._build import CannotBuild, installed_torch, library_file

torch = installed_torch()
if torch is None or torch.cuda is not None:
    pytest.skip("needs a CPU build of torch", allow_module_level=True)

pytestmark = pytest.mark.compiler
PAGE = Path(__file__).parents[3] / "docs" / "torch.md"


def test_the_program() -> None:
    assert torch is not None
    try:
        library_file(torch)
    except CannotBuild as error:
        pytest.skip(str(error))
    (program,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
