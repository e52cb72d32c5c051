"""Record every scalar form on a GPU: ``python -m tests.hardware.record_scalar OUT.npz [NEWER.cubin]`` (needs an sm_90a device and cupy).

Forms of PTX ISA 9.3 need a newer assembler than the others: their binary may come from elsewhere
(``--assemble NEWER.cubin PTXAS`` makes it), or they are left out.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from tests.hardware.scalar_forms import forms, module
from tests.hardware.scalar_inputs import CASES, WIDTH, inputs
from tests.hardware.suite._tools import ASSEMBLE, tools


def assemble(newer: bool, binary: str, ptxas: str = ASSEMBLE[0]) -> None:
    """The forms of older or of newer versions of the ISA."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "forms.ptx")
        source.write_text(module([(i, form) for i, form in enumerate(forms()) if form.newer == newer]))
        subprocess.run([ptxas, *ASSEMBLE[1:], str(source), "-o", binary], check=True)


def main(out: str, newer: str | None = None) -> None:
    import cupy

    listed = [form for form in forms() if newer or not form.newer]
    with tempfile.TemporaryDirectory() as folder:
        binary = str(Path(folder, "forms.cubin"))
        assemble(False, binary)
        loaded = {False: cupy.RawModule(path=binary)}
        if newer:
            loaded[True] = cupy.RawModule(path=newer)
        for each in loaded.values():
            each.compile()
    words: dict[str, np.ndarray] = {}
    results = []
    for i, form in enumerate(forms()):
        if form not in listed:
            continue
        arguments = []
        for position, kind in enumerate(form.sources):
            name = f"in_{kind}_{position}"
            words.setdefault(name, inputs(kind, position).astype(f"u{WIDTH[kind] // 8}"))
            arguments.append(cupy.asarray(words[name]))
        result = cupy.zeros(CASES, f"u{WIDTH[form.result] // 8}")
        loaded[form.newer].get_function(f"form_{i}")((1,), (CASES,), (*arguments, result))
        results.append(result.get().tobytes())
    np.savez_compressed(
        out,
        opcodes=np.array([form.opcode + form.tail for form in listed]),
        results=np.frombuffer(b"".join(results), np.uint8),
        tools=np.array(tools()),
        **words,
    )
    print(len(listed), "forms", *tools())


if __name__ == "__main__":
    if sys.argv[1] == "--assemble":
        assemble(True, *sys.argv[2:])
    else:
        main(*sys.argv[1:])
