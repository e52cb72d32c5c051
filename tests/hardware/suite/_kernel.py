"""What the suite runs: a kernel, its arguments, and how it is launched; and PTX for the frame of a small kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab import TensorMap

HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"

Argument = Any
"""An array (device memory, given as its address), an integer (32 bits), a number of NumPy, None (a null pointer), a `Struct`, or a
`ptxlab.TensorMap` over an array among the arguments."""


@dataclass(frozen=True, eq=False)
class Struct:
    """Bytes with addresses of arrays in them: each place has the array and an offset in bytes."""

    raw: bytes
    places: tuple[tuple[int, NDArray[Any], int], ...]

    def encode(self, addresses: Mapping[int, int]) -> bytes:
        """The bytes, with the device addresses of arrays by their ``id``."""
        raw = bytearray(self.raw)
        for place, array, offset in self.places:
            raw[place : place + 8] = (addresses[id(array)] + offset).to_bytes(8, "little")
        return bytes(raw)


@dataclass(frozen=True, eq=False)
class Kernel:
    """An entry and one launch of it. ``results``: the arrays that are read back, or the positions of these arguments."""

    name: str
    text: str
    """The entry in PTX, named ``entry``; or CUDA C++ or a module in PTX that has it."""
    args: tuple[Argument, ...]
    grid: int | tuple[int, ...] = 1
    block: int = 32
    shared_bytes: int = 0
    results: tuple[int | NDArray[Any], ...] = (-1,)
    entry: str = ""
    cuda: bool = False
    module: bool = False
    cluster: tuple[int, int, int] = (1, 1, 1)
    """CTAs of a cluster, where the launch says it."""
    registers: int | None = None
    """Registers of a thread, for ``setmaxnreg``."""

    @property
    def symbol(self) -> str:
        return self.entry or symbol(self.name)

    @property
    def dims(self) -> tuple[int, int, int]:
        grid = self.grid if isinstance(self.grid, tuple) else (self.grid,)
        return (*grid, 1, 1)[:3]

    @cached_property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """The arrays among the arguments and in them, in order, each once."""
        found: dict[int, NDArray[Any]] = {}
        for argument in self.args:
            if isinstance(argument, np.ndarray):
                found[id(argument)] = argument
            elif isinstance(argument, Struct):
                found |= {id(array): array for _, array, _ in argument.places}
            elif isinstance(argument, TensorMap):
                found.setdefault(id(argument.base), argument.base)
        return tuple(found.values())

    @property
    def outputs(self) -> tuple[NDArray[Any], ...]:
        return tuple(self.args[result] if isinstance(result, int) else result for result in self.results)


def packed(argument: Argument, addresses: Mapping[int, int]) -> bytes:
    """The bytes of a parameter, with the device addresses of arrays by their ``id``."""
    if isinstance(argument, np.ndarray):
        return addresses[id(argument)].to_bytes(8, "little")
    if argument is None:
        return bytes(8)
    if isinstance(argument, int):
        return (argument & 0xFFFFFFFF).to_bytes(4, "little")
    if isinstance(argument, np.generic):
        return argument.tobytes()
    if isinstance(argument, Struct):
        return argument.encode(addresses)
    raw: bytes = argument.encode(addresses[id(argument.base)])
    return raw


def symbol(name: str) -> str:
    return "k_" + "".join(c if c.isalnum() else "_" for c in name)


def entry(
    name: str,
    parameters: str,
    body: str,
    *,
    cluster: Sequence[int] = (),
    shared: int = 0,
) -> str:
    """An entry in PTX. ``parameters``: names of 64-bit parameters, loaded into registers of the same names behind a ``%``; names in
    brackets are tensor maps, whose registers hold the address.

    At hand: %t the thread, %cta the CTA, %g the thread in the grid (one-dimensional), %s the address of ``shared`` bytes, %rank the CTA in
    the cluster, and registers %r %h %d %q %f %fd %p by number.
    """
    maps = [n.strip("[]") for n in parameters.split() if n.startswith("[")]
    names = [n.strip("[]") for n in parameters.split()]
    given = ", ".join(f".param .align 64 .b8 {n}[128]" if n in maps else f".param .u64 {n}" for n in names)
    loads = "\n".join(f"mov.u64 %{n}, {n}; cvta.param.u64 %{n}, %{n};" if n in maps else f"ld.param.u64 %{n}, [{n}];" for n in names)
    spread = f".explicitcluster .reqnctapercluster {', '.join(map(str, (*cluster, 1, 1)[:3]))}" if cluster else ""
    buffer = f".shared .align 1024 .b8 buffer[{shared}];\nmov.u32 %s, buffer;" if shared else ""
    return f"""
.visible .entry {symbol(name)}({given}) {spread}
{{
.reg .b32 %r<48>, %t, %cta, %g, %s, %n, %rank; .reg .b16 %h<40>; .reg .b64 %d<48>, {", ".join(f"%{n}" for n in names)};
.reg .b128 %q<4>; .reg .f32 %f<20>; .reg .f64 %fd<8>; .reg .pred %p<12>;
{buffer}
{loads}
mov.u32 %t, %tid.x; mov.u32 %cta, %ctaid.x; mov.u32 %n, %ntid.x; mad.lo.u32 %g, %cta, %n, %t; mov.u32 %rank, %cluster_ctarank;
{body.strip()}
ret;
}}
"""


def at(register: str, base: str, size: int, index: str = "%g") -> str:
    """The address of element ``index`` of an array."""
    return f"mad.wide.u32 {register}, {index}, {size}, {base};"


def move_words(instructions: str, source: str, target: str, size: int, threads: int = 32) -> str:
    """Move ``size`` bytes by words with all threads: "ld.global st.shared"; the addresses in registers of 32 bits (%r) or 64 (%d)."""
    load, store = instructions.split()

    def start(register: str, base: str) -> str:
        return f"mad.lo.u32 %r{register}, %t, 4, {base};" if base[1] == "r" else f"mad.wide.u32 %d{register}, %t, 4, {base};"

    def step(register: str, base: str) -> str:
        return f"add.u{32 if base[1] == 'r' else 64} {base[:2]}{register}, {base[:2]}{register}, {4 * threads};"

    return f"""
{{
{start("45", source)} {start("46", target)}
mul.lo.u32 %r47, %t, 4;
setp.lt.u32 %p11, %r47, {size};
MOVE:
@%p11 {load}.b32 %r44, [{source[:2]}45];
@%p11 {store}.b32 [{target[:2]}46], %r44;
{step("45", source)} {step("46", target)}
add.u32 %r47, %r47, {4 * threads};
setp.lt.u32 %p11, %r47, {size};
@%p11 bra MOVE;
}}
"""


def words(seed: int, count: int, dtype: Any = np.uint32) -> NDArray[Any]:
    """Random bits that no version of NumPy changes."""
    size = np.dtype(dtype).itemsize
    raw = np.random.PCG64(seed).random_raw(-(-count * size // 8))
    return np.asarray(raw, np.uint64).view(dtype)[:count].copy()
