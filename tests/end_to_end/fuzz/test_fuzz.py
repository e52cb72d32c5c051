"""Whatever text comes in, a diagnostic or a result comes out: soon, and in bounded memory. 100,000 inputs in all."""

from __future__ import annotations

import json
import random
import re
import resource
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

import ptxlab
from ptxlab.campaign import arrays, launch_file
from ptxlab.campaign.launch_file import read_launch_file
from ptxlab.campaign.outcome import unexpected
from ptxlab.diagnostics import CODES, Diagnostic, PtxlabError

from .corpus_helpers import LAUNCH_FILES, LAUNCHED, MODULES, WORDS

SECONDS = 5.0
"""Of the processor; a busy machine is no fault."""
MEGABYTES = 600
TOKEN = re.compile(r"\s+|[%$.\w:]+|.", re.DOTALL)
CLASSES = (re.compile(r"%\w+(\.\w)?"), re.compile(r"-?\d\w*"), re.compile(r"[a-z]\w*(\.[\w:]+)+"), re.compile(r"\.\w+"))


def swap_alike(tokens: list[str], rng: random.Random) -> None:
    """Replace a register by another, a number by another, an opcode by another: most of it still parses."""
    kind = rng.choices(CLASSES, (5, 5, 3, 1))[0]
    places = [i for i, token in enumerate(tokens) if kind.fullmatch(token)]
    others = [token for token in (*tokens, *WORDS) if kind.fullmatch(token)]
    if places:
        tokens[rng.choice(places)] = rng.choice(others)


def mutate(text: str, rng: random.Random) -> str:
    """Change one to six tokens of a text, or its bytes."""
    tokens = TOKEN.findall(text)
    alike = rng.random() < 0.6
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        if alike:
            swap_alike(tokens, rng)
            continue
        at = rng.randrange(len(tokens))
        match rng.randrange(8):
            case 0:
                del tokens[at : at + rng.choice((1, 1, 2, 9))]
            case 1:
                tokens[at:at] = [rng.choice(WORDS)]
            case 2 | 3:
                tokens[at] = rng.choice(WORDS)
            case 4:
                other = rng.randrange(len(tokens))
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case 5:
                tokens[at] = rng.choice(tokens)
            case 6:
                start = rng.randrange(len(tokens))
                tokens[at:at] = tokens[start : start + rng.randrange(1, 30)]
            case _:
                word = list(tokens[at])
                word[rng.randrange(len(word))] = chr(rng.choice((0, 9, 34, 37, 46, 58, 59, 91, 123, 125, 233, rng.randrange(32, 127))))
                tokens[at] = "".join(word)
        if not tokens:
            tokens = [" "]
    return "".join(tokens)


def check(diagnostics: Iterable[Diagnostic]) -> None:
    for found in diagnostics:
        assert found.code in CODES
        assert not found.code.startswith("I9"), str(found)
        assert found.message
        assert str(found).startswith(f"{found.place}: " if found.place else found.severity)
        json.dumps(found.as_dict())


def refused(error: PtxlabError) -> None:
    assert error.diagnostics
    check(error.diagnostics)


def ran(result: ptxlab.Result) -> None:
    """A launch ends with a result, or with an error that says why there is none."""
    check(result.diagnostics)
    assert result.completed or any(d.severity == "error" for d in result.diagnostics)


def bounded(started: float, text: str) -> None:
    assert time.process_time() - started < SECONDS, text


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@pytest.mark.parametrize("part", range(7))
def test_ptx_is_loaded_or_refused(part: int) -> None:
    rng = random.Random(part)
    before, loaded = peak(), 0
    for _ in range(10_000):
        text = mutate(rng.choice(MODULES), rng)
        started = time.process_time()
        try:
            module = ptxlab.loads(text)
            for name in module:
                assert module[name].program.ops is not None
            loaded += 1
        except PtxlabError as error:
            refused(error)
        bounded(started, text)
    assert 0 < loaded < 10_000
    assert peak() - before < MEGABYTES


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


def test_launch_files_are_read_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays may have 8 GiB, more than a test can spend; here they have less."""
    for module in (arrays, launch_file):
        monkeypatch.setattr(module, "MAX_BYTES", 64 << 20)
    rng = random.Random(1)
    path = tmp_path / "launch.toml"
    (tmp_path / "k.ptx").write_text(LAUNCHED)
    np.save(tmp_path / "a.npy", np.arange(32, dtype=np.uint32))
    before, read, finished = peak(), 0, 0
    for _ in range(27_000):
        text = mutate(rng.choice(LAUNCH_FILES), rng)
        path.write_text(text, encoding="utf-8", errors="surrogateescape")
        started = time.process_time()
        try:
            spec = read_launch_file(path)
            read += 1
            if read % 32 == 0:
                most = spec.options.max_instructions
                spec.options = spec.options.changed(max_instructions=20_000 if most is None else min(most, 20_000))
                result = spec.launch(device=ptxlab.Device("sm_100a", sms=2))
                ran(result)
                if result.completed:
                    check(unexpected(spec))
                    finished += 1
        except PtxlabError as error:
            refused(error)
        bounded(started, text)
    assert 0 < read < 27_000
    assert finished > 30
    assert peak() - before < MEGABYTES


@pytest.mark.parametrize("part", range(3))
def test_kernels_run_or_are_refused(part: int) -> None:
    rng = random.Random(100 + part)
    out = np.zeros(512, np.uint32)
    tile = ptxlab.TensorMap(np.zeros((16, 16), np.float32), box=(8, 4))
    before, finished = peak(), 0
    for _ in range(1000):
        text = mutate(rng.choice(MODULES), rng)
        started = time.process_time()
        try:
            kernel = ptxlab.loads(text).kernel()
            arguments = [out, rng.choice((0, 1, 5, 2**31)), tile][: len(kernel.parameters)]
            result = kernel.launch(
                grid=2 if "cluster" in text else 1,
                block=None if ".reqntid" in text else 64,
                shared_bytes=65536,
                args=arguments,
                policy=rng.choice(("eager", "lazy", "random")),
                max_instructions=20_000,
            )
            ran(result)
            finished += result.ok
        except PtxlabError as error:
            refused(error)
        bounded(started, text)
    assert finished > 0
    assert peak() - before < MEGABYTES
