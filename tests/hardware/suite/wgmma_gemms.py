"""wgmma GEMMs in each type: the kernels of ``tests/end_to_end/cuda/wgmma_gemm.cu``."""

from __future__ import annotations

from tests.end_to_end.cuda.wgmma_cases import FOLDER, SOURCE, TILES, gemms
from tests.hardware.suite._kernel import Kernel


def _text() -> str:
    """The source with its header inside."""
    header = (FOLDER / "wgmma.cuh").read_text().replace("#pragma once\n", "")
    return SOURCE.read_text().replace('#include "wgmma.cuh"\n', header)


def kernels() -> list[Kernel]:
    text = _text()
    return [Kernel(g.name, text, tuple(g.arguments()), grid=TILES, block=256, results=(2,), entry=g.name, cuda=True) for g in gemms()]
