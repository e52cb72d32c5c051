"""Campaigns: their cells, executors, ends of workers, interruption, and what is reported."""

from __future__ import annotations

import json
import multiprocessing
import os
import threading
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from ptxlab.campaign import (
    CampaignError,
    CellResult,
    Executors,
    ResultFile,
    Source,
    cases,
    cells_of,
    executors,
    read_campaign,
    run_cells,
)
from ptxlab.campaign.executors import ExecutorError
from ptxlab.cli import main
from ptxlab.diagnostics import PtxlabError
from tests.campaign.campaign_helpers import ENDS, end_after, write
from tests.sweep_helpers import one_in

CAMPAIGN = """
schedules = 4
seeds = [0, 3]
[[launches]]
file = "double.toml"
sizes = [{N = 100}, {N = 1000}]
[[launches]]
file = "race.toml"
schedules = 3
seeds = [0]
"""


def campaign(folder: Path, text: str = CAMPAIGN) -> Path:
    path = write(folder) / "nightly.toml"
    path.write_text(text)
    return path


def test_cells_are_the_product(tmp_path: Path) -> None:
    cells = read_campaign(campaign(tmp_path)).cells
    doubles = [cell for cell in cells if cell.launch == "double.toml"]
    assert len(cells) == len({cell.key for cell in cells}) == 2 * 2 * 4 + 3
    assert {(cell.sizes, cell.data_seed) for cell in doubles} == {((("N", n),), seed) for n in (100, 1000) for seed in (0, 3)}
    assert [cell.schedule for cell in cells[-3:]] == ["eager", "lazy", "random 1"]


def test_a_changed_kernel_has_other_cells(tmp_path: Path) -> None:
    path = campaign(tmp_path)
    before = {cell.key for cell in read_campaign(path).cells}
    assert {cell.key for cell in read_campaign(path).cells} == before
    kernel = tmp_path / "double.ptx"
    kernel.write_text(kernel.read_text().replace("add.f32", "mul.f32"))
    after = {cell.key for cell in read_campaign(path).cells}
    assert len(before & after) == 3


@pytest.mark.parametrize("name", one_in(5, ["processes:2", None, "threads:2", "tests.campaign.campaign_helpers:two_processes", "dask"]))
def test_every_executor_gives_the_same(name: str | None, tmp_path: Path) -> None:
    plan = read_campaign(campaign(tmp_path))
    results = {result.cell.key: result for result in run_cells(plan.cells, executors(name))}
    assert results.keys() == {cell.key for cell in plan.cells}
    for cell in plan.cells:
        result = results[cell.key]
        assert result.completed
        assert [d.code for d in result.diagnostics] == (["X114"] if cell.launch == "race.toml" else [])
    first, *others = [results[cell.key].digests for cell in plan.cells[:4]]
    assert all(other == first for other in others)


@pytest.mark.parametrize("wait", [True, False])
def test_a_cluster_of_dask_ends_with_its_executor(wait: bool) -> None:
    """Neither the processes of its workers nor the thread of the client are left."""
    processes, threads = set(multiprocessing.active_children()), set(threading.enumerate())
    executor = executors("dask").make()
    assert executor.submit(max, 1, 2).result() == 2
    assert set(multiprocessing.active_children()) - processes
    executor.shutdown(wait=wait)
    for process in set(multiprocessing.active_children()) - processes:
        process.join(30)
    assert set(multiprocessing.active_children()) <= processes
    left = {thread for thread in set(threading.enumerate()) - threads if thread.name != "Dask-Offload_0"}  # a pool of Dask's module
    for thread in left:
        thread.join(30)
    assert not {thread.name for thread in left if thread.is_alive()}


def test_digests_are_those_of_the_arrays(tmp_path: Path) -> None:
    (cell,) = cells_of(Source(write(tmp_path) / "double.toml"), count=1)
    (result,) = run_cells([cell], executors(None))
    (other,) = run_cells(cells_of(Source(tmp_path / "double.toml"), data_seed=1, count=1), executors(None))
    assert result.digests["x"] != result.digests["y"]
    assert result.digests["x"] != other.digests["x"]


def test_results_pass_through_json(tmp_path: Path) -> None:
    (cell,) = cells_of(Source(write(tmp_path) / "race.toml"), count=1, options={"check": ["race", "memory"], "max_instructions": 1000})
    (result,) = run_cells([cell], executors(None))
    again = CellResult.from_dict(json.loads(json.dumps(result.as_dict())))
    assert again.cell == cell
    assert again.cell.key == cell.key
    assert again.as_dict() == result.as_dict()
    assert not again.ok


@pytest.mark.sweep
def test_a_worker_that_is_killed_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = tmp_path / "ended"
    ended.mkdir()
    monkeypatch.setenv(ENDS, str(ended))
    plan = read_campaign(campaign(tmp_path))
    results = list(run_cells(plan.cells, _ending(3, 2)))
    assert len(list(ended.iterdir())) == 2
    assert sorted(result.cell.key for result in results) == sorted(cell.key for cell in plan.cells)
    assert all(result.completed for result in results)


def test_a_cell_that_always_ends_its_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = tmp_path / "ended"
    ended.mkdir()
    monkeypatch.setenv(ENDS, str(ended))
    cells = list(cells_of(Source(write(tmp_path) / "double.toml"), count=2))
    results = list(run_cells(cells[:1], _ending(1, 100)))
    (finding,) = results[0].diagnostics
    assert finding.code == "F109"
    assert finding.message.startswith("double.toml, data 0, eager: the worker that ran it ended 3 times: ")


def _ending(calls: int, times: int) -> Executors:
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    make = partial(ProcessPoolExecutor, 2, mp_context=get_context("spawn"), initializer=end_after, initargs=(calls, times))
    return Executors(make, 4)


def test_an_interrupted_campaign_goes_on(tmp_path: Path) -> None:
    path = campaign(tmp_path)
    cells = read_campaign(path).cells
    folder = tmp_path / "nightly.results"
    folder.mkdir()
    with ResultFile(folder / "results.jsonl") as kept:
        for result in run_cells(cells[:7], executors(None)):
            kept.add(result)
    with (folder / "results.jsonl").open("ab") as file:
        file.write(b'{"cell": {"source": "an incomplete li')
    output = json.loads(CliRunner().invoke(main, ["campaign", str(path), "--json"]).output)
    assert (output["cells"], output["ran"]) == (19, 12)
    again = json.loads(CliRunner().invoke(main, ["campaign", str(path), "--json"]).output)
    assert (again["cells"], again["ran"]) == (19, 0)
    assert again["cases"] == output["cases"]
    lines = (folder / "results.jsonl").read_text().splitlines()
    assert len(lines) == 1 + 19
    fresh = json.loads(CliRunner().invoke(main, ["campaign", str(path), "--json", "--fresh"]).output)
    assert fresh["ran"] == 19


def test_reports(tmp_path: Path) -> None:
    path = campaign(tmp_path)
    run = CliRunner().invoke(main, ["campaign", str(path), "-o", str(tmp_path / "out")])
    assert run.exit_code == 1
    lines = [line.split() for line in run.output.splitlines() if line.startswith(("double", "race"))]
    assert [line[-2] for line in lines if line[0] == "double.toml,"] == ["none"] * 4
    assert [line[-3:-1] for line in lines if line[0] == "race.toml,"] == [["3", "X114"]]
    suites = list(ElementTree.parse(tmp_path / "out" / "junit.xml").getroot())
    assert [suite.get("failures") for suite in suites] == ["0", "0", "0", "0", "3"]
    assert [suite.get("tests") for suite in suites] == ["4", "4", "4", "4", "3"]
    sarif = json.loads((tmp_path / "out" / "findings.sarif").read_text())
    assert [each["ruleId"] for each in sarif["runs"][0]["results"]] == ["X114"]
    listed = json.loads((tmp_path / "out" / "results.json").read_text())
    assert [case["codes"] for case in listed] == [{}, {}, {}, {}, {"X114": 1}]


def test_different_bits_are_named(tmp_path: Path) -> None:
    """The order of the two CTAs decides what stays; without the race check only the bits show it."""
    cells = list(cells_of(Source(write(tmp_path) / "race.toml"), count=12, options={"check": "none"}))
    results = list(run_cells(cells, executors(None)))
    values = {result.digests["y"] for result in results}
    (case,) = cases(results)
    codes = [d.code for d in case.diagnostics]
    assert codes == (["F106"] if len(values) > 1 else [])


def test_two_campaigns_do_not_write_to_one_file(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    with ResultFile(path), pytest.raises(PtxlabError) as caught:
        ResultFile(path)
    assert (caught.value.diagnostic.code, caught.value.diagnostic.message) == ("F111", f"another campaign writes to {path}")


@pytest.mark.parametrize("text", ["[]\n", "no json\n", '{"format": "ptxlab-campaign-1"}\n{"cell": 1}\n', "\0\n"])
def test_files_with_something_else_stay_as_they_are(text: str, tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text(text)
    with pytest.raises(PtxlabError) as caught:
        ResultFile(path)
    assert caught.value.diagnostic.code == "F111"
    assert path.read_text() == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "campaign file: it names no launch"),
        ("launches = 3", "campaign file: launches must be a list, not 3"),
        ("[[launches]]\nschedules = 3", "launches[0]: file must be a text, not nothing"),
        ('[[launches]]\nfile = "double.toml"\nschedules = 0', "launches[0]: schedules is 1 to 100,000, not 0"),
        ('[[launches]]\nfile = "double.toml"\nseeds = [-1]', "launches[0]: seeds are whole numbers from 0 to 2^32 - 1, not -1"),
        ('[[launches]]\nfile = "double.toml"\nsizes = [{M = 1}]', "launches[0]: sizes: unknown key 'M'"),
        ('[[launches]]\nfile = "double.toml"\nsizes = [{N = 1.5}]', "launches[0]: sizes: N must be a whole number, not 1.5"),
        ('[[launches]]\nfile = "double.toml"\nsizes = [3]', "launches[0]: sizes are tables such as {M = 256}, not 3"),
        ('[[launches]]\nfile = "double.toml"\ntargets = [100]', "launches[0]: targets must be texts, not 100"),
        ('[[launches]]\nfile = "double.toml"\nmodel = "strict"', "launches[0]: model must be one of 'practice', 'spec', not 'strict'"),
        ('[[launches]]\nfile = "double.toml"\npolicy = "lazy"', "launches[0]: unknown key 'policy'"),
    ],
)
def test_refused_campaign_files(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(CampaignError) as caught:
        read_campaign(campaign(tmp_path, text))
    assert (caught.value.diagnostic.code, caught.value.diagnostic.message) == ("F103", message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fork", "there is no executor named 'fork'"),
        ("processes:none", "'processes:none': the number of workers is 1 to 1024, not 'none'"),
        ("threads:0", "'threads:0': the number of workers is 1 to 1024, not '0'"),
        ("os:nothing", "'os:nothing' names no function: module 'os' has no attribute 'nothing'"),
        ("os:getpid", "'os:getpid' returned int, no concurrent.futures.Executor"),
    ],
)
def test_refused_executors(text: str, message: str) -> None:
    with pytest.raises(ExecutorError) as caught:
        executors(text).make()
    assert (caught.value.diagnostic.code, caught.value.diagnostic.message) == ("F110", message)


def test_processes_have_one_thread_for_products_unless_the_environment_says_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    assert list(executors("processes:1").results(os.getenv, [(name,) for name in names])) == ["3", "1"]
    assert [os.getenv(name) for name in names] == ["3", None]


def test_check_on_an_executor_finds_the_same(tmp_path: Path) -> None:
    path = write(tmp_path) / "race.toml"
    command = ["check", str(path), "--schedules", "6", "--json"]
    runs = [CliRunner().invoke(main, [*command, *more]) for more in ([], ["--executor", "processes:2"])]
    assert runs[0].exit_code == runs[1].exit_code == 1
    assert json.loads(runs[0].output) == json.loads(runs[1].output)
    assert json.loads(runs[0].output)["schedules"] == 6


def test_check_does_not_trace_in_other_processes(tmp_path: Path) -> None:
    path = write(tmp_path) / "double.toml"
    run = CliRunner().invoke(main, ["check", str(path), "--trace", str(tmp_path / "t.json"), "--executor", "threads:2"])
    assert run.exit_code == 2
    assert "--trace writes a timeline of launches in this process: leave --executor out" in run.output


@pytest.mark.slow
def test_2000_cells_on_dask_with_a_worker_killed_twice(tmp_path: Path) -> None:
    """Three worker processes, one of them killed twice; each cell appears once, in at most 1.3 times the ideal time."""
    import time

    from distributed import Client, LocalCluster

    text = CAMPAIGN.replace("schedules = 4", "schedules = 500").replace("[0, 3]", "[0]").replace("schedules = 3", "schedules = 1000")
    text = text.replace("N = 1000", "N = 16000")  # else the starts of three processes, and of two more, take a quarter of the time
    plan = read_campaign(campaign(tmp_path, text))
    assert len(plan.cells) == 2000
    with LocalCluster(n_workers=3, threads_per_worker=1, processes=True, dashboard_address=None) as cluster, Client(cluster) as client:
        results, kills, killed = [], [400, 1000], set[int]()
        victim = next(iter(cluster.workers.values()))
        started = time.monotonic()
        for result in run_cells(plan.cells, Executors(lambda: client.get_executor(pure=False))):
            results.append(result)
            if kills and len(results) >= kills[0] and victim.pid not in (None, *killed):
                kills.pop(0)
                killed.add(victim.pid)
                os.kill(victim.pid, 9)
        wall = time.monotonic() - started
    assert len(killed) == 2
    assert sorted(result.cell.key for result in results) == sorted(cell.key for cell in plan.cells)
    assert all(result.completed for result in results)
    ideal = sum(result.seconds for result in results) / 3  # on fewer cores a cell takes longer, for it waits for one
    assert wall <= 1.3 * ideal
