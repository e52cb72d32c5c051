"""Triton's backend entry point, compiler half: NVIDIA's pipeline up to the PTX, which is what this device executes."""

from __future__ import annotations

from typing import Any

from triton.backends.compiler import GPUTarget
from triton.backends.nvidia import compiler as nvidia

from ptxlab.interop.triton._arrays import source_file

__all__ = ["PtxBackend"]


class PtxBackend(nvidia.CUDABackend):  # type: ignore[misc]
    """Everything as for an NVIDIA device, but the assembler is not needed: the binary is the PTX.

    Triton asks every backend that it knows for every target, so this one supports none until it replaces NVIDIA's (`runtime`).
    """

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        return False

    def make_cubin(self, src: str, metadata: Any, opt: Any, capability: int) -> bytes:
        return src.encode()

    def hash(self) -> str:
        return f"ptxlab-{self.target.arch}-{source_file.get()}"
