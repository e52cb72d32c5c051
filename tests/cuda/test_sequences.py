"""The virtual driver answers as an H200 with NVIDIA's driver did, in over a thousand sequences of calls."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cuda.driver_helpers import needs_compiler
from tests.cuda.sequence_differences import DIFFERENCES, reason_for
from tests.cuda.sequence_helpers import compile_program, crashes, recorded

pytestmark = [needs_compiler, pytest.mark.recording]
RECORDED = recorded()
COMPARED = {name: steps for name, steps in RECORDED.items() if not crashes(steps)}
AREAS = sorted({name.split("/")[0].split(".")[0] for name in COMPARED})
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_program(tmp_path_factory.mktemp("sequences"))


def replay(program: Path, names: list[str]) -> dict[str, list[str]]:
    """The steps of each sequence with the virtual driver."""
    command = [sys.executable, "-m", "tests.cuda.replay_sequences", str(program), *names]
    environment = os.environ | {"PTXLAB_DEVICES": "h200"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True, timeout=580)
    return {row["name"]: row["steps"] for row in map(json.loads, done.stdout.splitlines())}


def names_of(area: str) -> list[str]:
    return [name for name in COMPARED if name.split("/")[0].split(".")[0] == area]


@pytest.fixture(scope="module")
def replayed(program: Path, request: pytest.FixtureRequest) -> dict[str, list[str]]:
    """The steps of the sequences of all areas that are tested, by one process: it takes a second to import everything."""
    tests = [item for item in request.session.items if isinstance(item, pytest.Function) and item.path == request.path]
    areas = {item.callspec.params["area"] for item in tests if "replayed" in item.fixturenames}
    return replay(program, [name for area in AREAS if area in areas for name in names_of(area)])


@pytest.mark.parametrize("area", AREAS)
def test_sequences_give_the_recorded_steps(replayed: dict[str, list[str]], area: str) -> None:
    names = names_of(area)
    assert [name for name in replayed if name in names] == names
    different = {name: replayed[name] for name in names if replayed[name] != COMPARED[name] and reason_for(name) is None}
    assert different == {}


def test_most_sequences_are_compared() -> None:
    """Sequences in which NVIDIA's driver ends the process are not compared; the others are, but for those listed."""
    assert len(RECORDED) == 1108
    assert len(RECORDED) - len(COMPARED) == 19
    assert sum(reason_for(name) is None for name in COMPARED) == 969


def test_every_listed_difference_is_of_some_sequence() -> None:
    for pattern, reason in DIFFERENCES:
        assert reason
        assert any(reason_for(name) == reason for name in COMPARED), pattern
