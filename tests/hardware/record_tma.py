"""Record tensor copies on a GPU: ``python -m tests.hardware record tma`` (needs an sm_90a device and cupy)."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from tests.hardware.tensor_copy_helpers import record, run
from tests.hardware.tma_cases import BUFFER, cases, module


def name(case: np.void) -> str:
    return f"{case['operation'].decode()}_{int(case['rank'])}"


def arguments(case: np.void) -> tuple[Any, ...]:
    return *(np.int32(c) for c in case["coordinates"].tolist()), np.uint32(case["expect"]), np.uint32(case["offset"])


if __name__ == "__main__":
    if sys.argv[1] == "--run":
        run(sys.argv[2], int(sys.argv[3]), sys.argv[4], cases=cases(), name=name, arguments=arguments, buffer=BUFFER)
    else:
        record(sys.argv[1], "tests.hardware.record_tma", module(), cases())
