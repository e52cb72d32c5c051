"""A driver for ``record.py --driver``: ptxlab executes the kernels. ``FAKE_*`` in the environment makes it another GPU, or a bad one."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

import ptxlab
from __main__ import CudaError  # type: ignore[attr-defined]


class Driver:
    """What `Driver` of ``record.py`` is for a GPU."""

    def __init__(self) -> None:
        if "FAKE_NONE" in os.environ:
            raise CudaError("CUDA_ERROR_NO_DEVICE")

    def describe(self) -> dict[str, Any]:
        major, minor = map(int, os.environ.get("FAKE_CAPABILITY", "9.0").split("."))
        return {"gpu": "NVIDIA Nothing", "driver": "1.2", "cuda": 13000, "major": major, "minor": minor}

    def run(self, text: bytes, case: dict[str, Any], inputs: list[bytes]) -> list[bytes]:
        if case["kernel"] == os.environ.get("FAKE_HANG"):
            time.sleep(600)
        if case["kernel"] == os.environ.get("FAKE_CRASH"):
            os._exit(11)
        outputs = [np.zeros(size, np.uint8) for size in case["outputs"]]
        kernel = ptxlab.loads(text.decode())["k"]
        args = [*(np.frombuffer(data, np.uint8).copy() for data in inputs), *outputs]
        result = kernel.launch(grid=case["grid"], block=case["block"], shared_bytes=case["shared_bytes"], args=args)
        if not result.ok:
            raise CudaError(f"CUDA_ERROR_{result.diagnostics[0].code}")
        return [output.tobytes() for output in outputs]
