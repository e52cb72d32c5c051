"""Replay bundles: one zip file with everything that a launch was started with.

``manifest.json`` says how to launch, ``kernel.ptx`` is the module's text, ``memory/*.npy`` are the bytes of the device's allocations, and
``expected/*.npy`` what arrays should hold afterwards.
"""

from __future__ import annotations

import json
import os
import platform
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import asdict
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.diagnostics import PtxlabError, diagnose
from ptxlab.formats import bytes_of
from ptxlab.machine._device import Device
from ptxlab.machine._module import Kernel, loads
from ptxlab.machine.launch.configuration import LaunchConfiguration
from ptxlab.machine.launch.options import LaunchOptions, refuse
from ptxlab.machine.memory.elements import ArrayPlace
from ptxlab.machine.memory.global_memory import Allocation, DeviceMemory
from ptxlab.machine.memory.mirror import DeviceMirror, Origin
from ptxlab.machine.replay.replay import Expectation, Placed, Replay

__all__ = ["is_bundle", "read_bundle", "write_bundle"]

FORMAT = 1
_NOT_KEPT = ("trace", "keep_inputs", "workers")
_MANIFEST, _PTX = "manifest.json", "kernel.ptx"
_MOST_BYTES = 8 << 30
_PACKAGES = ("ptxlab", "numpy", "llvmlite", "ml_dtypes")
_UNREADABLE = (OSError, EOFError, RuntimeError, NotImplementedError, ValueError, MemoryError, zipfile.BadZipFile, zlib.error)


def write_bundle(path: str | os.PathLike[str], replay: Replay) -> None:
    """Write a launch to a file; the same launch gives the same bytes."""
    live = [a for a in replay.memory.live() if a.size]
    manifest = {
        "bundle": FORMAT,
        "versions": _versions(),
        "file": Path(replay.kernel.module.ast.file).name,
        "kernel": replay.kernel.name,
        "options": _launch_arguments(replay.options),
        "device": dict(zip(("target", "sms", "ctas_per_sm", "launches"), replay.device, strict=True)),
        "parameters": replay.parameters.hex(),
        "variables": replay.variables,
        "memory": [_memory_row(a) for a in live],
        "arrays": [_row(placed) for placed in replay.arrays],
        "expectations": [_expectation_row(expectation) for expectation in replay.expectations],
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_entry(_MANIFEST), json.dumps(manifest, indent=1))
        archive.writestr(_entry(_PTX), replay.kernel.module.ast.text)
        for i, allocation in enumerate(live):
            with archive.open(_entry(f"memory/{i}.npy"), "w", force_zip64=True) as file:
                np.lib.format.write_array(file, allocation.data)
        for i, mirror in enumerate(a.mirror for a in live if a.mirror is not None):
            with archive.open(_entry(f"undefined/{i}.npy"), "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.concatenate([mirror.bits, mirror.numbers.astype("<u4").view(np.uint8)]))
        for i, expectation in enumerate(replay.expectations):
            with archive.open(_entry(f"expected/{i}.npy"), "w", force_zip64=True) as file:
                np.lib.format.write_array(file, bytes_of(expectation.value))


def _entry(name: str) -> zipfile.ZipInfo:
    made = zipfile.ZipInfo(name)
    made.compress_type = zipfile.ZIP_DEFLATED
    return made


def _versions() -> dict[str, str]:
    # It imports a great deal, and every launch imports this module.
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _launch_arguments(options: LaunchConfiguration) -> dict[str, Any]:
    """Return the options as `Kernel.launch` takes them, without those that only concern the process that launched."""
    kept = {name: value for name, value in options.keywords().items() if name not in _NOT_KEPT}
    geometry = {"grid": options.grid, "block": options.block, "cluster": options.cluster if options.explicit_cluster else None}
    return {**geometry, "shared_bytes": options.shared_bytes, **kept, "check": sorted(options.checks)}


def _memory_row(allocation: Allocation) -> dict[str, Any]:
    """An allocation; where it has undefined bits, ``undefined/*.npy`` holds them and then the numbers of their origins."""
    row: dict[str, Any] = {"address": allocation.base, "name": allocation.name, "writable": allocation.writable}
    row["copied_back"] = allocation.copied_back
    row["arrays"] = [asdict(array) for array in allocation.arrays]
    if allocation.mirror is not None:
        row["origins"] = [[(origin.text, origin.fix, origin.unwritten) for origin in each] for each in allocation.mirror.origins]
    return row


def _row(placed: Placed) -> dict[str, Any]:
    return {
        "name": placed.name,
        "address": placed.address,
        "shape": placed.shape,
        "dtype": _dtype_name(placed.dtype),
        "strides": placed.strides,
    }


def _expectation_row(expected: Expectation) -> dict[str, Any]:
    about = {"shape": expected.value.shape, "dtype": _dtype_name(expected.value.dtype)}
    return {"name": expected.name, "rtol": expected.rtol, "atol": expected.atol, "exact": expected.exact} | about


def _dtype_name(dtype: np.dtype[Any]) -> str:
    return dtype.name if dtype.isbuiltin == 2 else dtype.str


def is_bundle(path: str | os.PathLike[str]) -> bool:
    """Whether a file is meant as a bundle: by its name, or by how it begins."""
    if Path(path).suffix == ".ptxlab":
        return True
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"PK\3\4"
    except OSError:
        return False


def read_bundle(path: str | os.PathLike[str]) -> Replay:
    """Read a launch from a file that `Result.save_bundle` or ``ptxlab run --bundle`` has written.

    Parameters
    ----------
    path : the file

    Returns
    -------
    Replay
        ``run()`` runs it: the result, and the device memory afterwards; ``provenance(name, index)`` says who writes an element

    Raises
    ------
    LaunchError
        F107 if the file cannot be read, F108 if what it holds is no launch; others as `Kernel.launch`
    PtxSyntaxError
        if its text is not PTX

    Examples
    --------
    >>> replay = read_bundle("bug.ptxlab")                                              # doctest: +SKIP
    >>> result, memory = replay.run()                                                   # doctest: +SKIP
    >>> print(replay.provenance("C", (3, 5)))                                           # doctest: +SKIP
    """
    name = os.fspath(path)
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > _MOST_BYTES:
                raise refuse("F107", f"{name}: it holds more than {_MOST_BYTES} bytes")
            manifest = json.loads(archive.read(_MANIFEST))
            text = archive.read(_PTX).decode()
            memory, undefined, expected = (_arrays(archive, folder) for folder in ("memory", "undefined", "expected"))
    except KeyError as error:
        raise refuse("F107", f"{name}: {error.args[0]}", fix=_MAKE) from None
    except _UNREADABLE as error:
        raise refuse("F107", f"{name}: {getattr(error, 'strerror', None) or error}", fix=_MAKE) from None
    if not isinstance(manifest, dict) or manifest.get("bundle") != FORMAT:
        raise refuse("F107", f"{name}: its manifest is not of a bundle of format {FORMAT}", fix="read it with the version that wrote it")
    return _Reader(name, manifest).replay(text, memory, undefined, expected)


_MAKE = "write it again: result.save_bundle(path), or ptxlab run --bundle"


def _arrays(archive: zipfile.ZipFile, folder: str) -> list[NDArray[np.uint8]]:
    """The bytes that a folder holds, ``0.npy`` and so on."""
    count = sum(entry.filename.startswith(f"{folder}/") for entry in archive.infolist())
    return [_array(archive, f"{folder}/{i}.npy") for i in range(count)]


def _array(archive: zipfile.ZipFile, name: str) -> NDArray[np.uint8]:
    with archive.open(name) as file:
        found = np.lib.format.read_array(file, allow_pickle=False)
    if found.dtype != np.uint8 or found.ndim != 1:
        raise ValueError(f"{name} holds no plain bytes")
    return found


@dataclass(frozen=True, slots=True)
class _Reader:
    """Makes a launch from a manifest; every error names the file and the key."""

    name: str
    manifest: dict[str, Any]

    def replay(
        self, text: str, data: list[NDArray[np.uint8]], undefined: list[NDArray[np.uint8]], expected: list[NDArray[np.uint8]]
    ) -> Replay:
        module = loads(text, file=self.take("file", str))
        kernel = module[self.take("kernel", str)]
        options = self.made("options", lambda given: _configuration(kernel, **given))
        device = self.made("device", lambda given: (given["target"], given["sms"], given["ctas_per_sm"], int(given["launches"])))
        module.check_target(self.made("device", lambda _: Device(*device[:3])))
        parameters = self.made("parameters", bytes.fromhex)
        if len(parameters) != kernel.program.param_bytes:
            self.refuse("parameters", f"{len(parameters)} bytes for parameters of {kernel.program.param_bytes} bytes")
        variables = self.made("variables", lambda given: {str(k): int(v) for k, v in given.items()})
        if missing := set(kernel.program.symbols) - set(variables):
            self.refuse("variables", f"no address for {min(missing)}")
        memory = self.made("memory", lambda rows: _memory(rows, data, undefined))
        arrays = self.made("arrays", lambda rows: tuple(_placed(row, memory) for row in rows))
        expectations = self.made("expectations", lambda rows: _expectations(rows, expected, arrays))
        return Replay(kernel, options, parameters, memory, variables, device, arrays, expectations)

    def take(self, key: str, kind: type) -> Any:
        found = self.manifest.get(key)
        if not isinstance(found, kind):
            self.refuse(key, "missing, or of the wrong type")
        return found

    def made(self, key: str, make: Callable[[Any], Any]) -> Any:
        """Return what ``make`` returns for the value of a key; an error names the key."""
        try:
            return make(self.manifest[key])
        except PtxlabError:
            raise
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
            self.refuse(key, f"{type(error).__name__}: {error}")

    def refuse(self, key: str, why: str) -> Any:
        raise refuse("F108", f"{self.name}: {key} of the manifest: {why}", fix=_MAKE)


def _configuration(kernel: Kernel, *, grid: Any, block: Any, cluster: Any, shared_bytes: Any, **options: Any) -> LaunchConfiguration:
    return LaunchConfiguration.of(kernel.program, LaunchOptions().changed(**options), grid, block, cluster, shared_bytes, None)


def _memory(rows: list[dict[str, Any]], data: list[NDArray[np.uint8]], undefined: list[NDArray[np.uint8]]) -> DeviceMemory:
    made = DeviceMemory()
    mirrors = iter(undefined)
    end = 0
    for row, held in zip(rows, data, strict=True):
        address = int(row["address"])
        if address < end or address + held.size >= 1 << 63:
            raise ValueError(f"the allocation at {address:#x} overlaps another one, or is out of order")
        allocation = made.attach(
            address, held, str(row["name"]), writable=bool(row["writable"]), copied_back=bool(row.get("copied_back", True))
        )
        allocation.arrays = tuple(_array_place(**array) for array in row.get("arrays", ()))
        if "origins" in row:
            allocation.mirror = _mirror(row["origins"], next(mirrors, np.zeros(0, np.uint8)), held.size)
        end = address + held.size
    return made


def _array_place(name: str, address: int, dtype: str, itemsize: int, shape: list[int], strides: list[int]) -> ArrayPlace:
    made = ArrayPlace(str(name), int(address), str(dtype), int(itemsize), tuple(map(int, shape)), tuple(map(int, strides)))
    if len(shape) != len(strides) or min(shape, default=0) < 0:
        raise ValueError(f"{made.name} cannot have the shape {shape} and the strides {strides}")
    return made


def _mirror(origins: list[list[tuple[str, str, bool]]], held: NDArray[np.uint8], size: int) -> DeviceMirror:
    numbers = held[size:].view("<u4").astype(np.uint32)
    if len(numbers) != size or (numbers >= len(origins))[held[:size] != 0].any():
        raise ValueError(f"{len(held)} bytes for the undefined bits of {size} bytes")
    return DeviceMirror(held[:size], numbers, [tuple(_origin(*each) for each in together) for together in origins])


def _origin(text: str, fix: str, unwritten: bool) -> Origin:
    found = diagnose("R808", "the host reads undefined bits", fix=fix, details=(("origin", text),))
    return Origin(text, fix, found, unwritten)


def _placed(row: dict[str, Any], memory: DeviceMemory) -> Placed:
    shape, strides = tuple(map(int, row["shape"])), tuple(map(int, row["strides"]))
    made = Placed(str(row["name"]), int(row["address"]), shape, _dtype(row["dtype"]), strides)
    if min(shape, default=1) < 0 or prod(shape) * max(made.dtype.itemsize, 1) > _MOST_BYTES:
        raise ValueError(f"{made.name} cannot have the shape {list(shape)}")
    if prod(shape) and memory.find(made.address) is None:
        raise ValueError(f"{made.name} lies outside of every allocation")
    made.view(memory)
    return made


def _expectations(rows: list[dict[str, Any]], data: list[NDArray[np.uint8]], arrays: tuple[Placed, ...]) -> tuple[Expectation, ...]:
    shapes = {placed.name: placed.shape for placed in arrays}
    made = []
    for row, held in zip(rows, data, strict=True):
        name, value = str(row["name"]), held.view(_dtype(row["dtype"])).reshape(tuple(map(int, row["shape"])))
        if value.shape != shapes.get(name):
            raise ValueError(f"{name} is no array of the shape {list(value.shape)}")
        made.append(Expectation(name, value, float(row["rtol"]), float(row["atol"]), bool(row["exact"])))
    return tuple(made)


def _dtype(name: str) -> np.dtype[Any]:
    import ml_dtypes  # gives NumPy the names of its types

    found = np.dtype(getattr(ml_dtypes, name, name))
    if found.hasobject:
        raise ValueError(f"{name} is no type of device memory")
    return found
