"""Every form of tcgen05.mma and wgmma in the catalogue stands in what nvcc makes of this folder's files, which other tests execute."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

import ptxlab
from ptxlab.interop import nvcc
from ptxlab.isa import CATALOGUE
from tests.isa.tcgen05.mma_form_cases import Form, forms, rows
from tests.isa.test_assembler import assembler

FOLDER = Path(__file__).parent
ELSEWHERE = {
    "wgmma.*.sync": "without .aligned, which the specification requires: test_wgmma.py::test_without_aligned",
    "wgmma.*.sync.m64*": "the same, and in every form: tests/isa/wgmma/test_forms.py",
}
"""Forms that are not in the text that nvcc makes, why, and where they are executed."""


def in_text(file: str, arch: str, name: str) -> set[str]:
    """The instructions of a file that begin with the name."""
    text = nvcc.ptx(FOLDER / file, arch=arch, fmad=False)
    return set(re.findall(rf"\b({re.escape(name)}[\w.:]*[ \t]*[^;]*);", text))


def operands(instruction: str) -> list[str]:
    """What stands behind the opcode; a vector counts as one."""
    _, _, text = instruction.replace("\t", " ").partition(" ")
    return [found.strip() for found in re.findall(r"\{[^}]*\}|[^,{]+", text) if found.strip()]


def of_tcgen05(instruction: str) -> tuple[frozenset[str], bool, bool, bool]:
    given = operands(instruction)
    predicate = next(i for i, operand in enumerate(given) if operand == "p")
    masked = any(operand.startswith("{") for operand in given)
    return frozenset(instruction.split()[0].split(".")), given[1].startswith("["), masked, predicate < len(given) - 1


def of_catalogue(form: Form) -> tuple[frozenset[str], bool, bool, bool]:
    """The same of a form of the catalogue."""
    more = {"scale-input-d", "zero-column-mask-desc"} & set(form.operands)
    return frozenset(form.opcode.split(".")), "a-tmem" in form.operands, "disable-output-lane" in form.operands, bool(more)


def test_tcgen05_mma() -> None:
    wanted = {of_catalogue(form) for row in rows("mma") for form in forms(row)}
    assert len(wanted) == 1568
    found = {of_tcgen05(instruction) for instruction in in_text("tcgen05_mma.cu", "sm_100a", "tcgen05.mma")}
    assert wanted - found == set()
    assert found - wanted == set()


def wgmma_forms() -> Iterator[tuple[str, bool]]:
    """Opcodes, and whether A is in registers."""
    for row in CATALOGUE["wgmma"]:
        in_registers = "a" in dict(row.operands)
        yield from ((form.opcode, in_registers) for form in forms(row))


def test_wgmma() -> None:
    wanted = {(opcode, place) for opcode, place in wgmma_forms() if not any(fnmatchcase(opcode, pattern) for pattern in ELSEWHERE)}
    assert len(wanted) == 2148 + 3
    texts = [text for file in ("wgmma_forms.cu", "wgmma_gemm.cu") for text in in_text(file, "sm_90a", "wgmma.")]
    products = {(text.split()[0], operands(text)[1].startswith("{")) for text in texts if "mma_async" in text}
    found = products | {(text.split()[0], False) for text in texts if "mma_async" not in text}
    assert wanted - found == set()
    assert found - wanted == set()
    assert all(any(fnmatchcase(opcode, pattern) for opcode, _ in wgmma_forms()) for pattern in ELSEWHERE)


@pytest.mark.parametrize(
    ("file", "arch"),
    [("tcgen05_mma.cu", "sm_100a"), pytest.param("wgmma_forms.cu", "sm_90a", marks=pytest.mark.slow)],
    ids=lambda x: x,
)
def test_legal(file: str, arch: str, tmp_path: Path) -> None:
    """The assembler takes all of it, and lint has nothing to say but that some registers are not used."""
    ptxas = assembler()
    if ptxas is None:
        pytest.skip("no ptxas 13.5: install nvidia-cuda-nvcc")
    text = nvcc.ptx(FOLDER / file, arch=arch, fmad=False)
    assert [str(found) for found in ptxlab.lint(text) if found.code != "L142"] == []
    source = tmp_path / "forms.ptx"
    source.write_text(text)
    done = subprocess.run([ptxas, f"-arch={arch}", "-O0", source, "-o", "/dev/null"], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr[-2000:]
