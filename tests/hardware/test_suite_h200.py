"""The suite against an H200: ``python -m tests.hardware record`` made the records; here the same kernels give the same bits."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import cache

import numpy as np
import pytest

from ptxlab.isa import CATALOGUE, load_all
from ptxlab.isa.catalogue import match
from tests.hardware import suite
from tests.hardware.__main__ import programs
from tests.hardware.suite import Kernel
from tests.hardware.suite._record import Record, path_of
from tests.hardware.suite._replay import replay

SHOWS = {
    "test_replay": (
        "activemask*", "atom*", "bar.warp.sync", "bar{.mode=cta}*", "barrier*", "bra*", "ret*", "cp.async.(*", "cp.async.mbarrier.arrive*",
        "cp.async.bulk.shared::cta.global.*", "cp.async.bulk.commit_group",
        "cp.async.bulk.global.*bulk_group{*cache_hint}", "cp.async.bulk.shared::cluster.*", "cp.async.bulk.wait_group*",
        "cp.reduce.async.bulk.global.*bulk_group*",
        "cp.reduce.async.bulk.shared::cluster.*",
        "cp.async.bulk.tensor.(dim=1d|2d|3d|4d|5d).(direction=*){.mode=tile}.*|cta_group::2}*",
        "cp.async.bulk.tensor.(dim=1d|2d|3d|4d|5d).global.shared::cta{.mode=tile}.bulk_group*",
        "cp.reduce.async.bulk.tensor.(dim=1d|2d|3d|4d|5d).global.shared::cta.(redOp=add|min|max|inc|dec|and|or|xor){.mode=tile}.*",
        "cvta*", "elect*", "fence.proxy.(*", "fence{*", "getctarank*", "isspacep*",
        "ldmatrix.sync.aligned.m8n8.*b16",
        "ld{*", "mapa*", "match*", "mbarrier*", "red.async.relaxed*", "redux.sync.(op=add*", "redux.sync.(op=and*", "red{*", "shfl*",
        "st.async{.weak}*", "stmatrix.sync.aligned.m8n8.*", "st{*", "vote*",
    ),
}  # fmt: skip

POLICIES = ("eager", "lazy", "random")
DIFFERENT: dict[str, str] = {
    f"{instruction}.add.{kind}.shared::cluster": "assembled by ptxas 13.0, it adds the words as integers"
    for instruction in ("atom", "red")
    for kind in ("f16x2", "bf16x2")
}
"""Kernel -> why its results differ from the silicon's."""
RACES = {f"exchange.relaxed.{scope}.state": "X101" for scope in ("cta", "cluster")}
"""Kernel -> what is found in it, rightly: relaxed arrivals publish nothing, whatever the silicon did that day."""


@cache
def record(topic: str) -> Record:
    return Record(topic)


@cache
def families(topic: str) -> dict[str, list[Kernel]]:
    """The kernels of a topic by the first part of their names."""
    found: dict[str, list[Kernel]] = {}
    for kernel in suite.kernels(topic):
        found.setdefault(kernel.name.split(".")[0], []).append(kernel)
    return found


LISTED = [(topic, family) for topic in suite.TOPICS if topic != "whole_kernels" for family in families(topic)]


@pytest.mark.parametrize(("topic", "family"), LISTED)
def test_replay(topic: str, family: str) -> None:
    made, wrong = record(topic), []
    for number, kernel in enumerate(families(topic)[family]):
        if not made.fits(kernel) or made.state(kernel) != "ok":
            wrong.append(f"{kernel.name}: no record of this text and these inputs: record {topic} again")
            continue
        found, diagnostics = replay(kernel, POLICIES[number % 3])
        wrong += [f"{kernel.name}: {d}" for d in diagnostics if d.code != RACES.get(kernel.name)]
        if kernel.name in RACES and not diagnostics:
            wrong.append(f"{kernel.name}: nothing is found")
        bad = [np.flatnonzero(ours != silicon) for ours, silicon in zip(found, made.results(kernel), strict=True)]
        if any(map(len, bad)) != (kernel.name in DIFFERENT):
            wrong.append(f"{kernel.name}: {[(len(b), b[:3].tolist()) for b in bad]} of the results differ (count, places)")
    assert not wrong, "\n".join(wrong[:20])


def opcodes(text: str) -> set[str]:
    """What stands first in the statements of a PTX text, behind a guard."""
    statements = (part.split() for part in re.split(r"[;{}\n]|(?<!:):(?!:)", text))
    return {words[words[0].startswith("@")] for words in statements if words}


def test_what_is_shown_is_in_the_suite() -> None:
    load_all()
    texts = {kernel.text for topic in suite.TOPICS for kernel in suite.kernels(topic) if not kernel.cuda}
    seen = {row.pattern for text in texts for opcode in opcodes(text) for row, _ in match(opcode)}
    shown = {row.pattern for rows in CATALOGUE.values() for row in rows if any(fnmatchcase(row.pattern, g) for g in SHOWS["test_replay"])}
    assert sorted(shown - seen) == []


@pytest.mark.parametrize("topic", [*suite.TOPICS, *programs()])
def test_tools_are_recorded(topic: str) -> None:
    with np.load(path_of(topic)) as data:
        gpu, *others = data["tools"].tolist()
    assert gpu == "NVIDIA H200"
    assert [tool.split()[0] for tool in others] == ["driver", "CUDA", "nvcc", "ptxas"]
