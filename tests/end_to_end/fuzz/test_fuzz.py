"""Whatever text comes in, a diagnostic or a result comes out: soon, and in bounded memory.

100,000 inputs in all, of each kind the first batches in `make test`.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import ptxlab
from ptxlab.campaign.launch_file import read_launch_file
from tests.sweep_helpers import part

from . import batches_helpers
from .__main__ import main
from .batches_helpers import Batch, Failure, run_batch
from .corpus_helpers import LAUNCH_FILES, LAUNCHED, MODULES


def sound(batch: Batch) -> Batch:
    assert batch.failures == []
    return batch


@pytest.mark.parametrize("seed", part(range(7), lambda seed: seed < 1))
def test_ptx_is_loaded_or_refused(seed: int) -> None:
    assert 0 < sound(run_batch("modules", seed, 10_000)).accepted < 10_000


@pytest.mark.parametrize("module", MODULES)
def test_what_is_mutated_runs(module: str) -> None:
    arguments = [np.zeros(512, np.uint32), 3, ptxlab.TensorMap(np.zeros((16, 16), np.float32), box=(8, 4))]
    kernel = ptxlab.loads(module).kernel()
    block = None if ".reqntid" in module else 64
    grid = 2 if "cluster" in module else 1
    result = kernel.launch(grid=grid, block=block, shared_bytes=65536, args=arguments[: len(kernel.parameters)], check="none")
    assert result.diagnostics == ()


@pytest.mark.parametrize("text", LAUNCH_FILES)
def test_launch_file_that_is_mutated_runs(text: str, tmp_path: Path) -> None:
    (tmp_path / "launch.toml").write_text(text)
    (tmp_path / "k.ptx").write_text(LAUNCHED)
    np.save(tmp_path / "a.npy", np.arange(32, dtype=np.uint32))
    assert read_launch_file(tmp_path / "launch.toml").launch().completed


@pytest.mark.parametrize("seed", part(range(1, 4), lambda seed: seed == 1))
def test_launch_files_are_read_or_refused(seed: int) -> None:
    batch = sound(run_batch("launch_files", seed, 9000))
    assert 0 < batch.accepted < 9000
    assert batch.finished > 10


@pytest.mark.parametrize("seed", part(range(100, 103), lambda seed: seed == 100))
def test_kernels_run_or_are_refused(seed: int) -> None:
    assert sound(run_batch("kernels", seed, 1000)).finished > 0


# ------------------------------------------------------------------------------------------------------------ the command


def test_batches_run_on_an_executor(capsys: pytest.CaptureFixture[str]) -> None:
    """The same batches, whatever runs them: each seed once, with as many inputs as were asked for."""
    for executor in ([], ["--executor", "processes:2"]):
        assert main(["--kinds", "modules", "kernels", "--inputs", "70", "--batch", "30", "--first", "5", "--json", *executor]) == 0
        found = json.loads(capsys.readouterr().out)
        assert [(each["kind"], each["seed"], each["inputs"]) for each in found] == [
            (kind, seed, inputs) for kind in ("kernels", "modules") for seed, inputs in ((5, 30), (6, 30), (7, 10))
        ]
        for each in found:
            alone = run_batch(each["kind"], each["seed"], each["inputs"])
            assert (each["accepted"], each["finished"], each["failures"]) == (alone.accepted, alone.finished, [])


def test_threads_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--executor", "threads:2"])
    assert "name processes" in capsys.readouterr().err


def test_inputs_that_fail_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(text: str) -> None:
        raise IndexError("a fault of the parser")

    monkeypatch.setattr(batches_helpers.ptxlab, "loads", broken)
    assert main(["--kinds", "modules", "--inputs", "3", "--keep", str(tmp_path / "kept")]) == 1
    assert "IndexError: a fault of the parser" in capsys.readouterr().out
    assert len(list((tmp_path / "kept").iterdir())) == 3


def test_what_takes_too_long_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches_helpers, "SECONDS", 0.0)
    (failure,) = run_batch("modules", 1, 1).failures
    assert isinstance(failure, Failure)
    assert "of the processor" in failure.problem
