"""Record mma, mma.sp, ldmatrix and stmatrix on an sm_90a GPU: ``python -m tests.hardware.record_warp_matrix OUT.npz [CUBIN]``.

Needs cupy and ptxas. ``--assemble CUBIN`` only makes the binary of what needs a newer ptxas than the GPU machine may have.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tests.hardware import warp_matrix_cases as cases
from tests.hardware.suite._tools import ASSEMBLE, tools


def assemble(text: str, binary: Path) -> Path:
    source = binary.with_suffix(".ptx")
    source.write_text(text)
    subprocess.run([*ASSEMBLE, str(source), "-o", str(binary)], check=True)
    return binary


def widening(binary: Path) -> Path:
    text = cases.module([cases.move_kernel(f"w{i}", move) for i, move in enumerate(cases.WIDENING)], version="9.4")
    return assemble(text, binary)


def moved(kernel: Any, move: cases.Move) -> np.ndarray:
    """What the registers hold after a load, the image after a store."""
    import cupy

    image, rows, registers = (cupy.asarray(x) for x in cases.move_inputs(move))
    kernel((1,), (32,), (image, rows, registers))
    return np.asarray((image if move.store else registers).get())


def main(out: str, newer: str | None) -> None:
    import cupy

    pools = cases.inputs()
    found: dict[str, Any] = dict(pools)
    with tempfile.TemporaryDirectory() as folder:
        loaded = []
        for start in range(0, len(cases.FORMS), 40):
            text = cases.module([cases.kernel(f"k{i}", form) for i, form in enumerate(cases.FORMS)][start : start + 40])
            loaded.append(cupy.RawModule(path=str(assemble(text, Path(folder, f"part{start}.cubin")))))
        for i, form in enumerate(cases.FORMS):
            result = cupy.zeros((cases.TILES, 32, form.words()["d"]), cupy.uint32)
            operands = [cupy.asarray(x) for x in cases.product_inputs(form, pools)]
            loaded[i // 40].get_function(f"k{i}")((cases.TILES,), (32,), (*operands, result))
            found[f"D/{form}"] = result.get()
        text = cases.module([cases.move_kernel(f"m{i}", move) for i, move in enumerate(cases.MOVES)])
        module = cupy.RawModule(path=str(assemble(text, Path(folder, "moves.cubin"))))
        for i, move in enumerate(cases.MOVES):
            found[f"M/{move}"] = moved(module.get_function(f"m{i}"), move)
        if newer:
            try:
                module = cupy.RawModule(path=newer)
                found |= {f"M/{move}": moved(module.get_function(f"w{i}"), move) for i, move in enumerate(cases.WIDENING)}
            except (cupy.cuda.driver.CUDADriverError, cupy.cuda.runtime.CUDARuntimeError) as error:
                print("not recorded:", error)
    found["tools"] = np.array(tools())
    np.savez_compressed(out, **found)
    print(len(cases.FORMS), "products", *tools(), Path(out).stat().st_size, "bytes")


if __name__ == "__main__":
    if sys.argv[1] == "--assemble":
        widening(Path(sys.argv[2]))
    else:
        main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
