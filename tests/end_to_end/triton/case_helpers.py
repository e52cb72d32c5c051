"""What a test needs to launch one kernel and to judge its results."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ptxlab

HERE = Path(__file__).resolve().parent
SM90 = HERE.parent / "triton_sm90"
SWIZZLES = ("none", "32B", "64B", "128B")

Array = NDArray[Any]


def for_hopper(name: str) -> bool:
    """Whether a kernel is compiled for sm_90a; those for sm_100a are in this folder."""
    return name.startswith("sm90_")


@cache
def launch_info(folder: Path = HERE) -> dict[str, Any]:
    """launch.json: what the compiler said about each kernel."""
    info: dict[str, Any] = json.loads((folder / "launch.json").read_text())
    return info


def first_of_each_function(folder: Path = HERE) -> list[str]:
    """The first kernel of each function of the sources."""
    names = {info["entry"]: name for name, info in reversed(launch_info(folder).items())}
    return [name for name in launch_info(folder) if name in names.values()]


def info_of(name: str) -> dict[str, Any]:
    """What the compiler said about one kernel."""
    info: dict[str, Any] = launch_info(SM90 if for_hopper(name) else HERE)[name]
    return info


@cache
def kernel(name: str) -> Any:
    """One kernel, loaded once."""
    return ptxlab.load((SM90 if for_hopper(name) else HERE) / f"{name}.ptx").kernel()


@dataclass
class Expected:
    """Bits that a result must have, a float64 value that it must be near, or both."""

    bits: Array | None = None
    near: NDArray[np.float64] | None = None
    atol: NDArray[np.float64] | float = 0.0

    def compare(self, name: str, found: Array) -> None:
        if self.bits is not None:
            assert found.dtype.itemsize == self.bits.dtype.itemsize, f"{name}: {found.dtype} against {self.bits.dtype}"
            word = np.dtype(f"u{found.dtype.itemsize}")
            wrong = np.argwhere(found.view(word) != self.bits.view(word))
            first = tuple(wrong[0]) if len(wrong) else ()
            assert not len(wrong), (
                f"{name}: {len(wrong)} of {found.size} elements differ in bits; first at {first}: "
                f"{found[first]!r}, expected {self.bits[first]!r}"
            )
        if self.near is not None:
            value = found.astype(np.float64)
            with np.errstate(invalid="ignore"):
                error = np.where(value == self.near, 0, np.abs(value - self.near))
            limit = np.broadcast_to(np.asarray(self.atol, np.float64), error.shape)
            worst = np.unravel_index(np.argmax(error - limit), error.shape)
            assert (error <= limit).all(), f"{name}: off by {error[worst]} at {worst}, allowed {limit[worst]}"


@dataclass
class Case:
    """One launch: the kernel, its geometry in programs, its arguments and what must come out."""

    name: str
    programs: tuple[int, ...]
    args: list[Any]
    expected: dict[str, Expected]
    outputs: dict[str, Array] = field(default_factory=dict)
    order_dependent: bool = False
    """Several agents add to the same place: a note about the order is no finding."""

    def geometry(self) -> dict[str, Any]:
        info = info_of(self.name)
        cluster = info["cluster"]
        grid = tuple(p * c for p, c in zip((*self.programs, 1, 1)[:3], cluster, strict=True))
        return {
            "grid": grid,
            "block": tuple(info["block"]),
            "cluster": tuple(cluster),
            "shared_bytes": info["shared_bytes"],
        }

    def scratch(self) -> list[Any]:
        """Triton's two trailing pointers: global scratch, profile scratch."""
        size = info_of(self.name)["global_scratch_bytes_per_program"]
        return [np.zeros(size * int(np.prod(self.programs)), np.uint8) if size else None, None]

    def launch(self, **options: Any) -> tuple[Any, dict[str, Array]]:
        """Launch; the result, and copies of the outputs, which start from the same values each time."""
        before = {name: array.copy() for name, array in self.outputs.items()}
        result = kernel(self.name).launch(**self.geometry(), args=[*self.args, *self.scratch()], **options)
        after = {name: array.copy() for name, array in self.outputs.items()}
        for name, array in self.outputs.items():
            array[...] = before[name]
        return result, after

    def check(self, found: dict[str, Array]) -> None:
        """Compare every output; `name/3` means row 3 of the output `name`."""
        for name, expected in self.expected.items():
            array, _, row = name.partition("/")
            expected.compare(name, found[array][int(row)] if row else found[array])


def descriptor(name: str, index: int, array: Array, dtype: str | None = None) -> list[Any]:
    """A tensor map of the box and swizzle in launch.json, then its dims (outermost first) and strides in elements."""
    info = info_of(name)["tensor_maps"][index]
    box = tuple(reversed(info["block_size"]))
    tensor_map = ptxlab.TensorMap(array, box=box, swizzle=SWIZZLES[info["swizzle"]], dtype=dtype)
    strides = [s // array.itemsize for s in array.strides]
    return [tensor_map, *array.shape, *strides]


def descriptors(name: str, *arrays: Array) -> list[Any]:
    """The arguments of several descriptors in a row."""
    return [argument for index, array in enumerate(arrays) for argument in descriptor(name, index, array)]


@dataclass(frozen=True)
class Family:
    """The cases of one kernel: a function of the size, and the sizes; the first one is the smallest."""

    make: Callable[..., Case]
    sizes: dict[str, dict[str, Any]]

    def __call__(self, size: str) -> Case:
        return self.make(**self.sizes[size])


def cdiv(a: int, b: int) -> int:
    return -(-a // b)


def padded(array: Array, multiples: Sequence[int]) -> Array:
    """The array with zeros up to a multiple in each dimension."""
    return np.pad(array, [(0, -n % m) for n, m in zip(array.shape, multiples, strict=True)])
