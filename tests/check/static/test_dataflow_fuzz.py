"""The data flow of mutated kernels: most of them still parse, and loops, barriers and descriptors stand where no one would put them.

Each text is checked without exception and in bounded time. ``-m slow`` runs all 100,000 texts, in about an hour.
"""

from __future__ import annotations

import random
import re
from time import process_time

import pytest

from ptxlab.check import lint_module
from tests.check.static.dataflow_kernels.launches import LAUNCHES, base_text

SECONDS = 20
"""Of processor time: a right kernel takes a fiftieth of a second."""
PARTS = 20
NUMBERS = ("0", "1", "-1", "3", "31", "32", "33", "128", "4096", "0x7fffffff", "0xffffffff", "0x4000404000010000")


def mutated(generator: random.Random, text: str) -> str:
    """A text with up to five changes of lines, names and numbers of its body."""
    lines = text.split("\n")
    registers = re.findall(r"%[a-z]+\d+", text)
    labels = re.findall(r"^\w+(?=:)", text, re.MULTILINE) or ["NOWHERE"]
    first = next(number for number, line in enumerate(lines) if line.startswith("{")) + 1
    for _ in range(generator.randint(1, 5)):
        at, other = (generator.randrange(first, len(lines) - 2) for _ in range(2))
        match generator.randrange(6):
            case 0:
                del lines[at]
            case 1:
                lines.insert(at, lines[other])
            case 2:
                lines[at], lines[other] = lines[other], lines[at]
            case 3:
                lines[at] = re.sub(r"\b\d+\b", lambda _: generator.choice(NUMBERS), lines[at], count=1)
            case 4:
                lines[at] = re.sub(r"%[a-z]+\d+", lambda _: generator.choice(registers), lines[at], count=1)
            case 5:
                lines[at] = generator.choice(("    bra {};", "    @%p1 bra {};", "    @!%p2 bra {};")).format(generator.choice(labels))
        if len(lines) < first + 4:
            break
    return "\n".join(lines)


def check(seed: int, count: int) -> int:
    """Lint mutated kernels; how many of them came to the data flow."""
    generator = random.Random(seed)
    bases = [base_text(name) for name in LAUNCHES]
    followed = 0
    for _ in range(count):
        text = mutated(generator, generator.choice(bases))
        started = process_time()
        found = lint_module(text, "kernel.ptx", None, None)
        assert process_time() - started < SECONDS, text
        # What the module itself shows has codes of the letters S, L and U; only the data flow has others.
        followed += any(d.code[0] not in "SLU" for d in found) or not found
    return followed


@pytest.mark.parametrize("address", [0x3FFF0, 0x3FFF4, 0x3FFFC, 0x40000])
def test_a_store_at_the_end_of_the_shared_memory_that_is_followed(address: int) -> None:
    store = "    st.shared.v4.b32 [%r3], {%r4, %r4, %r4, %r4};"
    text = base_text("wgmma")
    assert text.count(store) == 1
    lint_module(text.replace(store, f"    mov.u32 %r3, {address};\n{store}"), "kernel.ptx", None, None)


def test_mutated_kernels() -> None:
    assert check(1, 100) > 10


@pytest.mark.sweep
def test_more_mutated_kernels() -> None:
    assert check(2, 1000) > 100


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_all_mutated_kernels(part: int) -> None:
    count = 100_000 // PARTS
    assert check(100 + part, count) > count // 10
