"""What ptxas says about many instructions at once: each stands in a kernel of its own, many kernels in one module.

An error belongs to the kernel in which its line stands. Errors without a line of this source (the assembler expands some instructions with
code of its own), a signal, and a run without end belong to the whole batch: it is halved until one instruction is left. A syntax error
hides what follows, and errors of semantic analysis hide those of code generation, so what seems accepted is assembled again until a whole
module passes.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

__all__ = ["Verdict", "judge"]

SECONDS = 20
MEMORY = 4 << 30
LIMITED = ("sh", "-c", f'ulimit -v {MEMORY >> 10}; exec "$@"', "sh")
"""A shell limits the memory: to run Python code in a child process, all of this process would be copied."""
MODULE = """.version {version}
.target {target}
.address_size 64
.global .b64 gvar;
.const .b64 cvar;
"""
KERNEL = (
    ".visible .entry k{number}() {{\n"
    ".reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<300>; .reg .b64 %rd<40>; .reg .f32 %f<300>; "
    ".reg .f64 %fd<8>; .reg .u32 %u<8>; .reg .s32 %s<8>; .reg .u64 %ud<8>; "
    ".shared .align 1024 .b8 smem[4096]; .shared .b64 mbar; .shared .b32 sdst;{wide}\n"
    "{instruction}\n"
    "ret; }}\n"
)
SOURCE = "instructions.ptx"
WIDE = " .reg .b128 %rq<8>;"
"""Only where it is used: not every version has registers of 128 bits."""
HEAD = MODULE.count("\n")
EACH = KERNEL.count("\n")


class Verdict(NamedTuple):
    """``accept``, ``reject`` or ``crash``, and the first message."""

    outcome: str
    message: str


ACCEPTED = Verdict("accept", "")


def _assemble(ptxas: str, instructions: Sequence[str], target: str, version: str, folder: Path) -> tuple[int | None, str]:
    text = MODULE.format(version=version, target=target)
    for number, instruction in enumerate(instructions):
        text += KERNEL.format(number=number, instruction=instruction, wide=WIDE if "%rq" in instruction else "")
    source = folder / SOURCE
    source.write_text(text)
    command = [*LIMITED, ptxas, "-arch", target, str(source), "-o", str(folder / "k.cubin")]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS + len(instructions) // 10)
    except subprocess.TimeoutExpired:
        return None, ""
    return done.returncode, done.stdout + done.stderr


def _message(said: str) -> str:
    found = re.search(r"(?:error|fatal)\s*: *(.*)", said)
    return found[1] if found else ""


@cache
def _refusal(ptxas: str, target: str, version: str) -> Verdict | None:
    """The verdict on every instruction where a module without any is refused already."""
    with tempfile.TemporaryDirectory() as folder:
        status, said = _assemble(ptxas, [], target, version, Path(folder))
    return Verdict("reject", _message(said)) if status else None


def judge(ptxas: str, instructions: Sequence[str], target: str, version: str, batch: int = 200) -> dict[str, Verdict]:
    """The verdict on each instruction, which is one line without a line break."""
    found: dict[str, Verdict] = {}
    every = list(dict.fromkeys(instructions))
    if refusal := _refusal(ptxas, target, version):
        return dict.fromkeys(every, refusal)
    with tempfile.TemporaryDirectory() as folder:
        for start in range(0, len(every), batch):
            _judge(ptxas, every[start : start + batch], target, version, Path(folder), found)
    return found


def _judge(ptxas: str, left: Sequence[str], target: str, version: str, folder: Path, found: dict[str, Verdict]) -> None:
    while left:
        status, said = _assemble(ptxas, left, target, version, folder)
        if status == 0:
            found.update(dict.fromkeys(left, ACCEPTED))
            return
        wrong: dict[str, str] = {}
        for line, message in re.findall(rf"{SOURCE}, line (\d+); (?:error|fatal)\s*: (.*)", said):
            if int(line) > HEAD:
                wrong.setdefault(left[min((int(line) - HEAD - 1) // EACH, len(left) - 1)], message)
        if not wrong and len(left) == 1:
            crashed = status is None or status < 0
            text = _message(said) or ("no end" if status is None else f"exit status {status}")
            found[left[0]] = Verdict("crash" if crashed else "reject", text)
            return
        if not wrong:
            half = len(left) // 2
            _judge(ptxas, left[:half], target, version, folder, found)
            _judge(ptxas, left[half:], target, version, folder, found)
            return
        found.update({instruction: Verdict("reject", message) for instruction, message in wrong.items()})
        left = [instruction for instruction in left if instruction not in wrong]
