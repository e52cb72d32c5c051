"""A launch of several CTAs in workers."""

from __future__ import annotations

from typing import Any

import numpy as np

import ptxlab
from tests.machine.launch_helpers import kernel

CTAS = 8


def launch(body: str, workers: int = 2, **options: Any) -> tuple[np.ndarray, ptxlab.Result]:
    out = np.zeros(CTAS * 32, np.uint32)
    return out, kernel(body).launch(grid=CTAS, block=32, args=[out], workers=workers, **options)
