"""`TensorMap`: a tensor map over an array, as kernels take it for an argument."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from ptxlab.descriptors._bitfields import TensorMapError, html_of
from ptxlab.descriptors.tensor_map.codec import TensorMapFields, decode_tensor_map, pack_tensor_map
from ptxlab.descriptors.tensor_map.encode import encode_tensor_map
from ptxlab.formats import ArrayError, array_of
from ptxlab.tables import ELEMENT_TYPE_NAMES, INTERLEAVES, L2_PROMOTIONS, OOB_FILLS, TENSOR_MAP_SWIZZLES, ElementType

__all__ = ["TensorMap"]

_TARGET = "sm_100a"

_DTYPES = {
    "bool": "u8", "int8": "u8", "uint8": "u8", "int16": "u16", "uint16": "u16", "int32": "s32", "uint32": "u32", "int64": "s64",
    "uint64": "u64", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
}  # fmt: skip
"""Names of types of NumPy, and bfloat16 of ml_dtypes -> element type."""
_FLOAT8 = "float8_"
"""How the names of 8-bit types of ml_dtypes begin. Tensor maps have no such types: the elements move as bytes."""

_PACK = {
    name: f"NumPy has a byte for each element: pack the codes into an array of uint8 (ptxlab.formats.pack), with dtype={types} and dims"
    for names, types in (
        (("float4_e2m1fn", "int4", "uint4"), "'b4x16' or 'b4x16_p64'"),
        (("float6_e2m3fn", "float6_e3m2fn"), "'b6x16_p32'"),
    )
    for name in names
}
"""What to do with types of ml_dtypes that tensor maps have packed only."""

_NUMBERS = {
    "swizzle": {mode.name: number for number, mode in TENSOR_MAP_SWIZZLES.items()},
    "interleave": {name: number for number, name in INTERLEAVES.items()},
    "l2_promotion": {name: number for number, name in L2_PROMOTIONS.items()},
    "oob_fill": {name: number for number, name in OOB_FILLS.items()},
}


class TensorMap:
    """A tensor map in tiled mode; `im2col` makes one in im2col mode. Dimensions innermost first, as in CUDA.

    Parameters
    ----------
    base : the tensor: an array of NumPy, torch or DLPack, whose address the launch fills in, or a device buffer
    box : elements of one copy along each dimension
    swizzle : ``none``, ``32B``, ``64B``, ``128B``; and ``128B_32B``, ``128B_32B_flip_8B``, ``128B_64B`` with larger atoms
    dims : elements of the tensor along each dimension; None: the array's shape, reversed
    strides : bytes, of dimensions 1 and up; None: the array's, or packed if ``dims`` is given
    dtype : a type of NumPy, ml_dtypes or torch, or the name of an element type (``"bf16"``, ``"tf32"``, ``"f32.ftz"``); None: the array's
    element_strides : traversal strides; None: 1
    interleave : ``none``, ``16B`` or ``32B``: channels are stored in slices of 16 or 32 bytes, which are not a dimension. The dimensions
        are W (then H, D), the slices, the images; the array has the slice itself as its last axis. A box takes one of the slices
    l2_promotion : ``none``, ``64B``, ``128B`` or ``256B``
    oob_fill : ``none`` (zeros) or ``nan``

    Raises
    ------
    TensorMapError
        if the driver would refuse

    Examples
    --------
    >>> tm = TensorMap(np.zeros((256, 512), np.float16), box=(64, 128), swizzle="128B")
    >>> tm.dims, tm.strides, tm.swizzle
    ((512, 256), (1024,), '128B')
    >>> TensorMap.decode(bytes(tm)).box
    (64, 128)
    >>> TensorMap(np.zeros((2, 3, 5, 6, 8), np.float16), box=(8, 4, 1, 1), interleave="16B").dims
    (6, 5, 3, 2)
    """

    base: Any
    """The array or device buffer; None for a decoded map."""
    fields: TensorMapFields
    """All that the map says, in the driver's numbers."""

    def __init__(
        self,
        base: Any,
        box: Sequence[int],
        swizzle: str = "none",
        dims: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
        dtype: Any = None,
        element_strides: Sequence[int] | None = None,
        interleave: str = "none",
        l2_promotion: str = "none",
        oob_fill: str = "none",
    ) -> None:
        options = _options(swizzle=swizzle, interleave=interleave, l2_promotion=l2_promotion, oob_fill=oob_fill)
        self.base = base
        self.fields = _fields(base, dims, strides, dtype, element_strides, {"box": _integers("box", box), **options})

    @classmethod
    def im2col(
        cls,
        base: Any,
        lower: Sequence[int],
        upper: Sequence[int],
        channels: int,
        pixels: int,
        swizzle: str = "none",
        dims: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
        dtype: Any = None,
        element_strides: Sequence[int] | None = None,
        interleave: str = "none",
        l2_promotion: str = "none",
        oob_fill: str = "none",
    ) -> TensorMap:
        """Make a tensor map in im2col mode. The other parameters are those of the class.

        Parameters
        ----------
        lower, upper : corners of the bounding box for W (then H, D), relative to the first and the last pixel; a map for ``im2col::w`` has
            zeros after those of W
        channels, pixels : channels per pixel, pixels per column

        Examples
        --------
        >>> images = np.zeros((4, 28, 28, 64), np.float16)
        >>> TensorMap.im2col(images, lower=(-1, -1), upper=(-1, -1), channels=64, pixels=128, swizzle="128B").fields.lower
        (-1, -1)
        """
        made = cls.__new__(cls)
        made.base = base
        options: dict[str, Any] = {
            "im2col": True,
            "lower": _integers("lower", lower),
            "upper": _integers("upper", upper),
            "channels": int(channels),
            "pixels": int(pixels),
            **_options(swizzle=swizzle, interleave=interleave, l2_promotion=l2_promotion, oob_fill=oob_fill),
        }
        made.fields = _fields(base, dims, strides, dtype, element_strides, options)
        return made

    @classmethod
    def decode(cls, raw: Any) -> TensorMap:
        """Read the 128 bytes of a map, of the driver's or made by tensormap.replace."""
        made = cls.__new__(cls)
        made.base = None
        made.fields = decode_tensor_map(raw)
        return made

    def encode(self, address: int | None = None) -> bytes:
        """The driver's 128 bytes with another global address."""
        if address is None:
            return pack_tensor_map(self.fields)
        unit = 32 if self.fields.interleave == 2 else 16
        if address % unit:
            raise TensorMapError(
                "address", f"the global address {address:#x} is not a multiple of {unit}", f"align the tensor to {unit} bytes"
            )
        return pack_tensor_map(replace(self.fields, address=address))

    def __bytes__(self) -> bytes:
        return self.encode()

    def _repr_html_(self) -> str:
        return html_of(self)

    @property
    def dims(self) -> tuple[int, ...]:
        """Elements of the tensor along each dimension."""
        return self.fields.dims

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes, of dimensions 1 and up."""
        return self.fields.strides

    @property
    def box(self) -> tuple[int, ...]:
        """Elements of one copy along each dimension."""
        return self.fields.box

    @property
    def element_strides(self) -> tuple[int, ...]:
        """Traversal strides."""
        return self.fields.element_strides

    @property
    def dtype(self) -> str:
        """The element type as PTX names it."""
        return self.fields.element.name

    @property
    def swizzle(self) -> str:
        """The swizzling mode."""
        return self.fields.swizzle_mode.name

    @property
    def interleave(self) -> str:
        """The interleave layout."""
        return INTERLEAVES[self.fields.interleave]

    @property
    def l2_promotion(self) -> str:
        """The L2 promotion."""
        return L2_PROMOTIONS[self.fields.l2_promotion]

    @property
    def oob_fill(self) -> str:
        """What is read outside the tensor."""
        return OOB_FILLS[self.fields.oob_fill]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorMap) and self.fields == other.fields and self.base is other.base

    def __hash__(self) -> int:
        return hash((self.fields, id(self.base)))

    def __repr__(self) -> str:
        f = self.fields
        copied = f"lower={f.lower}, upper={f.upper}, channels={f.channels}, pixels={f.pixels}" if f.im2col else f"box={f.box}"
        return f"<TensorMap {self.dtype} dims={f.dims} strides={f.strides} {copied} swizzle={self.swizzle}>"


def _fields(
    base: Any,
    dims: Sequence[int] | None,
    strides: Sequence[int] | None,
    dtype: Any,
    element_strides: Sequence[int] | None,
    options: Mapping[str, Any],
) -> TensorMapFields:
    tensor = _tensor(base)
    element = _element(tensor, dtype)
    sizes, pitches = _geometry(tensor, element, dims, strides, 16 * options["interleave"])
    steps = (1,) * len(sizes) if element_strides is None else _integers("element_strides", element_strides)
    for argument, values, count in (
        ("box", options.get("box"), len(sizes)),
        ("strides", pitches, max(len(sizes) - 1, 0)),
        ("element_strides", steps, len(sizes)),
    ):
        if values is not None and len(values) != count:
            raise TensorMapError(argument, f"{len(values)} values for a tensor of {len(sizes)} dimensions; {count} are needed")
    raw = encode_tensor_map(
        data_type=element.driver,
        rank=len(sizes),
        address=getattr(base, "address", 0),
        dims=sizes,
        strides=pitches,
        element_strides=steps,
        target=_TARGET,
        **options,
    )
    return decode_tensor_map(raw)


def _tensor(base: Any) -> Any:
    """The NumPy array over what is an array of another library; a device buffer as it is."""
    try:
        found = array_of(base)
    except ArrayError as error:
        raise TensorMapError("base", str(error), error.fix) from None
    return base if found is None else found


def _options(**names: str) -> dict[str, int]:
    """The driver's numbers of named modes."""
    for argument, name in names.items():
        if not isinstance(name, str) or name not in _NUMBERS[argument]:
            raise TensorMapError(argument, f"{name!r} is not one of {', '.join(_NUMBERS[argument])}")
    return {argument: _NUMBERS[argument][name] for argument, name in names.items()}


def _integers(argument: str, values: Iterable[Any]) -> tuple[int, ...]:
    try:
        return tuple(value.__index__() for value in values)
    except (TypeError, AttributeError):
        raise TensorMapError(argument, f"{values!r} is not a sequence of integers") from None


def _element(base: Any, dtype: Any) -> ElementType:
    element = _named_element(base, dtype)
    own = getattr(getattr(base, "dtype", None), "name", "")
    if {_DTYPES.get(own), element.name} == {"f16", "bf16"}:
        raise TensorMapError(
            "dtype",
            f"elements of {element.name} over an array of {own}: the same bits are other numbers",
            fix=f"leave out dtype, or convert the array; to take its bits as {element.name}, give array.view(np.uint16)",
        )
    return element


def _named_element(base: Any, dtype: Any) -> ElementType:
    if isinstance(dtype, str) and dtype in ELEMENT_TYPE_NAMES:
        return ELEMENT_TYPE_NAMES[dtype]
    given = getattr(base, "dtype", None) if dtype is None else dtype
    if given is None:
        raise TensorMapError("dtype", f"a base of type {type(base).__name__} has no element type; name one")
    try:
        name = np.dtype(given).name
    except TypeError:
        name = str(given).removeprefix("torch.")
    element = "u8" if name.startswith(_FLOAT8) else _DTYPES.get(name)
    if element is None:
        raise TensorMapError(
            "dtype", f"{name} is not an element type of tensor maps; they are {', '.join(ELEMENT_TYPE_NAMES)}", _PACK.get(name, "")
        )
    return ELEMENT_TYPE_NAMES[element]


def _geometry(
    base: Any,
    element: ElementType,
    dims: Sequence[int] | None,
    strides: Sequence[int] | None,
    slice_bytes: int,
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Dimensions and strides, those of the base where they are not given. ``slice_bytes``: of an interleaved tensor."""
    innermost = 8 * slice_bytes or element.bits
    if dims is not None:
        sizes = _integers("dims", dims)
        return sizes, _packed(sizes, innermost) if strides is None else _integers("strides", strides)
    size, broken = divmod(element.bits, 8)
    if broken:
        raise TensorMapError("dims", f"elements of {element.name} have {element.bits} bits; give dims (and strides)")
    shape = getattr(base, "shape", None)
    if not shape:
        raise TensorMapError("dims", f"a base of type {type(base).__name__} without a shape needs dims")
    if np.dtype(base.dtype).itemsize != size:
        message = (
            f"elements of {element.name} have {size} bytes, those of the array {np.dtype(base.dtype).itemsize}; give dims (and strides)"
        )
        raise TensorMapError("dtype", message)
    if slice_bytes and shape[-1] * size != slice_bytes:
        raise TensorMapError("interleave", f"the last axis has {shape[-1] * size} bytes; a slice of channels has {slice_bytes}")
    outer = shape[:-1] if slice_bytes else shape
    sizes = tuple(int(n) for n in reversed(outer))
    if strides is not None:
        return sizes, _integers("strides", strides)
    if not isinstance(base, np.ndarray):
        return sizes, _packed(sizes, innermost)
    if base.strides[-1] != size and shape[-1] > 1:
        message = f"the elements of the last axis are {base.strides[-1]} bytes apart; the innermost dimension must be contiguous"
        raise TensorMapError("strides", message, "give an array whose last axis is contiguous (numpy.ascontiguousarray)")
    if slice_bytes and sizes and base.strides[-2] != slice_bytes and sizes[0] > 1:
        raise TensorMapError("strides", f"the slices are {base.strides[-2]} bytes apart; along W they must be contiguous")
    return sizes, tuple(int(n) for n in reversed(base.strides[: len(outer) - 1]))


def _packed(sizes: Sequence[int], bits: int) -> tuple[int, ...]:
    return tuple(prod(sizes[:d]) * bits // 8 for d in range(1, len(sizes)))
