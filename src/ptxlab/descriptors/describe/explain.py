"""`explain`: what a number means, is it legal, and what may have been meant."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ptxlab.descriptors._bitfields import BitFormat, DescriptorError
from ptxlab.descriptors._instruction import FORMATS, InstructionDescriptor
from ptxlab.descriptors._register_operands import TENSOR_ADDRESS_FORMAT, ZERO_COLUMN_FORMAT, TensorMemoryAddress, ZeroColumnMask
from ptxlab.descriptors._shared_memory import TCGEN05_FORMAT, WGMMA_FORMAT, SharedMemoryDescriptor, WgmmaDescriptor
from ptxlab.descriptors.describe.explanation import Explanation, Interpretation
from ptxlab.descriptors.describe.readings import read_instruction, read_mask, read_shared, read_tensor_address, read_tensor_map, read_wgmma
from ptxlab.descriptors.tensor_map.codec import TENSOR_MAP_BYTES
from ptxlab.descriptors.tensor_map.tensor_map import TensorMap
from ptxlab.layout import Major
from ptxlab.tables import WGMMA_KINDS

__all__ = ["READINGS", "explain", "format_of"]

READINGS = {"smem": 64, "wgmma": 64, "idesc": 32, "mask": 64, "tmem": 32, "tensormap": 1024}
"""Name of a reading -> bits of its values."""


_FORMATS = {"smem": TCGEN05_FORMAT, "wgmma": WGMMA_FORMAT, "mask": ZERO_COLUMN_FORMAT, "tmem": TENSOR_ADDRESS_FORMAT}


def format_of(reading: str, kind: str | None = None) -> BitFormat:
    """The fields of a reading; an instruction descriptor needs the kind.

    Examples
    --------
    >>> [item.name for item in format_of("tmem").fields]
    ['column', 'lane']
    >>> format_of("idesc", "mxf4").fields[-1].name
    'k96'
    """
    if reading == "idesc":
        if kind is None or kind not in FORMATS:
            raise DescriptorError(f"no instruction descriptor of .kind::{kind}; the kinds are {', '.join(FORMATS)}")
        return FORMATS[kind]
    if reading not in _FORMATS:
        raise DescriptorError(f"no bit format of {reading!r}; there are idesc, {', '.join(_FORMATS)}")
    return _FORMATS[reading]


def explain(
    value: Any,
    as_: str | None = None,
    kind: str | None = None,
    major: Major | None = None,
) -> Explanation:
    """Say what a value means.

    Parameters
    ----------
    value : a descriptor or address as an integer, negative ones as two's complement; an object of `ptxlab.descriptors`; 4, 8 or 128 bytes
    as_ : ``smem`` (shared memory descriptor of tcgen05), ``wgmma`` (matrix descriptor), ``idesc`` (instruction descriptor), ``mask``
        (zero-column mask descriptor), ``tmem`` (tensor memory address) or ``tensormap``; None: every reading, the best first
    kind : ``.kind`` of the instruction, which an instruction descriptor is read by; for shared memory it gives the size of the elements
    major : ``"k"`` or ``"mn"``: of the operand that a shared memory descriptor is for; None: both

    Raises
    ------
    DescriptorError
        if the value does not fit the reading

    Examples
    --------
    >>> e = explain(0x4000404000010000)
    >>> e.best.what, e.best.layouts[0]
    ('smem', ('K-major canonical layout', 'Swizzle<3,4,3> o ((8,m),(T,2k)):((8T,SBO),(1,T))'))
    >>> print(explain(0x00200040, as_="tmem"))
    0x200040: tensor memory address  (Tensor Memory Addressing)
       0-15  column  64  Column index
      16-31  lane    32  Lane index
      note: lane 32 is reached by warp 1 of a warpgroup (lanes 32 to 63)
    """
    if as_ is None:
        as_ = next((name for kind_of, name in _OBJECTS.items() if isinstance(value, kind_of)), None)
    if kind is None and isinstance(value, InstructionDescriptor):
        kind = value.kind
    number, data = _number(value, as_)
    if as_ is not None and as_ not in READINGS:
        raise DescriptorError(f"a value cannot be read as {as_!r}; it can be {', '.join(READINGS)}")
    if kind is not None and kind not in FORMATS and kind not in WGMMA_KINDS:
        known = ", ".join(dict.fromkeys((*FORMATS, *WGMMA_KINDS)))
        raise DescriptorError(f"kind {kind!r} is unknown; it can be {known}")
    if as_ is not None and number >> READINGS[as_]:
        raise DescriptorError(f"{number:#x} does not fit in the {READINGS[as_]} bits of a value read as {as_}")
    readings = (as_,) if as_ is not None else _possible(number, data)
    found = [one for reading in readings for one in _read(reading, number, data, kind, major)]
    if not found:
        raise DescriptorError(f"a value of {number.bit_length()} bits is neither a descriptor nor an address")
    found = sorted((replace(one, score=max(one.score, 0.0)) for one in found), key=lambda one: -one.score)
    return Explanation(number, data.hex() if data is not None else f"{number:#x}", tuple(found))


def _number(value: Any, as_: str | None) -> tuple[int, bytes | None]:
    if isinstance(value, TensorMap):
        value = bytes(value)
    if hasattr(value, "__index__") or type(value) in _OBJECTS:
        value = int(value)
        if value < 0:
            value += 1 << (32 if as_ in ("idesc", "tmem") or (as_ is None and value >= -(1 << 31)) else 64)
        if value < 0:
            raise DescriptorError("a negative value of more than 64 bits")
        wide = as_ == "tensormap" or value >> 64 != 0
        if wide and value >> (8 * TENSOR_MAP_BYTES):
            raise DescriptorError(f"a value of {value.bit_length()} bits; the largest thing explained has {8 * TENSOR_MAP_BYTES}")
        return int(value), int(value).to_bytes(TENSOR_MAP_BYTES, "little") if wide else None
    try:
        data = bytes(value)
    except TypeError:
        raise DescriptorError(f"a value of type {type(value).__name__} cannot be explained") from None
    if len(data) not in (4, 8, TENSOR_MAP_BYTES):
        raise DescriptorError(f"{len(data)} bytes; an address has 4, a descriptor 4 or 8, a tensor map {TENSOR_MAP_BYTES}")
    return int.from_bytes(data, "little"), data if len(data) == TENSOR_MAP_BYTES else None


_OBJECTS = {
    SharedMemoryDescriptor: "smem",
    WgmmaDescriptor: "wgmma",
    InstructionDescriptor: "idesc",
    ZeroColumnMask: "mask",
    TensorMemoryAddress: "tmem",
    TensorMap: "tensormap",
}


def _possible(number: int, data: bytes | None) -> tuple[str, ...]:
    if data is not None:
        return ("tensormap",)
    if number >> 32:
        return ("smem", "wgmma", "mask")
    return ("idesc", "tmem", "smem", "wgmma", "mask")


def _read(reading: str, number: int, data: bytes | None, kind: str | None, major: Major | None) -> list[Interpretation]:
    if reading == "idesc":
        return [read_instruction(number, one) for one in ([kind] if kind is not None and kind in FORMATS else FORMATS)]
    readers = {
        "smem": lambda: read_shared(number, kind, major),
        "wgmma": lambda: read_wgmma(number, kind, major),
        "mask": lambda: read_mask(number),
        "tmem": lambda: read_tensor_address(number),
        "tensormap": lambda: read_tensor_map(data if data is not None else number.to_bytes(TENSOR_MAP_BYTES, "little")),
    }
    return [readers[reading]()]
