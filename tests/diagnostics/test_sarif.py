"""Diagnostics as SARIF 2.1.0."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ptxlab.cli._main import cli
from ptxlab.diagnostics import CODES, Diagnostic, Place, render_sarif

FULL = Diagnostic(
    "M402",
    "error",
    "read of 4 bytes runs past the end",
    reason="Global State Space",
    fix="grow the array",
    place=Place("kernels/k 1.ptx", 12, 2, 13),
    source=Place("/src/kernel.py", 2, 5),
    excerpt="\tld.global.b32 %r1, [%rd2];",
    details=(("CTA", "(0, 0, 0)"),),
)


def check_log(log: Any) -> None:
    """What section 3 of the SARIF 2.1.0 specification requires of the properties that are used."""
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-2.1.0.json")
    for run in log["runs"]:
        driver = run["tool"]["driver"]
        assert driver["name"] == "ptxlab"
        assert re.match(r"\d+\.\d+", driver["version"])
        assert run["columnKind"] in ("utf16CodeUnits", "unicodeCodePoints")
        ids = [rule["id"] for rule in driver["rules"]]
        assert len(ids) == len(set(ids))
        for rule in driver["rules"]:
            assert rule["shortDescription"]["text"]
            assert rule["defaultConfiguration"]["level"] in ("none", "note", "warning", "error")
        for result in run["results"]:
            assert ids[result["ruleIndex"]] == result["ruleId"]
            assert result["level"] in ("none", "note", "warning", "error")
            assert result["message"]["text"]
            for location in (*result.get("locations", ()), *result.get("relatedLocations", ())):
                physical = location["physicalLocation"]
                assert re.fullmatch(r"[A-Za-z0-9._~:/%-]+", physical["artifactLocation"]["uri"])
                region = physical["region"]
                assert region["startLine"] >= 1
                assert region.get("startColumn", 1) >= 1
                assert region.get("endColumn", 1 << 20) > region.get("startColumn", 1)


def test_every_part() -> None:
    log = json.loads(render_sarif([FULL, FULL]))
    check_log(log)
    (run,) = log["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["M402"]
    first, second = run["results"]
    assert (
        first
        == second
        == {
            "ruleId": "M402",
            "ruleIndex": 0,
            "level": "error",
            "message": {"text": "read of 4 bytes runs past the end\nCTA: (0, 0, 0)\nwhy: Global State Space\nfix: grow the array"},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": "file:///src/kernel.py"},
                        "region": {"startLine": 2, "startColumn": 5},
                    }
                }
            ],
            "relatedLocations": [
                {
                    "id": 0,
                    "message": {"text": "the PTX that was compiled from it"},
                    "physicalLocation": {
                        "artifactLocation": {"uri": "kernels/k%201.ptx"},
                        "region": {
                            "startLine": 12,
                            "startColumn": 2,
                            "endColumn": 15,
                            "snippet": {"text": "\tld.global.b32 %r1, [%rd2];"},
                        },
                    },
                }
            ],
        }
    )


@pytest.mark.parametrize("place", [None, Place("<ptx>", 0, 0), Place("k.ptx", 3, 0), Place("k.ptx", 3, 4, 0)])
def test_incomplete_places(place: Place | None) -> None:
    check_log(json.loads(render_sarif([Diagnostic("M402", "error", "m").at(place)])))


def test_every_code_makes_a_rule() -> None:
    check_log(json.loads(render_sarif(Diagnostic(code, info.severity, info.title) for code, info in CODES.items())))


def test_nothing_found() -> None:
    log = json.loads(render_sarif([]))
    check_log(log)
    assert log["runs"][0]["results"] == []


def test_run_command(tmp_path: Path) -> None:
    (tmp_path / "launch.toml").write_text('ptx = "nothing.ptx"\ngrid = 1\nblock = 1\n')
    run = CliRunner().invoke(cli, ["run", str(tmp_path / "launch.toml"), "--sarif"])
    assert run.exit_code == 2
    log = json.loads(run.output)
    check_log(log)
    assert [result["ruleId"] for result in log["runs"][0]["results"]] == ["A313"]


def test_without_a_source_the_place_in_the_ptx_is_the_location() -> None:
    (run,) = json.loads(render_sarif([Diagnostic("M402", "error", "m").at(Place("k.ptx", 3, 4))]))["runs"]
    (result,) = run["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": "k.ptx"}
    assert "relatedLocations" not in result
