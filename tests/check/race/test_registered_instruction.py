"""An asynchronous instruction registered from one module: race check, report of a hang, and trace handle it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ptxlab.check import race
from ptxlab.check.race._sanitizer import _FENCES, Sanitizer
from ptxlab.isa import CATALOGUE, load_all
from ptxlab.isa.catalogue import service
from ptxlab.isa.effects import Effect
from ptxlab.machine.launch.launch import Launch

from .invented_instruction import registered
from .small_kernels import SCHEDULES, launch

FILL = """
@%p1 mbarrier.init.shared::cta.b64 [%r7], 1;
bar.sync 0;
@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r7], {bytes};
@%p1 ripple.async.shared::cta.mbarrier::complete_tx::bytes.b32 [%r2], 7, [%r7];
{wait}
ld.shared.b32 %r5, [%r2+8];
st.global.b32 [%rd1], %r5;
"""
WAIT = "AWAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r7], 0;\n@!%p2 bra AWAIT;"


@pytest.fixture(autouse=True)
def instruction() -> Iterator[None]:
    with registered():
        yield


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_with_a_wait(schedule: dict[str, Any]) -> None:
    result = launch(FILL.format(bytes=16, wait=WAIT), check="all", **schedule)
    assert {found.code for found in result.diagnostics} <= {"X123"}


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_a_missing_wait_is_a_race(schedule: dict[str, Any]) -> None:
    result = launch(FILL.format(bytes=16, wait="bar.sync 0;"), check=["race"], **schedule)
    races = [d for d in result.diagnostics if d.code == "X103"]
    assert races, result
    assert "ripple.async" in races[0].message
    assert races[0].fix.startswith("wait with mbarrier.try_wait on the mbarrier of line")


def test_one_that_is_not_ordered_behind_the_initialisation() -> None:
    body = """
@%p1 mbarrier.init.shared::cta.b64 [%r7], 1;
setp.eq.u32 %p3, %r1, 32;
@%p3 ripple.async.shared::cta.mbarrier::complete_tx::bytes.b32 [%r2], 7, [%r7];
"""
    assert "X120" in {d.code for d in launch(body, check=["race"]).diagnostics}


def test_a_hang_names_it_as_a_possible_supplier() -> None:
    (hang,) = [d for d in launch(FILL.format(bytes=32, wait=WAIT)).diagnostics if d.code == "H601"]
    sources = [text for name, text in hang.details if name == "could come from"]
    assert any("ripple.async.shared::cta, executed 1 times" in text for text in sources), hang


@pytest.mark.parametrize("check", ["none", "all"])
def test_the_trace_shows_it(tmp_path: Path, check: str) -> None:
    path = tmp_path / "trace.json"
    launch(FILL.format(bytes=16, wait=WAIT), trace=str(path), check=check, policy="lazy")
    events = json.loads(path.read_text())["traceEvents"]
    (span,) = [e for e in events if e.get("cat") == "asynchronous"]
    (track,) = [e["args"]["name"] for e in events if e["name"] == "thread_name" and (e["pid"], e["tid"]) == (span["pid"], span["tid"])]
    assert span["name"].startswith("ripple.async.")
    assert (track, span["dur"] > 0) == ("TMA", True)


def test_a_service_without_effects_cannot_be_registered() -> None:
    with pytest.raises(ValueError, match="declares its effects"):
        service("silent.async.b32", section="an invented one", outputs=0, destination="addr")(lambda warp: None)
    assert "silent" not in CATALOGUE


def test_every_service_row_has_effects() -> None:
    load_all()
    services = [row for rows in CATALOGUE.values() for row in rows if row.kind == "service"]
    assert len(services) > 200
    assert [row.pattern for row in services if row.effects is None] == []


def test_every_effect_has_a_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {effect.__name__ for effect in _FENCES}

    def observe(launch: Launch) -> Sanitizer:
        made = Sanitizer(launch)
        known.update(effect.__name__ for effect in made._handlers)
        return made

    monkeypatch.setattr(race, "observe", observe)
    launch("", check=["race"])
    assert {effect.__name__ for effect in _subclasses(Effect)} == known


def _subclasses(kind: type[Effect]) -> Iterator[type[Effect]]:
    for each in kind.__subclasses__():
        yield each
        yield from _subclasses(each)
