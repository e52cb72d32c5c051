"""Record the sums of `approximation_sweeps` on a GPU: ``python -m tests.hardware record approximations``.

Needs an sm_90a device, cupy and ptxas.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from tests.hardware.approximation_sweeps import SWEEPS, THREADS
from tests.hardware.suite._tools import ASSEMBLE, tools


def main(out: str) -> None:
    import cupy

    found = {}
    for sweep in SWEEPS:
        with tempfile.TemporaryDirectory() as folder:
            source, binary = Path(folder, "sweep.ptx"), Path(folder, "sweep.cubin")
            source.write_text(sweep.text)
            subprocess.run([*ASSEMBLE, str(source), "-o", str(binary)], check=True)
            kernel = cupy.RawModule(path=str(binary)).get_function("sweep")
        sums = cupy.zeros(sweep.blocks, np.uint64)
        kernel((sweep.blocks,), (THREADS,), (sums, np.uint32(0)))
        found[sweep.opcode] = sums.get().astype(np.uint32)
    np.savez_compressed(out, tools=np.array(tools()), **found)
    print(len(found), "sweeps", *tools())


if __name__ == "__main__":
    main(*sys.argv[1:])
