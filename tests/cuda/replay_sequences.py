"""Sequences of driver calls with the virtual driver: ``python -m tests.cuda.replay_sequences PROGRAM NAME...``.

PROGRAM is the library that `tests.cuda.sequence_helpers.compile_program` makes. Each sequence runs in a child of its own, which begins
with everything imported and no driver. One line of JSON is printed for each, as the program does on a GPU.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import tempfile
from importlib import import_module
from pathlib import Path

from ptxlab import cuda
from ptxlab.cuda.building import DRIVER, build
from ptxlab.interop.session import Session, Settings
from ptxlab.isa import load_all

SECONDS = 120
"""After which a sequence is ended."""
PRELOADED = (
    *("llvmlite", "resource", "ptxlab.engine.lowering.lower", "ptxlab.engine.llvm.executable", "ptxlab.engine.llvm._region_cache"),
    *("ptxlab.machine.launch.execution", "ptxlab.machine.memory.variables", "ptxlab.machine.observe.event_buffer"),
    *("ptxlab.machine.observe.provenance", "ptxlab.check.model", "ptxlab.check.operands", "ptxlab.check.race._sanitizer"),
    *("ptxlab.check.race.confirm", "ptxlab.check.race.report.findings", "ptxlab.check.race.undefined.observer"),
)
"""What a launch imports, with all instructions: otherwise each child would import it."""


def _child(program: ctypes.CDLL, name: str, library: str, descriptor: int) -> None:
    signal.alarm(SECONDS)
    session = Session(Settings(target="sm_90a", keep_going=True), report=lambda _: None)
    cuda.install(lambda: session)
    os._exit(program.run_sequence(name.encode(), library.encode(), descriptor))


def steps_of(program: ctypes.CDLL, name: str, library: str) -> list[str]:
    """Run a sequence in a child of this process."""
    with tempfile.TemporaryFile() as file:
        child = os.fork()
        if child == 0:
            try:
                _child(program, name, library, os.dup(file.fileno()))
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        file.seek(0)
        raw = file.read()
    found: list[str] = json.loads(raw)["steps"] if raw else [f"signal={os.WTERMSIG(status) if os.WIFSIGNALED(status) else -1}"]
    return found


def main() -> None:
    """Run the sequences that the command line names."""
    for name in PRELOADED:
        import_module(name)
    load_all()
    program, library = ctypes.CDLL(str(Path(sys.argv[1]).resolve())), str(build(DRIVER))
    for name in sys.argv[2:]:
        print(json.dumps({"name": name, "steps": steps_of(program, name, library)}), flush=True)


if __name__ == "__main__":
    main()
