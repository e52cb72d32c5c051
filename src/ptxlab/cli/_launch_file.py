"""What commands launch: launch files and replay bundles.

A launch file is TOML with a kernel, its arguments, the options of the launch, and the expected results.

::

    ptx = "gemm.ptx"                      # or CUDA C++ (.cu), or a binary file that carries PTX
    target = "sm_100a"                    # what CUDA C++ is compiled for, or which PTX to take from a binary file
    kernel = "gemm"                       # may be left out if the module has one entry
    grid = [4, 4, 1]
    block = 128
    shared_bytes = 98352

    [[args]]
    name = "A"
    array = {shape = [512, 512], dtype = "float16", fill = "normal", seed = 1}

    [[arrays]]                            # an array to which no pointer is passed, because a tensor map describes it
    name = "B"
    array = {shape = [512, 512], dtype = "float16", fill = "normal", seed = 2}

    [[args]]
    tensor_map = {array = "B", box = [64, 128], swizzle = "128B"}

    [[args]]
    value = 512
    dtype = "i32"

    [[expect]]
    name = "C"
    matmul = ["A", "B"]
    rtol = 1e-3
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.cli._arrays import MAX_BYTES, ArrayError, dtype_of, generate, read_npy
from ptxlab.diagnostics import Place, PtxlabError, diagnose
from ptxlab.machine import Device, LaunchError, Module, Replay, Result, is_bundle, load, read_bundle
from ptxlab.machine.launch.options import LaunchOptions
from ptxlab.machine.replay.replay import Expectation

__all__ = ["Bundle", "LaunchFile", "LaunchFileError", "Launchable", "read_launch_file", "read_launchable"]

Array = NDArray[Any]

KEYS = {"ptx", "target", "kernel", "grid", "block", "cluster", "shared_bytes", "arrays", "args", "expect", *LaunchOptions.described()}
KINDS = ("array", "npy", "value", "tensor_map", "bytes", "null")
MAP_KEYS = {"array", "swizzle", "dims", "strides", "element_strides", "interleave", "l2_promotion", "oob_fill", "dtype"}
IM2COL_KEYS = {"lower": (list,), "upper": (list,), "channels": (int,), "pixels": (int,)}
EXPECT_KEYS = {"name", "npy", "matmul", "transpose_a", "transpose_b", "equals", "rtol", "atol", "exact"}
SCALARS = {
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
    "f16": "float16", "f32": "float32", "f64": "float64",
}  # fmt: skip
TYPE_NAMES = {int: "a whole number", float: "a number", str: "a text", list: "a list", bool: "true or false", dict: "a table"}
MAX_TEXT = 16 << 20
_CUDA_TARGET = "sm_100a"


class LaunchFileError(PtxlabError):
    """A launch file that cannot be used."""


@dataclass(slots=True)
class LaunchFile:
    """A launch file with its arrays made.

    Attributes
    ----------
    ptx, target, kernel : the file, which of its PTX texts to take or what to compile it for, and which kernel
    geometry : grid, block, cluster and shared_bytes for `Kernel.launch`, as far as the file gives them
    args : the arguments in the order of the parameters
    arrays : the named arrays; they hold the results after a launch that ran to its end
    options : those of the file, until a command changes them
    expectations : what some of the arrays should hold then
    """

    ptx: Path
    target: str | None
    kernel: str | None
    geometry: dict[str, Any]
    args: list[Any]
    arrays: dict[str, Array]
    options: LaunchOptions
    expectations: list[Expectation]

    @property
    def name(self) -> str:
        """The kernel's name, or the file's if it has one kernel."""
        return self.kernel or self.ptx.stem

    @property
    def module(self) -> Module:
        """The module, read from its file."""
        return _module(self.ptx, self.target)

    def launch(self, progress: Callable[[int, int], None] | None = None, device: Device | None = None, *, profile: bool = False) -> Result:
        """Launch the kernel."""
        module = self.module
        kernel = module[self.kernel] if self.kernel else module.kernel()
        given = self.geometry | self.options.keywords()
        return kernel.launch(args=self.args, device=device, progress=progress, profile=profile, **given)

    def prepare(self) -> Replay:
        """Keep the launch without running it."""
        module = _module(self.ptx, self.target)
        kernel = module[self.kernel] if self.kernel else module.kernel()
        return self.named(kernel.prepare(args=self.args, **self.geometry, **self.options.keywords()))

    def named(self, replay: Replay) -> Replay:
        """Return a kept launch with the names and expectations that the file gives its arrays."""
        names = {id(array): name for name, array in self.arrays.items()}
        others = {p.name: f"parameter {p.name}" if p.name in self.arrays else p.name for p in replay.arrays}
        arrays = tuple(replace(p, name=names.get(id(p.host), others[p.name])) for p in replay.arrays)
        return replace(replay, arrays=arrays, expectations=tuple(self.expectations))


def _module(path: Path, target: str | None) -> Module:
    if path.suffix != ".cu":
        return load(path, target=target)
    from ptxlab.interop import nvcc

    return nvcc.compile(path, arch=target or _CUDA_TARGET)


class _Reader:
    """Reads the tables of one file; every error names the file and the key."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.arrays: dict[str, Array] = {}
        self.bytes = 0
        self.line = 1
        self.text = ""

    def refuse(self, code: str, message: str, fix: str = "", line: int = 0, column: int = 1) -> LaunchFileError:
        return LaunchFileError(diagnose(code, message, fix=fix).at(Place(str(self.path), line or self.line, column)))

    def table(self) -> dict[str, Any]:
        try:
            if self.path.stat().st_size > MAX_TEXT:
                raise self.refuse("F101", f"the launch file is larger than {MAX_TEXT} bytes")
            text = self.path.read_text(encoding="utf-8")
        except OSError as error:
            raise self.refuse("F101", f"cannot read the launch file: {error.strerror or error}") from None
        except UnicodeDecodeError as error:
            raise self.refuse("F101", f"the launch file is not UTF-8 text: byte {error.start}") from None
        try:
            self.text = text
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise self.refuse("F102", f"not TOML: {error}", "", getattr(error, "lineno", 1), getattr(error, "colno", 1)) from None
        except (RecursionError, ValueError) as error:
            raise self.refuse("F102", f"not TOML that can be read: {error}") from None

    def tables(self, table: Mapping[str, Any], key: str) -> Iterator[tuple[Any, str]]:
        """Each of the tables ``[[key]]`` and its name for messages; what is refused meanwhile is refused at its line."""
        given = self.expect(table, key, (list,), "launch file", default=[])
        lines = [n for n, line in enumerate(self.text.splitlines(), 1) if line.split("#")[0].split() == [f"[[{key}]]"]]
        for i, each in enumerate(given):
            self.line = lines[i] if len(lines) == len(given) else 1
            yield each, f"{key}[{i}]"
        self.line = 1

    def expect(self, table: Mapping[str, Any], key: str, kinds: tuple[type, ...], where: str, default: Any = None) -> Any:
        value = table.get(key, default)
        if value is None or (isinstance(value, bool) and bool not in kinds) or not isinstance(value, kinds):
            names = " or ".join(TYPE_NAMES[kind] for kind in kinds)
            raise self.refuse("F103", f"{where}: {key} must be {names}, not {'nothing' if value is None else repr(value)}")
        return value

    def options(self, table: Mapping[str, Any]) -> LaunchOptions:
        try:
            return LaunchOptions(**{name: table[name] for name in LaunchOptions.described() if name in table})
        except LaunchError as error:
            raise LaunchFileError(error.diagnostic.at(Place(str(self.path), 1, 1))) from None

    def known(self, table: Mapping[str, Any], keys: set[str], where: str) -> None:
        for key in table:
            if key not in keys:
                raise self.refuse("F103", f"{where}: unknown key {key!r}", fix=f"known keys: {', '.join(sorted(keys))}")

    def keep(self, name: str | None, array: Array) -> Array:
        self.bytes += array.nbytes
        if self.bytes > MAX_BYTES:
            raise ArrayError(f"the arrays together are over the limit of {MAX_BYTES} bytes")
        if name:
            self.arrays[name] = array
        return array

    def name(self, table: Mapping[str, Any], where: str, default: str | None = None) -> str | None:
        """The name that a table gives, None for an empty one; no two arrays have the same."""
        name = self.expect(table, "name", (str,), where, default) or None
        if name in self.arrays:
            raise self.refuse("F103", f"{where}: the name {name!r} is taken")
        return name

    def array(self, table: Any, where: str) -> None:
        """Make an array that is no argument."""
        if not isinstance(table, dict):
            raise self.refuse("F103", f"{where}: must be a table, not {table!r}")
        if len({"array", "npy"} & set(table)) != 1 or not self.name(table, where):
            raise self.refuse("F103", f"{where}: needs a name, and exactly one of array, npy")
        self.argument(table, where)

    def argument(self, table: Any, where: str) -> Any:
        if not isinstance(table, dict):
            raise self.refuse("F103", f"{where}: must be a table, not {table!r}")
        given = [kind for kind in KINDS if kind in table]
        if len(given) != 1:
            raise self.refuse("F103", f"{where}: exactly one of {', '.join(KINDS)} says what it is; found {', '.join(given) or 'none'}")
        (kind,) = given
        self.known(table, {kind, "name", "dtype"} if kind in ("value", "npy") else {kind, "name"}, where)
        name = self.name(table, where, default="")
        try:
            match kind:
                case "array":
                    return self.keep(name, generate(self.expect(table, kind, (dict,), where)))
                case "npy":
                    return self.keep(name, read_npy(self.path.parent / self.expect(table, kind, (str,), where), table.get("dtype")))
                case "value":
                    return self.scalar(table, where)
                case "tensor_map":
                    return self.tensor_map(self.expect(table, kind, (dict,), where), f"{where}: tensor_map")
                case "bytes":
                    return bytes.fromhex(self.expect(table, kind, (str,), where))
                case _:
                    if self.expect(table, kind, (bool,), where) is not True:
                        raise self.refuse("F103", f"{where}: null can only be true")
                    return None
        except ArrayError as error:
            raise self.refuse("F104", f"{where}: {error}") from None
        except ValueError as error:
            raise self.refuse("F103", f"{where}: {error}") from None

    def scalar(self, table: Mapping[str, Any], where: str) -> int | float:
        value: int | float = self.expect(table, "value", (int, float), where)
        name = table.get("dtype")
        if name is None:
            return value
        dtype = dtype_of(SCALARS.get(name, name) if isinstance(name, str) else name)
        if dtype.kind not in "iu":
            return float(value)
        if not isinstance(value, int):
            raise ArrayError(f"value {value} is no whole number, as {name} wants")
        if not np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
            raise ArrayError(f"value {value} does not fit {name}")
        return value

    def tensor_map(self, table: Mapping[str, Any], where: str) -> Any:
        from ptxlab.descriptors import TensorMap, TensorMapError

        im2col = not IM2COL_KEYS.keys().isdisjoint(table)
        needed = IM2COL_KEYS if im2col else {"box": (list,)}
        self.known(table, MAP_KEYS | needed.keys(), where)
        name = self.expect(table, "array", (str,), where)
        for key, kinds in needed.items():
            self.expect(table, key, kinds, where)
        if name not in self.arrays:
            raise self.refuse("F103", f"{where}: no earlier argument and no table of arrays is named {name!r}")
        options: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in table.items() if key != "array"
        }
        try:
            return (TensorMap.im2col if im2col else TensorMap)(self.arrays[name], **options)
        except TensorMapError as error:
            found = error.diagnostic
            raise self.refuse(found.code, f"{where}: {found.message}", found.fix) from None
        except (TypeError, ValueError, OverflowError) as error:
            raise self.refuse("F103", f"{where}: {error}") from None

    def expectation(self, table: Any, where: str) -> Expectation:
        if not isinstance(table, dict):
            raise self.refuse("F103", f"{where}: must be a table, not {table!r}")
        self.known(table, EXPECT_KEYS, where)
        name = self.expect(table, "name", (str,), where)
        if name not in self.arrays:
            raise self.refuse("F103", f"{where}: no argument is named {name!r}")
        sources = [key for key in ("npy", "matmul", "equals") if key in table]
        if len(sources) != 1:
            raise self.refuse("F103", f"{where}: exactly one of npy, matmul, equals says what is expected")
        try:
            value = self.expected(table, sources[0], where)
            self.same_shape(value.shape, name)
        except ArrayError as error:
            raise self.refuse("F104", f"{where}: {error}") from None
        rtol, atol = (float(self.expect(table, key, (int, float), where, default=0.0)) for key in ("rtol", "atol"))
        return Expectation(name, value, rtol, atol, self.expect(table, "exact", (bool,), where, default=False))

    def expected(self, table: Mapping[str, Any], source: str, where: str) -> Array:
        if source == "npy":
            return read_npy(self.path.parent / self.expect(table, source, (str,), where))
        names = [table["equals"]] if source == "equals" else self.expect(table, source, (list,), where)
        if len(names) != (2 if source == "matmul" else 1) or not all(isinstance(n, str) and n in self.arrays for n in names):
            raise self.refuse("F103", f"{where}: {source} must name arrays among the arguments, not {names!r}")
        operands = [self.arrays[n].copy() for n in names]
        if source == "equals":
            return operands[0]
        a, b = (x.astype(np.float64) for x in operands)
        a = a.T if self.expect(table, "transpose_a", (bool,), where, default=False) else a
        b = b.T if self.expect(table, "transpose_b", (bool,), where, default=False) else b
        try:
            if a.ndim > 1 and b.ndim > 1:
                self.same_shape((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]), table["name"])
            return np.asarray(a @ b)
        except ArrayError:
            raise
        except ValueError as error:
            raise ArrayError(f"matmul of shapes {a.shape} and {b.shape}: {error}") from None

    def same_shape(self, shape: tuple[int, ...], name: str) -> None:
        """Refuse an expectation of another shape than the output; a product before it is computed, because it may be very large."""
        if shape != self.arrays[name].shape:
            raise ArrayError(f"the expected shape {shape} is not that of {name!r}, {self.arrays[name].shape}")


def read_launch_file(path: Path) -> LaunchFile:
    """Read a launch file and make its arrays.

    Raises
    ------
    LaunchFileError
        codes F101 to F104, with the key that is wrong; D732 for a tensor map that the driver refuses
    """
    reader = _Reader(path)
    table = reader.table()
    where = "launch file"
    reader.known(table, KEYS, where)
    ptx = path.parent / reader.expect(table, "ptx", (str,), where)
    target, kernel = (reader.expect(table, key, (str,), where, default="") or None for key in ("target", "kernel"))
    extents: dict[str, Any] = {key: reader.expect(table, key, (int, list), where) for key in ("grid", "block", "cluster") if key in table}
    geometry = {key: tuple(value) if isinstance(value, list) else value for key, value in extents.items()}
    geometry["shared_bytes"] = reader.expect(table, "shared_bytes", (int,), where, default=0)
    options = reader.options(table)
    for each in reader.tables(table, "arrays"):
        reader.array(*each)
    args = [reader.argument(*each) for each in reader.tables(table, "args")]
    expectations = [reader.expectation(*each) for each in reader.tables(table, "expect")]
    return LaunchFile(ptx, target, kernel, geometry, args, reader.arrays, options, expectations)


class Bundle:
    """A replay bundle as commands use it.

    Attributes
    ----------
    arrays : the named arrays; they hold the results after a launch that ran to its end
    expectations : what some of them should hold then
    options : those that the bundle was written with, until a command changes them
    """

    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        self.name = replay.kernel.name
        self.arrays: dict[str, NDArray[Any]] = {placed.name: placed.view(replay.memory).copy() for placed in replay.arrays}
        self.expectations = replay.expectations
        self.options: LaunchOptions = replay.options
        self.module: Module = replay.kernel.module

    def launch(self, progress: Callable[[int, int], None] | None = None, *, profile: bool = False) -> Result:
        """Run the launch again."""
        result, memory = self._replay.run(progress=progress, profile=profile, **self.options.keywords())
        if result.completed:
            self.arrays = {placed.name: placed.view(memory) for placed in self._replay.arrays}
        return result

    def prepare(self) -> Replay:
        """The launch with the options that a command has changed."""
        return replace(self._replay, options=self._replay.options.changed(**self.options.keywords()))

    def named(self, replay: Replay) -> Replay:
        """Return a kept launch with the names of its arrays."""
        return replay


Launchable = LaunchFile | Bundle


def read_launchable(path: Path) -> Launchable:
    """Read a launch file or a bundle."""
    return Bundle(read_bundle(path)) if is_bundle(path) else read_launch_file(path)
