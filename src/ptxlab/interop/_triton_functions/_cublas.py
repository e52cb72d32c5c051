"""Triton's binding of cuBLAS without cuBLAS: programs compare their kernels with it, so torch computes the products in float32."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import NDArray
from triton._C.libtriton import nvidia

from ptxlab.formats import decode, unpack
from ptxlab.interop.session import replace_attribute
from ptxlab.layout import scale_factor_offset

__all__ = ["change"]


class CublasLt:
    """The methods of `triton._C.libtriton.nvidia.cublas.CublasLt` on CPU tensors; B is stored as N x K."""

    def __init__(self, workspace: Any) -> None:
        pass

    def matmul(self, a: Any, b: Any, c: Any) -> None:
        """C = A B^T."""
        c.copy_(a.float() @ b.float().T)

    def gemm(self, a: Any, b: Any, c: Any, d: Any, alpha: float, beta: float) -> None:
        """D = alpha A B^T + beta C."""
        d.copy_(alpha * (a.float() @ b.float().T) + beta * c.float())

    def block_scaled_matmul_mxfp8(self, a: Any, b: Any, output: Any, scale_a: Any, scale_b: Any) -> None:
        """Multiply e4m3 elements with a ue8m0 scale factor for each 32 of a row."""
        self.matmul(_scaled(a, scale_a, "e4m3", "ue8m0", 32), _scaled(b, scale_b, "e4m3", "ue8m0", 32), output)

    def block_scaled_matmul_nvfp4(self, a: Any, b: Any, output: Any, scale_a: Any, scale_b: Any) -> None:
        """Multiply packed e2m1 elements with a ue4m3 scale factor for each 16 of a row."""
        self.matmul(_scaled(a, scale_a, "e2m1", "ue4m3", 16), _scaled(b, scale_b, "e2m1", "ue4m3", 16), output)


def _scaled(matrix: Any, scales: Any, element: str, scale: str, block: int) -> Any:
    """The values of a matrix with its scale factors, as a float32 tensor."""
    import torch

    values = decode(unpack(_bytes(matrix), element), element)
    places = scale_factor_offset(values.shape[0], values.shape[1] // block)
    factors = decode(_bytes(scales).reshape(-1)[places], scale)
    return torch.from_numpy(values * factors.repeat(block, axis=1)).to(matrix.device)


def _bytes(tensor: Any) -> NDArray[np.uint8]:
    import torch

    found: NDArray[np.uint8] = tensor.contiguous().view(torch.uint8).cpu().numpy()
    return found


def change(stack: ExitStack) -> None:
    """Replace Triton's class until the stack is closed."""
    replace_attribute(stack, nvidia.cublas, "CublasLt", CublasLt)
