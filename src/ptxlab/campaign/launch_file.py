"""Launch files.

A launch file is TOML with a kernel, its arguments, the options of the launch, and the expected results.

::

    ptx = "gemm.ptx"                      # or CUDA C++ (.cu), or a binary file that carries PTX
    target = "sm_100a"                    # what CUDA C++ is compiled for, or which PTX to take from a binary file
    kernel = "gemm"                       # may be left out if the module has one entry
    grid = [4, 4, 1]
    block = 128
    shared_bytes = 98352
    sizes = {K = 512}                     # names for expressions in place of whole numbers

    [[args]]
    name = "A"
    array = {shape = [512, 512], dtype = "float16", fill = "normal", seed = 1}

    [[arrays]]                            # an array to which no pointer is passed, because a tensor map describes it
    name = "B"
    array = {shape = [512, 512], dtype = "float16", fill = "normal", seed = 2}

    [[args]]
    tensor_map = {array = "B", box = [64, 128], swizzle = "128B"}

    [[args]]
    value = "K"
    dtype = "i32"

    [[expect]]
    name = "C"
    matmul = ["A", "B"]
    rtol = 1e-3
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.campaign._sizes import SizeError, with_sizes
from ptxlab.campaign._toml import TomlReader
from ptxlab.campaign.arrays import MAX_BYTES, ArrayError, dtype_of, generate, read_npy
from ptxlab.diagnostics import Place, PtxlabError
from ptxlab.machine import Device, LaunchError, Module, Replay, Result, load
from ptxlab.machine.launch.options import LaunchOptions
from ptxlab.machine.replay.replay import Expectation

__all__ = ["LaunchFile", "LaunchFileError", "read_launch_file"]

Array = NDArray[Any]

KEYS = {
    "ptx", "target", "kernel", "grid", "block", "cluster", "shared_bytes", "sizes", "arrays", "args", "expect",
    *LaunchOptions.described(),
}  # fmt: skip
KINDS = ("array", "npy", "value", "tensor_map", "bytes", "null")
MAP_KEYS = {"array", "swizzle", "dims", "strides", "element_strides", "interleave", "l2_promotion", "oob_fill", "dtype"}
IM2COL_KEYS = {"lower": (list,), "upper": (list,), "channels": (int,), "pixels": (int,)}
EXPECT_KEYS = {"name", "npy", "matmul", "transpose_a", "transpose_b", "equals", "rtol", "atol", "exact"}
SCALARS = {
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
    "f16": "float16", "f32": "float32", "f64": "float64",
}  # fmt: skip
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
    sizes : the sizes by name
    files : the files that were read, the PTX included, by the names that the launch file has for them
    """

    ptx: Path
    target: str | None
    kernel: str | None
    geometry: dict[str, Any]
    args: list[Any]
    arrays: dict[str, Array]
    options: LaunchOptions
    expectations: list[Expectation]
    sizes: dict[str, int]
    files: dict[str, Path]
    _module: Module | None = field(default=None, init=False)

    @property
    def name(self) -> str:
        """The kernel's name, or the file's if it has one kernel."""
        return self.kernel or self.ptx.stem

    @property
    def module(self) -> Module:
        """The module, read from its file at the first use unless one is set."""
        if self._module is None:
            self._module = _read_module(self.ptx, self.target)
        return self._module

    @module.setter
    def module(self, module: Module) -> None:
        self._module = module

    def launch(self, progress: Callable[[int, int], None] | None = None, device: Device | None = None, *, profile: bool = False) -> Result:
        """Launch the kernel."""
        kernel = self.module[self.kernel] if self.kernel else self.module.kernel()
        given = self.geometry | self.options.keywords()
        return kernel.launch(args=self.args, device=device, progress=progress, profile=profile, **given)

    def prepare(self) -> Replay:
        """Keep the launch without running it."""
        kernel = self.module[self.kernel] if self.kernel else self.module.kernel()
        return self.named(kernel.prepare(args=self.args, **self.geometry, **self.options.keywords()))

    def named(self, replay: Replay) -> Replay:
        """Return a kept launch with the names and expectations that the file gives its arrays."""
        names = {id(array): name for name, array in self.arrays.items()}
        others = {p.name: f"parameter {p.name}" if p.name in self.arrays else p.name for p in replay.arrays}
        arrays = tuple(replace(p, name=names.get(id(p.host), others[p.name])) for p in replay.arrays)
        return replace(replay, arrays=arrays, expectations=tuple(self.expectations))


def _read_module(path: Path, target: str | None) -> Module:
    if path.suffix != ".cu":
        return load(path, target=target)
    from ptxlab.interop import nvcc

    return nvcc.compile(path, arch=target or _CUDA_TARGET)


class _Reader(TomlReader):
    """Reads the tables of one launch file."""

    def __init__(self, path: Path, seed: int, places: Mapping[str, Path]) -> None:
        super().__init__(path, "launch file", LaunchFileError)
        self.arrays: dict[str, Array] = {}
        self.bytes = 0
        self.seed = seed
        self.places = places
        self.files: dict[str, Path] = {}

    def file(self, name: str) -> Path:
        """The place of a file that the launch file names."""
        self.files[name] = self.places.get(name, self.path.parent / name)
        return self.files[name]

    def sizes(self, table: Mapping[str, Any], given: Mapping[str, int]) -> dict[str, int]:
        """The sizes of the file, with those that are given in place of its own."""
        own: dict[str, int] = self.expect(table, "sizes", (dict,), self.what, default={})
        for name, value in own.items():
            if not name.isidentifier():
                raise self.refuse("F103", f"sizes: {name!r} cannot be the name of a size", fix="use letters, digits and underscores")
            self.expect(own, name, (int,), "sizes", default=value)
        self.known(given, set(own), "sizes")
        return own | dict(given)

    def options(self, table: Mapping[str, Any]) -> LaunchOptions:
        try:
            return LaunchOptions(**{name: table[name] for name in LaunchOptions.described() if name in table})
        except LaunchError as error:
            raise LaunchFileError(error.diagnostic.at(Place(str(self.path), 1, 1))) from None

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
                    return self.keep(name, generate(self.expect(table, kind, (dict,), where), self.seed))
                case "npy":
                    return self.keep(name, read_npy(self.file(self.expect(table, kind, (str,), where)), table.get("dtype")))
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
            return read_npy(self.file(self.expect(table, source, (str,), where)))
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


def read_launch_file(
    path: Path,
    *,
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
    target: str | None = None,
    places: Mapping[str, Path] | None = None,
) -> LaunchFile:
    """Read a launch file and make its arrays.

    Parameters
    ----------
    path : the file
    sizes : values in place of those in its table ``sizes``
    seed : added to the seed of each array
    target : in place of its key ``target``
    places : where files are that it names, if not where the names say

    Raises
    ------
    LaunchFileError
        codes F101 to F104, with the key that is wrong; D732 for a tensor map that the driver refuses
    """
    reader = _Reader(path, seed, places or {})
    table = reader.table()
    where = reader.what
    reader.known(table, KEYS, where)
    values = reader.sizes(table, sizes or {})
    try:
        table = with_sizes(table, values)
    except SizeError as error:
        raise reader.refuse("F103", str(error)) from None
    ptx = reader.file(reader.expect(table, "ptx", (str,), where))
    of_file, kernel = (reader.expect(table, key, (str,), where, default="") or None for key in ("target", "kernel"))
    extents: dict[str, Any] = {key: reader.expect(table, key, (int, list), where) for key in ("grid", "block", "cluster") if key in table}
    geometry = {key: tuple(value) if isinstance(value, list) else value for key, value in extents.items()}
    geometry["shared_bytes"] = reader.expect(table, "shared_bytes", (int,), where, default=0)
    options = reader.options(table)
    for each in reader.tables(table, "arrays"):
        reader.array(*each)
    args = [reader.argument(*each) for each in reader.tables(table, "args")]
    expectations = [reader.expectation(*each) for each in reader.tables(table, "expect")]
    return LaunchFile(ptx, target or of_file, kernel, geometry, args, reader.arrays, options, expectations, values, reader.files)
