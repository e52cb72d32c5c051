"""`lint_instruction` against recorded verdicts of the assembler, and against the assembler itself.

6,000 verdicts on tcgen05 and wgmma; 3,500 on mbarriers, bulk copies, fences and tensor maps, and 4,400 on forms at the border between what
the assembler takes and what it refuses, which `record_verdicts` writes.

Random forms of two known seeds are compared with ptxas in every run, of three more in `make test-all`. So are forms that no run before has
seen, there and by ``pytest -m slow tests/check/test_verdicts.py``: a failure names its seed, and ``PTXLAB_FORMS_SEED=<seed>`` brings it
back.
"""

from __future__ import annotations

import gzip
import importlib.util
import os
import secrets
import subprocess
from pathlib import Path

import pytest

from ptxlab import lint_instruction
from tests.sweep_helpers import part

from .random_forms import AROUND, TENSOR_CORE, Generator

VERDICTS = gzip.decompress(Path(__file__).with_name("ptxas_verdicts.tsv.gz").read_bytes()).decode()
ROWS = [line.split("\t") for line in VERDICTS.splitlines()[1:]]

EXCEPTIONS = {
    (
        "tcgen05.st.sync.aligned.32x32b.x2.b32 [smem], {%r0,%r1};",
        "sm_100a",
        "8.7",
    ): "recorded as accepted by 13.5, but ptxas 13.5.37 refuses it, like every other variable as tensor-memory address",
}


FRAGMENT = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1,%f2,%f3,%f4}, {%p1,%r1,%r2,%r3}, %rd2, %p1, 1, 1, 0;"
UNRULED = {
    (FRAGMENT, "sm_90a", "accept"): "ptxas counts a predicate as one of the registers of a fragment; there is no value that it could have",
    ("mbarrier.check_layout.layout::v0.cta.gpu.b64 %p1, [mbar];", "sm_100a", "reject"): "two modifiers without meaning; each is reported",
    ("fence.sc.acc::f32.acc::f32.gpu;", "sm_100a", "reject"): "a modifier without meaning, twice; it is reported",
    (
        "mbarrier.init.b64 [mbar], %r1-8;",
        "sm_100a",
        "reject",
    ): "a syntax error of ptxas, which takes %r1+-8; the syntax tree has one sum for both",
}
"""Where the linter differs from ptxas 13.5 at PTX ISA 9.5, and why it stays so."""


def refused(instruction: str, target: str, version: str) -> bool:
    return any(d.severity == "error" for d in lint_instruction(instruction, target=target, version=version))


@pytest.mark.sweep
def test_recorded_verdicts() -> None:
    """An error exactly where ptxas 13.5 rejects; BACKEND rows are crashes of the assembler."""
    rows = [row for row in ROWS if "BACKEND" not in row[5]]
    assert len(rows) > 5900
    differ = {(row[0], row[1], row[2]) for row in rows if refused(row[0], row[1], row[2]) != (row[4] == "reject")}
    assert differ == set(EXCEPTIONS)
    assert len(differ) <= 0.005 * len(rows)


EMULATED = "Arguments mismatch for instruction 'mov'"
"""Without the hardware for it the assembler replaces an instruction by others; these it then refuses for a 16-bit or 32-bit address."""


ZERO = "expected to be vector of constant zero's"
"""With replaced dimensions ptxas wants coordinates that are zero; the linter does not look at constants inside a vector."""


def expected(status: str, message: str) -> bool | None:
    """Whether the linter should refuse; None where the assembler fails for reasons of its own."""
    return None if status == "crash" or EMULATED in message or ZERO in message else status == "reject"


@pytest.mark.parametrize(
    ("table", "total", "accepted"), [("around", 3000, 1000), pytest.param("near", 4400, 1000, marks=pytest.mark.sweep)]
)
def test_recorded_verdicts_of_tables(table: str, total: int, accepted: int) -> None:
    text = gzip.decompress(Path(__file__).with_name(f"ptxas_verdicts_{table}.tsv.gz").read_bytes()).decode()
    rows = [line.split("\t") for line in text.splitlines()[1:]]
    assert len(rows) > total
    assert sum(row[3] == "accept" for row in rows) > accepted
    judged = [(row, wanted) for row in rows if (wanted := expected(row[3], row[4])) is not None]
    assert len(judged) > 0.98 * len(rows)
    assert [row for row, wanted in judged if refused(row[0], row[1], row[2]) != wanted] == []


@pytest.mark.parametrize(("instruction", "target", "outcome"), UNRULED)
def test_unruled(instruction: str, target: str, outcome: str) -> None:
    """The list has no row too many; what ptxas takes without meaning is at least reported."""
    assert refused(instruction, target, "9.5") == (outcome == "accept")
    assert lint_instruction(instruction, target=target, version="9.5")


@pytest.mark.oracle
@pytest.mark.compiler
@pytest.mark.parametrize(("instruction", "target", "outcome"), UNRULED)
def test_unruled_by_the_assembler(instruction: str, target: str, outcome: str, ptxas: str, tmp_path: Path) -> None:
    status, _ = verdict(ptxas, tmp_path, instruction, target, "9.5")
    assert (status == 0) == (outcome == "accept")


def test_every_finding_is_explained() -> None:
    for row in ROWS[::20]:
        for found in lint_instruction(row[0], target=row[1], version=row[2]):
            assert found.message
            assert found.reason or found.code[0] in "SU" or found.code in ("L101",)


def assembler() -> str | None:
    spec = importlib.util.find_spec("nvidia")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(place) / "cu13" / "bin" / "ptxas"
        if path.is_file():
            said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
            if "release 13.5" in said:
                return str(path)
    return None


HEADER = """.version {version}
.target {target}
.address_size 64
.global .b64 gvar;
.const .b64 cvar;
.visible .entry k() {{
.reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<300>; .reg .b64 %rd<40>; .reg .b128 %rq<4>; .reg .f32 %f<300>;
.reg .f64 %fd<8>; .reg .u32 %u<8>; .reg .s32 %s<8>; .reg .u64 %ud<8>;
.shared .align 1024 .b8 smem[4096]; .shared .b64 mbar; .shared .b32 sdst;
{instruction}
ret; }}
"""


def verdict(ptxas: str, folder: Path, instruction: str, target: str, version: str) -> tuple[int, str]:
    """The assembler's exit status and what it said; -1 where it comes to no end."""
    source = folder / "k.ptx"
    source.write_text(HEADER.format(instruction=instruction, target=target, version=version))
    command = [ptxas, "-arch", target, source, "-o", folder / "k.cubin"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    except subprocess.TimeoutExpired:
        return -1, "no end after 20 seconds"
    return done.returncode, done.stderr


KNOWN = part((5, 6, 7, 8, 9), lambda seed: seed < 7)
FRESH = int(os.environ.get("PTXLAB_FORMS_SEED", secrets.randbits(32)))


def differing(seed: int, names: list[str], count: int, ptxas: str, folder: Path) -> list[tuple[str, str, str, str]]:
    """The random forms on which the linter and the assembler differ, with what the assembler said."""
    generator = Generator(seed, names)
    found = []
    for _ in range(count):
        instruction, target, version = generator.instruction()
        status, said = verdict(ptxas, folder, instruction, target, version)
        wanted = expected("accept" if status == 0 else "crash" if status < 0 else "reject", said)
        if wanted is not None and refused(instruction, target, version) != wanted:
            found.append((instruction, target, version, said))
    return found


@pytest.fixture(scope="module")
def ptxas() -> str:
    found = assembler()
    if found is None:
        pytest.skip("ptxas 13.5 is not installed: pip install 'ptxlab[assembler]'")
    return found


groups = pytest.mark.parametrize("names", [TENSOR_CORE, AROUND], ids=["tensor core", "around"])


@pytest.mark.oracle
@pytest.mark.compiler
@groups
@pytest.mark.parametrize("seed", KNOWN)
def test_random_forms_against_the_assembler(names: list[str], seed: int, ptxas: str, tmp_path: Path) -> None:
    assert differing(seed, names, 120, ptxas, tmp_path) == []


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.compiler
@groups
def test_fresh_random_forms_against_the_assembler(names: list[str], ptxas: str, tmp_path: Path) -> None:
    assert differing(FRESH, names, 1500, ptxas, tmp_path) == [], f"PTXLAB_FORMS_SEED={FRESH}"
