"""The last line of each example: the largest difference from float64, and whether it is within the tolerance."""

from __future__ import annotations

from typing import Any

import torch


def differs(name: str, found: Any, exact: Any, tolerance: float) -> int:
    """Print the largest absolute difference; 1 if it is larger than the tolerance, else 0."""
    worst = (found.to(torch.float64) - exact).abs().max().item()
    good = worst <= tolerance
    print(
        f"{name}: {'x'.join(map(str, found.shape))}, largest difference {worst:.2e} (allowed {tolerance:.0e}): {'ok' if good else 'WRONG'}"
    )
    return 0 if good else 1
