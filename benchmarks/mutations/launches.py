"""A launch as a test makes it, taken from the test: it can be repeated with other options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

import ptxlab

__all__ = ["Captured", "captured"]

Arrays = dict[str, NDArray[Any]]
_OURS = frozenset({"check", "policy", "seed", "model", "max_instructions"})


@dataclass(frozen=True)
class Captured:
    """What a test called ``launch`` of, and with what. The arrays start from the same values each time."""

    target: Any
    given: tuple[Any, ...]
    options: dict[str, Any]

    @property
    def kernel(self) -> Any:
        """The kernel that is launched."""
        return self.target if isinstance(self.target, ptxlab.Kernel) else self.target.module.kernel()

    @property
    def _launched(self) -> Callable[..., Any]:
        """``ptxlab.Kernel.launch`` of this kernel, also where a host function launches what the driver has loaded from the same PTX."""
        launch, own = ptxlab.Kernel.launch, self.kernel

        def of_own(kernel: ptxlab.Kernel, *given: Any, **options: Any) -> Any:
            return launch(own if kernel.name == own.name else kernel, *given, **options)

        return of_own

    @property
    def _arrays(self) -> list[NDArray[Any]]:
        return [value for value in (*self.given, *self.options.get("args", ())) if isinstance(value, np.ndarray)]

    def launch(self, **options: Any) -> tuple[Any, Arrays]:
        """Launch; the result, and copies of all arrays."""
        own = dict(self.options)
        device = own.get("device")
        if device is not None:
            own["device"] = ptxlab.Device(device.target, sms=device.sms, ctas_per_sm=device.ctas_per_sm)
        before = [array.copy() for array in self._arrays]
        with patch.object(ptxlab.Kernel, "launch", self._launched):
            result = self.target.launch(*self.given, **own, **options)
        after = {str(number): array.copy() for number, array in enumerate(self._arrays)}
        for array, values in zip(self._arrays, before, strict=True):
            array[...] = values
        return result, after


class _Taken(BaseException):
    def __init__(self, launch: Captured) -> None:
        self.launch = launch


def captured(owner: type, test: Callable[..., object], *arguments: Any) -> Captured:
    """The first launch of a test, which goes no further. ``owner``: the class whose ``launch`` it calls."""

    def take(target: Any, *given: Any, **options: Any) -> None:
        raise _Taken(Captured(target, given, {name: value for name, value in options.items() if name not in _OURS}))

    with patch.object(owner, "launch", take):
        try:
            test(*arguments)
        except _Taken as taken:
            return taken.launch
    raise ValueError(f"{test} launches nothing")
