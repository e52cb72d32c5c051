"""Record sparse wgmma on an sm_90a GPU: ``python -m tests.hardware.record_wgmma_sparse OUT.npz`` (needs cupy and ptxas)."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from tests.hardware import wgmma_sparse_cases as cases
from tests.hardware.suite._tools import ASSEMBLE, tools


def assemble(folder: Path, number: int) -> Path:
    source = folder / f"k{number}.ptx"
    source.write_text(cases.ptx(cases.FORMS[number]))
    binary = source.with_suffix(".cubin")
    subprocess.run([*ASSEMBLE, str(source), "-o", str(binary)], check=True)
    return binary


def main(out: str) -> None:
    import cupy

    pools = cases.inputs()
    found: dict[str, Any] = dict(pools)
    with tempfile.TemporaryDirectory() as folder:
        with ThreadPoolExecutor(16) as pool:
            binaries = list(pool.map(lambda number: assemble(Path(folder), number), range(len(cases.FORMS))))
        for number, (form, binary) in enumerate(zip(cases.FORMS, binaries, strict=True)):
            result = cupy.zeros((cases.THREADS, form.count), cupy.uint32)
            inputs = [cupy.asarray(x) for x in cases.operands(form, number, pools)]
            cupy.RawModule(path=str(binary)).get_function("k")((1,), (cases.THREADS,), (*inputs, result))
            found[f"D/{form}"] = result.get()
    found["tools"] = np.array(tools())
    np.savez_compressed(out, **found)
    print(len(cases.FORMS), "instructions", *tools(), Path(out).stat().st_size, "bytes")


if __name__ == "__main__":
    main(sys.argv[1])
