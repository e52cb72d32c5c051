"""The results of one kit, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptxlab import silicon
from tests.silicon.kit_helpers import PART, TARGET, run_script

collect_ignore = ["fake_driver.py"]  # it runs inside record.py


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that ``record.py`` writes when ptxlab is the GPU."""
    folder = tmp_path_factory.mktemp("kit") / "kit"
    silicon.write_kit(TARGET, folder, [PART])
    done = run_script(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / f"results-{TARGET}.zip"
