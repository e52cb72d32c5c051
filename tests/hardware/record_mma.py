"""Record every mma.sync form on a GPU: ``python -m tests.hardware record mma`` (needs an sm_90a device and cupy)."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from ptxlab.silicon.parts.mma import CASES, Form, forms, module, words
from tests.hardware.suite._tools import ASSEMBLE, tools


def main(out: str) -> None:
    import cupy

    def compiled(form: Form) -> Path | None:
        source = Path(folder, f"{form.seed}.ptx")
        source.write_text(module(form, "sm_90a"))
        binary = source.with_suffix(".cubin")
        done = subprocess.run([*ASSEMBLE, str(source), "-o", str(binary)], capture_output=True, text=True)
        if done.returncode:
            print(form.opcode, done.stderr.strip().splitlines()[0])
            return None
        return binary

    opcodes, results = [], []
    with tempfile.TemporaryDirectory() as folder:
        with ThreadPoolExecutor(16) as pool:
            binaries = list(pool.map(compiled, forms()))
        for form, binary in zip(forms(), binaries, strict=True):
            if binary is None:
                continue
            given = [cupy.asarray(np.append(words(form, i).ravel(), np.uint32(0))) for i in range(3)]
            result = cupy.zeros(CASES * 32 * max(form.counts[2], 1), np.uint32)
            cupy.RawModule(path=str(binary)).get_function("k")((CASES,), (32,), (*given, result))
            opcodes.append(form.opcode)
            results.append(result.get())
    np.savez_compressed(out, opcodes=np.array(opcodes), results=np.concatenate(results), tools=np.array(tools()))
    print(len(opcodes), "forms", *tools())


if __name__ == "__main__":
    main(sys.argv[1])
