"""Where a launch stands below the roofs of its target: operations of products and bytes of memory beside the peaks."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Position", "TensorUse"]


@dataclass(frozen=True, slots=True)
class TensorUse:
    """Products of one rate.

    Attributes
    ----------
    rate : element types, and ``sparse`` before them if A is
    operations : multiplications and additions of the grid; of sparse products as if they were dense
    peak : the same in a cycle of the device at most
    """

    rate: str
    operations: float
    peak: float

    @property
    def cycles(self) -> float:
        """What they would take at the peak."""
        return self.operations / self.peak


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a launch in the roofline model.

    Attributes
    ----------
    tensor : its products by rate
    cycles : its estimated time
    dram_bytes, l2_bytes : that it moves by the estimate
    dram_rate, l2_rate : bytes in a cycle at most

    Examples
    --------
    >>> found = Position((TensorUse("f16", 8e6, 4000.0), TensorUse("f8", 8e6, 8000.0)), 4000.0, 40_000.0, 80_000.0, 20.0, 50.0)
    >>> found.intensity, round(found.ridge, 1), found.roof, round(found.attainable), found.achieved, found.fractions
    (400.0, 266.7, 'tensor core', 5333, 4000.0, {'f16': 0.5, 'f8': 0.25})
    """

    tensor: tuple[TensorUse, ...]
    cycles: float
    dram_bytes: float
    l2_bytes: float
    dram_rate: float
    l2_rate: float

    @property
    def operations(self) -> float:
        """Of all products."""
        return sum(each.operations for each in self.tensor)

    @property
    def peak(self) -> float:
        """Operations in a cycle at most, with these parts of each rate; 0 without products."""
        cycles = sum(each.cycles for each in self.tensor)
        return self.operations / cycles if cycles else 0.0

    @property
    def achieved(self) -> float:
        """Operations in a cycle."""
        return self.operations / self.cycles

    @property
    def intensity(self) -> float | None:
        """Operations for each byte of DRAM; None if no byte comes from there."""
        return self.operations / self.dram_bytes if self.dram_bytes else None

    @property
    def ridge(self) -> float:
        """The intensity above which DRAM is no longer the limit."""
        return self.peak / self.dram_rate

    @property
    def times(self) -> dict[str, float]:
        """Cycles that each resource would need alone."""
        return {
            "tensor core": sum(each.cycles for each in self.tensor),
            "DRAM": self.dram_bytes / self.dram_rate,
            "L2": self.l2_bytes / self.l2_rate,
        }

    @property
    def roof(self) -> str:
        """The resource that would need the most time alone."""
        return max(self.times, key=lambda name: self.times[name])

    @property
    def attainable(self) -> float:
        """Operations in a cycle below that roof."""
        return self.operations / (max(self.times.values()) or 1.0)

    @property
    def fractions(self) -> dict[str, float]:
        """Of the peak of each rate what the launch reaches."""
        return {each.rate: each.operations / self.cycles / each.peak for each in self.tensor}

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; rates are those of a cycle of the device."""
        return {
            "roof": self.roof,
            "operations": round(self.operations),
            "dram_bytes": round(self.dram_bytes),
            "l2_bytes": round(self.l2_bytes),
            "operations_per_dram_byte": None if self.intensity is None else round(self.intensity, 3),
            "ridge": round(self.ridge, 3),
            "achieved": round(self.achieved, 1),
            "attainable": round(self.attainable, 1),
            "peak": round(self.peak, 1),
            "tensor": [asdict(each) | {"fraction_of_peak": round(self.fractions[each.rate], 4)} for each in self.tensor],
        }
