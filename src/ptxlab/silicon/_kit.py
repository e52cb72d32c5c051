"""Which parts a kit has, and writing one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from ptxlab._version import __version__
from ptxlab.silicon._case import TARGETS, Case
from ptxlab.silicon.parts.approximate import approximate
from ptxlab.silicon.parts.cuda import cuda
from ptxlab.silicon.parts.faults import faults
from ptxlab.silicon.parts.mma import mma_cases
from ptxlab.silicon.parts.tcgen05 import tcgen05_arithmetic, tcgen05_collector, tcgen05_layouts
from ptxlab.silicon.parts.tensor_memory import tensor_memory
from ptxlab.silicon.parts.timing import timing
from ptxlab.silicon.parts.tma import tma
from ptxlab.silicon.parts.wgmma import wgmma_arithmetic, wgmma_layouts

__all__ = ["KIT", "PARTS", "Part", "cases_of", "parts_of", "write_kit"]

KIT = 1
"""The number of the kit: another one has other kernels or inputs."""
_ALL = tuple(TARGETS)
_TENSOR = ("sm_100a", "sm_103a", "sm_110a")
SECONDS, SECONDS_OF_A_LAUNCH = 540, 30


class Part:
    """A part of a kit: its targets, what it is in words, and its cases."""

    def __init__(self, targets: tuple[str, ...], purpose: str, make: Callable[[str], Iterator[Case]]) -> None:
        self.targets, self.purpose, self.make = targets, purpose, make


PARTS: Mapping[str, Part] = {
    "mma": Part(_ALL, "arithmetic of mma.sync and mma.sp: every type, with subnormals, infinities, NaN, cancellation", mma_cases),
    "wgmma": Part(("sm_90a",), "arithmetic of wgmma: every type, dense and sparse", wgmma_arithmetic),
    "wgmma-layouts": Part(("sm_90a",), "descriptors of wgmma: swizzling modes, byte offsets, majors", wgmma_layouts),
    "tcgen05": Part(_TENSOR, "arithmetic of tcgen05.mma: every kind, dense and sparse, block scaling, CTA pairs", tcgen05_arithmetic),
    "tcgen05-layouts": Part(_TENSOR, "descriptors of tcgen05.mma: swizzling modes, byte offsets, majors", tcgen05_layouts),
    "collector": Part(_TENSOR, "collector buffers of tcgen05.mma", tcgen05_collector),
    "tensor-memory": Part(_TENSOR, "tcgen05.ld, st, cp and shift in every shape", tensor_memory),
    "approximate": Part(_ALL, "the approximate instructions: chosen operands, and sums over all operands", approximate),
    "tma": Part(_ALL, "tensor copies: tiles, im2col, swizzling, fill, reductions, multicast; the bytes of tensor maps", tma),
    "cuda": Part(_ALL, "whole kernels in CUDA C++, whose sources are there too: GEMMs fed by tensor copies, softmax, selection", cuda),
    "timing": Part(_ALL, "cycles of matrix instructions, for information", timing),
    "faults": Part(_ALL, "alignment and errors: each kernel in a process of its own", faults),
}
"""The parts in the order in which they run."""


def parts_of(target: str) -> tuple[str, ...]:
    """The parts that a target has."""
    return tuple(name for name, part in PARTS.items() if target in part.targets)


def cases_of(target: str, parts: Iterable[str]) -> Iterator[tuple[str, str, Case]]:
    """Name, part and case of everything in some parts."""
    for part in parts:
        for case in PARTS[part].make(target):
            yield f"{part}: {case.name}", part, case


def write_kit(target: str, folder: Path, parts: Iterable[str] = ()) -> dict[str, int]:
    """Write a kit into a folder; how many kernels each part has.

    Parameters
    ----------
    target : one of `TARGETS`
    folder : is made if it does not exist; files of an earlier kit are replaced
    parts : of `parts_of`; empty: all
    """
    chosen = tuple(parts) or parts_of(target)
    files: dict[str, bytes] = {"record.py": Path(__file__).with_name("_record.py").read_bytes()}
    kernels: dict[str, str] = {}
    pool, places = bytearray(), dict[bytes, tuple[int, int]]()
    cases, counts = {}, dict.fromkeys(chosen, 0)
    for name, part, case in cases_of(target, chosen):
        counts[part] += 1
        if case.text not in kernels:
            kernels[case.text] = f"kernels/{part}-{counts[part]:03}.ptx"
            files[kernels[case.text]] = case.text.encode()
        files |= {f"kernels/{path.name}": path.read_bytes() for path in case.sources}
        held = []
        for array in case.inputs:
            raw = array.data.tobytes()
            if raw not in places:
                places[raw] = len(pool), len(raw)
                pool += raw
            held.append(places[raw])
        cases[name] = {
            "part": part,
            "kernel": kernels[case.text],
            "entry": case.entry,
            "grid": case.grid,
            "block": case.block,
            "shared_bytes": case.shared_bytes,
            "inputs": held,
            "outputs": [array.data.nbytes for array in case.outputs],
            "maps": [[each.array, each.shown] for each in case.maps],
            "kernel_hash": case.kernel_hash,
            "inputs_hash": case.inputs_hash,
            "alone": case.kind == "fault",
        }
    files["inputs.bin"] = bytes(pool)
    files["README.md"] = _readme(target, counts).encode()
    manifest = {
        "kit": KIT,
        "ptxlab": __version__,
        "target": target,
        "compute_capability": TARGETS[target].capability,
        "parts": chosen,
        "seconds": SECONDS,
        "seconds_of_a_launch": SECONDS_OF_A_LAUNCH,
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in files.items()},
        "cases": cases,
    }
    (folder / "kernels").mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1))
    return counts


def _readme(target: str, counts: Mapping[str, int]) -> str:
    parts = "\n".join(f"| {name} | {count} | {PARTS[name].purpose} |" for name, count in counts.items())
    about = TARGETS[target]
    major, minor = about.capability
    return f"""# Kernels of ptxlab for {target}

ptxlab runs PTX on a computer without a GPU. Whether its bits are those of a GPU is known only where somebody has compared them.
This folder has kernels for GPUs of compute capability {major}.{minor} ({about.gpus}), and a script that runs them and writes one file.

    python3 record.py

- It needs Linux, Python 3.8 or newer and the driver (`libcuda.so.1`), CUDA {about.cuda} or newer. Nothing is installed.
- It takes a few minutes, and ends after ten. Use a GPU that nothing else uses; `CUDA_VISIBLE_DEVICES` chooses one of several.
- After each part it writes the file anew: an interrupted run leaves what is done.
- It writes `results-{target}.zip` into this folder, and nothing elsewhere. Nothing is sent: send the file yourself.
- The file has the outputs of the kernels, the name and the clocks of the GPU, the versions of driver, Python and operating system.
- A kernel that does not end is stopped after {SECONDS_OF_A_LAUNCH} seconds. Kernels of the part `faults` end with errors: that is what they
  are for. The driver may write lines about them into the log of the system (Xid).
- `python3 record.py --parts mma,timing` runs some parts only.

| part | kernels | what is recorded |
|---|---|---|
{parts}

`manifest.json` has the hash of every file. `kernels/` has the PTX, with the CUDA C++ that some of it was compiled from, `inputs.bin`
the inputs. The same version of ptxlab writes the same bytes.

With the file, `ptxlab import-records results-{target}.zip` shows where ptxlab and the GPU differ.
"""
