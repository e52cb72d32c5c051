"""Batches of mutated inputs: what each of them does is a diagnostic or a result, soon, and in bounded memory.

A batch is a function of its kind, its seed and its number of inputs, so that any process can run it.
"""

from __future__ import annotations

import json
import random
import re
import resource
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

import numpy as np

import ptxlab
from ptxlab.campaign import arrays, launch_file
from ptxlab.campaign.launch_file import read_launch_file
from ptxlab.campaign.outcome import unexpected
from ptxlab.diagnostics import CODES, Diagnostic, PtxlabError

from .corpus_helpers import LAUNCH_FILES, LAUNCHED, MODULES, WORDS

__all__ = ["KINDS", "Batch", "Failure", "check", "mutate", "run_batch"]

SECONDS = 5.0
"""Of the processor; a busy machine is no fault."""
MEGABYTES = 600
TOKEN = re.compile(r"\s+|[%$.\w:]+|.", re.DOTALL)
CLASSES = (re.compile(r"%\w+(\.\w)?"), re.compile(r"-?\d\w*"), re.compile(r"[a-z]\w*(\.[\w:]+)+"), re.compile(r"\.\w+"))


@dataclass(frozen=True)
class Failure:
    """An input, and what it did that it must not do."""

    text: str
    problem: str


@dataclass
class Batch:
    """What a batch of inputs did.

    Attributes
    ----------
    accepted : the inputs that were read without an error
    finished : the launches that ran to their end without one
    megabytes : by how much the memory of the process has grown
    """

    kind: str
    seed: int
    inputs: int
    accepted: int = 0
    finished: int = 0
    megabytes: float = 0
    failures: list[Failure] = field(default_factory=list)

    @contextmanager
    def input(self, text: str) -> Iterator[None]:
        """Note a failure of what is done with an input, or that it takes too long."""
        started = time.process_time()
        try:
            with _refusals():
                yield
        except Exception:
            self.failures.append(Failure(text, traceback.format_exc()))
        took = time.process_time() - started
        if took >= SECONDS:
            self.failures.append(Failure(text, f"it took {took:.1f} s of the processor"))


@contextmanager
def _refusals() -> Iterator[None]:
    """An input may be refused, with diagnostics that are whole."""
    refused: tuple[Diagnostic, ...] = ()
    try:
        yield
    except PtxlabError as error:
        refused = tuple(error.diagnostics)
        if not refused:
            raise
    check(refused)


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
    """Diagnostics are whole, and none says that ptxlab is at fault."""
    for found in diagnostics:
        assert found.code in CODES
        assert not found.code.startswith("I9"), str(found)
        assert found.message
        assert str(found).startswith(f"{found.place}: " if found.place else found.severity)
        json.dumps(found.as_dict())


def ran(result: ptxlab.Result) -> None:
    """A launch ends with a result, or with an error that says why there is none."""
    check(result.diagnostics)
    assert result.completed or any(d.severity == "error" for d in result.diagnostics)


def _modules(batch: Batch, rng: random.Random) -> None:
    """PTX is loaded or refused."""
    for _ in range(batch.inputs):
        text = mutate(rng.choice(MODULES), rng)
        with batch.input(text):
            module = ptxlab.loads(text)
            for name in module:
                assert module[name].program.ops is not None
            batch.accepted += 1


def _kernels(batch: Batch, rng: random.Random) -> None:
    """Kernels run or are refused."""
    out = np.zeros(512, np.uint32)
    tile = ptxlab.TensorMap(np.zeros((16, 16), np.float32), box=(8, 4))
    for _ in range(batch.inputs):
        text = mutate(rng.choice(MODULES), rng)
        with batch.input(text):
            kernel = ptxlab.loads(text).kernel()
            batch.accepted += 1
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
            batch.finished += result.ok


def _launch_files(batch: Batch, rng: random.Random) -> None:
    """Launch files are read or refused, and one in 32 is launched.

    Arrays may have 8 GiB, more than a test can spend; here they have less.
    """
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        for module in (arrays, launch_file):
            stack.enter_context(patch.object(module, "MAX_BYTES", 64 << 20))
        folder = Path(name)
        path = folder / "launch.toml"
        (folder / "k.ptx").write_text(LAUNCHED)
        np.save(folder / "a.npy", np.arange(32, dtype=np.uint32))
        for _ in range(batch.inputs):
            text = mutate(rng.choice(LAUNCH_FILES), rng)
            path.write_text(text, encoding="utf-8", errors="surrogateescape")
            with batch.input(text):
                spec = read_launch_file(path)
                batch.accepted += 1
                if batch.accepted % 32 == 0:
                    most = spec.options.max_instructions
                    spec.options = spec.options.changed(max_instructions=20_000 if most is None else min(most, 20_000))
                    result = spec.launch(device=ptxlab.Device("sm_100a", sms=2))
                    ran(result)
                    if result.completed:
                        check(unexpected(spec))
                        batch.finished += 1


KINDS: dict[str, Callable[[Batch, random.Random], None]] = {"modules": _modules, "kernels": _kernels, "launch_files": _launch_files}
"""What is done with inputs, by name."""


def run_batch(kind: str, seed: int, inputs: int) -> Batch:
    """Run a batch in this process."""
    batch = Batch(kind, seed, inputs)
    before = _peak()
    KINDS[kind](batch, random.Random(seed))
    batch.megabytes = _peak() - before
    if batch.megabytes >= MEGABYTES:
        batch.failures.append(Failure("", f"the memory of the process has grown by {batch.megabytes:.0f} MiB"))
    return batch


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
