"""Launch files: TOML that says which kernel to run, on what, and what should come out.

::

    ptx = "gemm.ptx"
    target = "sm_100a"                    # which PTX to take from a binary file that carries several
    kernel = "gemm"                       # may be left out if the module has one entry
    grid = [4, 4, 1]
    block = 128
    shared_bytes = 98352

    [[args]]
    name = "A"
    array = {shape = [512, 512], dtype = "float16", fill = "normal", seed = 1}

    [[args]]
    tensor_map = {array = "A", box = [64, 128], swizzle = "128B"}

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
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.cli._arrays import MAX_BYTES, ArrayError, dtype_of, generate, read_npy
from ptxlab.diagnostics import Diagnostic, Place, PtxlabError, diagnose
from ptxlab.machine.replay.replay import Expectation

__all__ = ["LaunchFile", "LaunchFileError", "read_launch_file"]

Array = NDArray[Any]

OPTIONS: dict[str, tuple[type, ...]] = {
    "cluster": (int, list),
    "shared_bytes": (int,),
    "policy": (str,),
    "seed": (int,),
    "model": (str,),
    "check": (str, list),
    "registers": (int,),
    "contract": (bool,),
    "tmem_offset": (int,),
    "max_instructions": (int,),
    "only": (list,),
}
"""Optional keys that go to `Kernel.launch` as they are."""

KINDS = ("array", "npy", "value", "tensor_map", "bytes", "null")
MAP_KEYS = {"array", "box", "swizzle", "dims", "strides", "element_strides", "interleave", "l2_promotion", "oob_fill", "dtype"}
EXPECT_KEYS = {"name", "npy", "matmul", "transpose_a", "transpose_b", "equals", "rtol", "atol", "exact"}
SCALARS = {"i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64"}
SCALARS |= {"f16": "float16", "f32": "float32", "f64": "float64"}
TYPE_NAMES = {int: "a whole number", float: "a number", str: "a text", list: "a list", bool: "true or false", dict: "a table"}
MAX_TEXT = 16 << 20


class LaunchFileError(PtxlabError):
    """A launch file that cannot be used."""


@dataclass(frozen=True, slots=True)
class LaunchFile:
    """A launch file with its arrays made: ``args`` in parameter order, ``arrays`` by name, ``options`` for `Kernel.launch`."""

    ptx: Path
    target: str | None
    kernel: str | None
    grid: Any
    block: Any
    args: list[Any]
    arrays: dict[str, Array]
    options: dict[str, Any]
    expectations: list[Expectation]


class _Reader:
    """Reads the tables of one file; every refusal names the file and the key."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.arrays: dict[str, Array] = {}
        self.bytes = 0

    def refuse(self, code: str, message: str, fix: str = "", line: int = 1, column: int = 1) -> LaunchFileError:
        found: Diagnostic = diagnose(code, message, fix=fix)
        return LaunchFileError(found.at(Place(str(self.path), line, column)))

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
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            line, column = getattr(error, "lineno", 1), getattr(error, "colno", 1)
            raise self.refuse("F102", f"not TOML: {error}", line=line, column=column) from None
        except (RecursionError, ValueError) as error:
            raise self.refuse("F102", f"not TOML that can be read: {error}") from None

    def expect(self, table: Mapping[str, Any], key: str, kinds: tuple[type, ...], where: str, default: Any = None) -> Any:
        value = table.get(key, default)
        if value is None or (isinstance(value, bool) and bool not in kinds) or not isinstance(value, kinds):
            names = " or ".join(TYPE_NAMES[kind] for kind in kinds)
            found = "nothing" if value is None else repr(value)
            raise self.refuse("F103", f"{where}: {key} must be {names}, not {found}")
        return value

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

    def argument(self, table: Any, where: str) -> Any:
        if not isinstance(table, dict):
            raise self.refuse("F103", f"{where}: must be a table, not {table!r}")
        given = [kind for kind in KINDS if kind in table]
        if len(given) != 1:
            raise self.refuse("F103", f"{where}: exactly one of {', '.join(KINDS)} says what it is; found {', '.join(given) or 'none'}")
        kind = given[0]
        self.known(table, {kind, "name", "dtype"} if kind == "value" else {kind, "name"}, where)
        name = self.expect(table, "name", (str,), where, default="") or None
        if name in self.arrays:
            raise self.refuse("F103", f"{where}: the name {name!r} is taken")
        try:
            match kind:
                case "array":
                    return self.keep(name, generate(self.expect(table, kind, (dict,), where)))
                case "npy":
                    return self.keep(name, read_npy(self.path.parent / self.expect(table, kind, (str,), where)))
                case "value":
                    return self.scalar(table, where)
                case "tensor_map":
                    return self.tensor_map(self.expect(table, kind, (dict,), where), where)
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
        if dtype.kind in "iu" and isinstance(value, int):
            limits = np.iinfo(dtype)
            if not limits.min <= value <= limits.max:
                raise ArrayError(f"value {value} does not fit {name}")
            return value
        if dtype.kind in "iu":
            raise ArrayError(f"value {value} is no whole number, as {name} wants")
        return float(value)

    def tensor_map(self, table: Mapping[str, Any], where: str) -> Any:
        from ptxlab.descriptors import TensorMap

        self.known(table, MAP_KEYS, where)
        name = self.expect(table, "array", (str,), where)
        if name not in self.arrays:
            raise self.refuse("F103", f"{where}: no earlier argument is named {name!r}")
        options: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in table.items() if key != "array"
        }
        if "dtype" in options:
            options["dtype"] = dtype_of(options["dtype"])
        try:
            return TensorMap(self.arrays[name], **options)
        except (TypeError, ValueError, OverflowError) as error:
            raise self.refuse("F104", f"{where}: {error}") from None

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
        """Refuse what cannot be compared with an output, a product before it is computed: it may be very large."""
        if shape != self.arrays[name].shape:
            raise ArrayError(f"the expected shape {shape} is not that of {name!r}, {self.arrays[name].shape}")


def read_launch_file(path: Path) -> LaunchFile:
    """Read a launch file and make its arrays.

    Raises
    ------
    LaunchFileError
        codes F101 to F104, with the key that is wrong
    """
    reader = _Reader(path)
    table = reader.table()
    reader.known(table, {"ptx", "target", "kernel", "grid", "block", "args", "expect", *OPTIONS}, "launch file")
    where = "launch file"
    ptx = path.parent / reader.expect(table, "ptx", (str,), where)
    target, kernel = (reader.expect(table, key, (str,), where, default="") or None for key in ("target", "kernel"))
    grid = reader.expect(table, "grid", (int, list), where, default=1)
    block = reader.expect(table, "block", (int, list), where) if "block" in table else None
    options = {key: reader.expect(table, key, kinds, where) for key, kinds in OPTIONS.items() if key in table}
    for key in ("check", "only"):
        if isinstance(options.get(key), list):
            options[key] = _plain(options[key], key, reader)
    args = [reader.argument(t, f"args[{i}]") for i, t in enumerate(reader.expect(table, "args", (list,), where, default=[]))]
    expectations = [reader.expectation(t, f"expect[{i}]") for i, t in enumerate(reader.expect(table, "expect", (list,), where, default=[]))]
    return LaunchFile(ptx, target, kernel, _extent(grid), _extent(block), args, reader.arrays, _extents(options), expectations)


def _plain(items: list[Any], key: str, reader: _Reader) -> Any:
    """``check`` as a set of names, ``only`` as a list of coordinates."""
    if key == "check":
        if not all(isinstance(item, str) for item in items):
            raise reader.refuse("F103", f"launch file: check must hold names, not {items!r}")
        return set(items)
    if not all(isinstance(item, list) and len(item) == 3 and all(type(n) is int for n in item) for item in items):
        raise reader.refuse("F103", f"launch file: only must hold [x, y, z] coordinates, not {items!r}")
    return [tuple(item) for item in items]


def _extent(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _extents(options: dict[str, Any]) -> dict[str, Any]:
    return {key: _extent(value) if key == "cluster" else value for key, value in options.items()}
