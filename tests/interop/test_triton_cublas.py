"""Triton's binding of cuBLAS, with which programs compare their kernels: on integers and powers of two every product is exact."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from triton._C.libtriton import nvidia  # noqa: E402

import ptxlab.interop.triton  # noqa: E402

pytestmark = [pytest.mark.compiler, pytest.mark.usefixtures("session")]


@pytest.fixture
def session() -> Iterator[None]:
    binding = nvidia.cublas.CublasLt
    with ptxlab.interop.triton.device("sm_100a"):
        yield
    assert nvidia.cublas.CublasLt is binding


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float8_e4m3fn])
def test_products(dtype: torch.dtype) -> None:
    a, b = (np.random.default_rng(7).integers(-4, 5, (rows, 40)) for rows in (24, 16))
    out = torch.empty(24, 16)
    nvidia.cublas.CublasLt(torch.empty(1024, dtype=torch.uint8)).matmul(torch.tensor(a).to(dtype), torch.tensor(b).to(dtype), out)
    assert np.array_equal(out.numpy(), a @ b.T)


def test_a_product_with_another_matrix_added() -> None:
    a, b, c = (np.random.default_rng(8).integers(-4, 5, shape) for shape in ((24, 40), (16, 40), (24, 16)))
    out = torch.empty(24, 16, dtype=torch.float16)
    nvidia.cublas.CublasLt(None).gemm(*(torch.tensor(x).half() for x in (a, b, c)), out, 2.0, -1.0)
    assert np.array_equal(out.numpy(), 2 * a @ b.T - c)


@pytest.mark.parametrize(
    ("method", "block", "ones", "element", "scales", "scale"),
    [
        ("mxfp8", 32, np.full(256, 0x38, np.uint8), torch.float8_e4m3fn, [126, 127, 128], torch.uint8),
        ("nvfp4", 16, np.full(64, 0x22, np.uint8), torch.uint8, [0x30, 0x38, 0x40], torch.float8_e4m3fn),
    ],
)
def test_block_scaled_products(
    method: str, block: int, ones: np.ndarray, element: torch.dtype, scales: list[int], scale: torch.dtype
) -> None:
    """Elements are 1, scale factors 1/2, 1 or 2; these lie in tiles of 128 rows x 4, stored as 32 x 4 x 4."""
    m, n = 256, 128
    a, b = (torch.tensor(np.tile(ones, (rows, 1))).view(element) for rows in (m, n))
    chosen = [np.random.default_rng(rows).integers(0, 3, (rows // 128, 2, 32, 4, 4)) for rows in (m, n)]
    codes = [torch.tensor(np.array(scales, np.uint8)[c]).flatten().view(scale) for c in chosen]
    out = torch.empty(m, n, dtype=torch.float16)
    getattr(nvidia.cublas.CublasLt(None), f"block_scaled_matmul_{method}")(a, b, out, *codes)
    factors = [2.0 ** (c.transpose(0, 3, 2, 1, 4).reshape(-1, 8) - 1) for c in chosen]
    assert np.array_equal(out.numpy(), block * factors[0] @ factors[1].T)
