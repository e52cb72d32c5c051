"""Results of record kits: every kernel that a GPU has run gives the same bits in ptxlab."""

from __future__ import annotations

import hashlib
import json
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from ptxlab import silicon
from ptxlab.isa import CATALOGUE, load_all

KITS = sorted(Path(__file__).with_name("kits").glob("*.json"))


@pytest.mark.parametrize("path", KITS, ids=lambda path: path.stem)
def test_replay(path: Path) -> None:
    """What differs is known to differ."""
    known = json.loads(path.read_text())
    file = path.with_name(known["results"])
    assert hashlib.sha256(file.read_bytes()).hexdigest() == known["sha256"]
    results = silicon.read_results(file)
    assert (results.target, results.gpu) == (known["target"], f"NVIDIA {known['gpu']}")
    report = silicon.compare(results)
    assert [(c.name, c.difference) for c in report.differences if c.name not in known["differences"]] == []
    assert len(report.comparisons) > len(known["differences"])


@pytest.mark.parametrize("path", KITS, ids=lambda path: path.stem)
def test_evidence_names_forms(path: Path) -> None:
    load_all()
    patterns = {row.pattern for rows in CATALOGUE.values() for row in rows}
    globs = {glob: extent for shown in json.loads(path.read_text())["evidence"].values() for glob, extent in shown.items()}
    assert [glob for glob in globs if not any(fnmatchcase(pattern, glob) for pattern in patterns)] == []
    assert set(globs.values()) <= {"all", "some"}


def test_the_recording_of_an_h200() -> None:
    """Two files: tensor copies and whole kernels came later. Every part of the kit is in one of them."""
    files = [path for path in KITS if path.stem.startswith("sm-90a-h200")]
    known = [json.loads(path.read_text()) for path in files]
    assert [file["differences"] for file in known] == [[], []]
    assert {"mma", "wgmma", "wgmma-layouts", "tma", "cuda"} <= {part for file in known for part in file["evidence"]}
    outcomes = [silicon.read_results(path.with_suffix(".zip")).outcomes for path in files]
    recorded = {name for found in outcomes for name in found}
    assert {name for name, _, _ in silicon.cases_of("sm_90a", silicon.parts_of("sm_90a"))} == recorded
