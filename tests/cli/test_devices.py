"""``ptxlab devices``."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from ptxlab.cli import main as cli


def test_devices_of_the_environment() -> None:
    variables = {"PTXLAB_DEVICES": "2x h200, b200", "CUDA_VISIBLE_DEVICES": "2,0"}
    done = CliRunner().invoke(cli, ["devices", "--json"], env=variables)
    listed = json.loads(done.stdout)["devices"]
    assert [(d["device"], d["name"], d["sms"]) for d in listed] == [(0, "NVIDIA B200", 148), (1, "NVIDIA H200", 132)]


@pytest.mark.parametrize("visible", ["", "-1", "7"])
def test_no_device_is_visible(visible: str) -> None:
    done = CliRunner().invoke(cli, ["devices", "--json"], env={"CUDA_VISIBLE_DEVICES": visible})
    assert json.loads(done.stdout)["devices"] == []


def test_the_table_of_the_default_device() -> None:
    done = CliRunner().invoke(cli, ["devices"], env={"COLUMNS": "160"})
    assert done.exit_code == 0
    assert all(part in done.stdout for part in ("NVIDIA B200", "sm_100a", "148", "227 KiB", "1965 MHz"))


def test_an_unknown_device() -> None:
    done = CliRunner().invoke(cli, ["devices"], env={"PTXLAB_DEVICES": "v100"})
    assert done.exit_code == 2
    assert "I506" in done.stderr
