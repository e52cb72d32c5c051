"""Every form of every pure row is one that NVIDIA's assembler takes for some target."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path

import pytest

from ptxlab.engine.lowering.matching import HIDDEN
from ptxlab.isa.kinds import TYPE_BITS

from .form_helpers import Form, forms, pure_rows

TARGETS = ("sm_100a", "sm_120a", "sm_107a")
HEADER = """
.version 9.5
.target {target}
.address_size 64
.visible .entry k()
{{
    .reg .pred %p<8>; .reg .b8 %b<8>; .reg .u8 %ub<8>; .reg .s8 %sb<8>; .reg .b16 %h<8>; .reg .b32 %r<8>; .reg .b64 %rd<8>;
    .reg .b128 %rq<8>; .reg .f32 %f<8>; .reg .f64 %fd<8>;
"""
ADDRESSES = {"createpolicy.range"}
"""What takes an address where the row has a register or any operand."""


def assembler() -> str | None:
    spec = importlib.util.find_spec("nvidia")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(place) / "cu13" / "bin" / "ptxas"
        if path.is_file() and "release 13.5" in subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout:
            return str(path)
    return None


def register(type: str, number: int) -> str:
    if type in ("pred", "f32", "f64"):
        return f"%{ {'pred': 'p', 'f32': 'f', 'f64': 'fd'}[type] }{number}".replace(" ", "")
    bits = TYPE_BITS[type]
    if bits == 8:
        return f"%{type[0] if type[0] in 'us' else ''}b{number}"
    return f"%{ {16: 'h', 32: 'r', 64: 'rd', 128: 'rq'}[bits] }{number}".replace(" ", "")


def text(form: Form) -> str:
    """The form as an instruction, each operand in a register of its own."""
    operands, count = [], 0
    for _, type in form.row.operands:
        if type in HIDDEN:
            continue
        parts = []
        for part in type.split("|"):
            spelt = form.q.__dict__.get(part, part)
            vector, dot, element = (spelt if isinstance(spelt, str) else part).partition(".")
            if part in ("any", "?any"):
                parts.append("8")
            elif dot:
                parts.append("{" + ", ".join(register(element, i) for i in range(int(vector[1:]))) + "}")
            else:
                parts.append(register(vector, count))
                count += 1
        operands.append("|".join(parts))
    if ".".join(form.opcode.split(".")[:2]) in ADDRESSES:
        operands[1] = "[%rd1]"
    return f"{form.opcode} {', '.join(operands)};"


def refused(ptxas: str, instructions: list[str], target: str, folder: Path) -> dict[str, str]:
    """What the assembler has against each instruction."""
    head = HEADER.format(target=target)
    source = folder / "forms.ptx"
    source.write_text(head + "\n".join([*instructions, "ret;", "}", ""]))
    done = subprocess.run([ptxas, f"-arch={target}", "-O0", source, "-o", "/dev/null"], capture_output=True, text=True, check=False)
    first = head.count("\n") + 1
    found = {}
    for line, message in re.findall(r"line (\d+); error\s*: (.*)", done.stdout + done.stderr):
        found.setdefault(instructions[int(line) - first], message)
    assert found or not done.returncode, done.stderr[-2000:]
    return found


@pytest.mark.compiler
def test_every_form_assembles(tmp_path: Path) -> None:
    ptxas = assembler()
    if ptxas is None:
        pytest.skip("no ptxas 13.5: install nvidia-cuda-nvcc")
    instructions = list(dict.fromkeys(text(form) for row in pure_rows() for form in forms(row, most=400)))
    assert len(instructions) > 6000
    left: dict[str, str] = dict.fromkeys(instructions, "")
    for target in TARGETS:
        left = refused(ptxas, list(left), target, tmp_path)
    assert left == {}
