"""Native programs: they run as they are, in a process of their own, and their kernels execute in ptxlab."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from ptxlab.cuda.remote import VARIABLE, Server
from ptxlab.cuda.remote.executables import carried_runtime, link_libraries
from ptxlab.interop.session import Session

__all__ = ["run_program"]


def run_program(program: Path, arguments: Sequence[str], session: Session) -> int:
    """Run a program whose CUDA calls ptxlab answers; return its exit status, as a shell reports it.

    Raises
    ------
    BuildError
        if the libraries are not prebuilt and cannot be compiled
    """
    refused = carried_runtime(program)
    if refused is not None:
        session.note(refused)
        return 2
    sys.stdout.flush()
    # `ptxlab exec --json` keeps standard output for itself.
    output = sys.stderr.fileno() if sys.stdout is sys.stderr else None
    with TemporaryDirectory(prefix="ptxlab-") as folder, Server(lambda: session) as server:
        link_libraries(Path(folder))
        path = os.pathsep.join(filter(None, (folder, os.environ.get("LD_LIBRARY_PATH"))))
        environment = os.environ | {"LD_LIBRARY_PATH": path, VARIABLE: server.name}
        command = [str(program.absolute()), *arguments]
        with subprocess.Popen(command, env=environment, stdout=output) as running:
            try:
                status = running.wait()
            except KeyboardInterrupt:
                running.send_signal(signal.SIGINT)
                status = running.wait()
        server.finish()
    return status if status >= 0 else 128 - status
