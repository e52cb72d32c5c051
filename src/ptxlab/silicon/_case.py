"""What a record kit runs: a kernel, its inputs and its outputs; and words that no version of NumPy changes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ptxlab.formats import FORMATS

__all__ = ["STYLES", "TARGETS", "Array", "Case", "Target", "TensorMap", "codes", "constants", "head", "random_words"]

Words = NDArray[Any]
STYLES = ("any bits", "moderate", "subnormal", "special", "cancelling", "wide exponents")
"""How codes are drawn: every style has numbers that another one does not have."""


@dataclass(frozen=True)
class Target:
    """A target that has a kit.

    Attributes
    ----------
    capability : the compute capability of its GPUs
    gpus : their names
    version : the PTX ISA version of the kernels: the driver that compiles them needs no newer one
    cuda : the first version of CUDA whose driver has this PTX ISA version
    """

    capability: tuple[int, int]
    gpus: str
    version: str
    cuda: str


TARGETS: Mapping[str, Target] = {
    "sm_90a": Target((9, 0), "H100, H200, GH200", "8.7", "12.8"),
    "sm_100a": Target((10, 0), "B200, GB200", "8.7", "12.8"),
    "sm_103a": Target((10, 3), "B300, GB300", "8.8", "12.9"),
    "sm_110a": Target((11, 0), "Jetson Thor", "9.0", "13.0"),
    "sm_120a": Target((12, 0), "RTX Blackwell", "8.7", "12.8"),
    "sm_121a": Target((12, 1), "GB10 of DGX Spark", "8.8", "12.9"),
}


def head(target: str) -> str:
    """The first lines of a module."""
    return f".version {TARGETS[target].version}\n.target {target}\n.address_size 64\n"


@dataclass(frozen=True)
class Array:
    """An argument of a kernel; ``axes`` name its dimensions, so that a report can show what belongs to an element.

    ``data`` of an output has zeros.
    """

    name: str
    data: Words
    axes: tuple[str, ...]

    @classmethod
    def zeros(cls, name: str, shape: Iterable[int], axes: tuple[str, ...], dtype: Any = np.uint32) -> Array:
        return cls(name, np.zeros(tuple(shape), dtype), axes)


@dataclass(frozen=True)
class TensorMap:
    """A tensor map: the call of the driver's encoder.

    Attributes
    ----------
    array : the tensor: its place among the inputs, then the outputs
    call : the arguments of `ptxlab.descriptors.encode_tensor_map` but address and target
    """

    array: int
    call: Mapping[str, Any]

    @property
    def shown(self) -> dict[str, Any]:
        """The call with an address that is the same on every computer, so that the bytes can be compared."""
        return {**self.call, "address": 1 << 32}


@dataclass(frozen=True)
class Case:
    """One launch. The kernel's parameters are the addresses of the inputs, then of the outputs, then tensor maps by value.

    Attributes
    ----------
    name : the instructions that it shows, and what is special
    text : the module
    maps : tensor maps, which the driver encodes; their bytes are compared too
    entry : the name of the kernel
    sources : the CUDA C++ that the module was compiled from
    opcodes : the instructions that the results are evidence for
    kind : ``bits``: the outputs are compared; ``fault``: whether the kernel ends with an error; ``time``: the outputs are cycles
    replayed : the CTAs that ptxlab executes; empty: all. Output ``i`` of a CTA is element ``i`` along the first axis
    """

    name: str
    text: str
    grid: int
    block: int
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    opcodes: tuple[str, ...]
    kind: Literal["bits", "fault", "time"] = "bits"
    shared_bytes: int = 0
    replayed: tuple[int, ...] = ()
    maps: tuple[TensorMap, ...] = ()
    entry: str = "k"
    sources: tuple[Path, ...] = ()

    @property
    def recorded(self) -> tuple[Array, ...]:
        """What a file of results holds: the outputs, then the bytes of the tensor maps."""
        return *self.outputs, *(Array.zeros(f"tensor map {number}", (128,), ("byte",), np.uint8) for number in range(len(self.maps)))

    @cached_property
    def kernel_hash(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @cached_property
    def inputs_hash(self) -> str:
        parts = [array.data.tobytes() for array in self.inputs]
        parts += [json.dumps([each.array, each.shown], sort_keys=True).encode() for each in self.maps]
        return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def random_words(count: int, *seed: int) -> NDArray[np.uint64]:
    """Random 64-bit words."""
    return np.asarray(np.random.PCG64(list(seed)).random_raw(max(count, 1))[:count], np.uint64)


def codes(fmt: str, count: int, style: int, negated: bool, *seed: int) -> Words:
    """Codes of a type, right-aligned in their containers; ``style`` is a position in `STYLES`.

    In pairs that cancel, the second element is the first one, negated in one operand (``negated``) and equal in the other.
    """
    row = FORMATS[fmt]
    raw = random_words(2 * count, style, negated, *fmt.encode(), *seed)
    bits, chance = raw[:count] & np.uint64((1 << row.bits) - 1), raw[count:]
    if fmt == "ue8m0":
        found = bits if style == 0 else np.uint64(119) + (bits & np.uint64(15))
    elif fmt == "ue4m3":
        found = bits if style == 0 else np.uint64(0x20) + (bits & np.uint64(0x1F))
    elif not row.exponent:
        low, high = np.uint64(1 << row.bits - 1), np.uint64((1 << row.bits) - 1)
        extreme = np.array([0, high >> np.uint64(1), low, high], np.uint64)[(chance & np.uint64(3)).astype(int)]
        found = np.where(chance >> np.uint64(32) & np.uint64(7) < style, extreme, bits)
    else:
        found = _floats(row.exponent, row.mantissa, bits, chance, style, negated)
    return found.astype(row.dtype)


def _floats(exponent_bits: int, mantissa: int, bits: Words, chance: Words, style: int, negated: bool) -> Words:
    if style == 0:
        return bits
    top, width = (1 << exponent_bits) - 1, np.uint64(mantissa)
    rest = bits & np.uint64((1 << mantissa) - 1 | 1 << exponent_bits + mantissa)
    drawn = (chance >> np.uint64(8)).astype(np.int64)
    if style == 2:
        exponent = drawn & 1
    elif style == 5:
        exponent = drawn % top
    else:
        exponent = np.clip(top // 2 - 2 + (drawn & 3), 0, top)
    found = rest | exponent.astype(np.uint64) << width
    if style == 3:
        found = np.where(chance & np.uint64(15) == 0, rest | np.uint64(top << mantissa), found)
        found = np.where(chance & np.uint64(15) == 1, np.uint64(top << mantissa) | rest >> width << width, found)
        found = np.where(chance & np.uint64(15) == 2, rest >> width << width, found)
    if style == 4 and len(found) > 1:
        sign = np.uint64(negated << exponent_bits + mantissa)
        found[1::2] = found[: len(found) // 2 * 2 : 2] ^ sign
        # Now and then a last bit is left over.
        found[1::2] ^= (chance[1::2] & np.uint64(7) == 0).astype(np.uint64)
    return found


def constants(rows: Iterable[Iterable[int]]) -> NDArray[np.uint64]:
    """64-bit words that a kernel reads for each CTA."""
    return np.array([list(row) for row in rows], np.uint64)
