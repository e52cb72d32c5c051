"""The instruction descriptor of tcgen05.mma: section "Instruction descriptor".

Three formats, one `BitFormat` for each kind: without block scaling, ``mxf8f6f4``, and ``mxf4`` with ``mxf4nvf4``. Every finding names the
table that allows something else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from ptxlab._records import dataclass
from ptxlab.descriptors._bitfields import BitField, BitFormat, Descriptor, DescriptorError, Finding
from ptxlab.tables import (
    BLOCK_SCALED_KINDS,
    KINDS,
    MMA_KINDS,
    SCALE_IDS,
    SCALE_VECTOR_TYPES,
    SHAPES,
    TRANSPOSED_8_BIT_N,
    TYPE_BITS,
    Kind,
    scale_vector_of,
)

__all__ = ["FORMATS", "InstructionDescriptor"]

_TABLE = 'Instruction descriptor, table "Instruction descriptor format for .kind::tf32, .kind::f16, .kind::f8f6f4 and .kind::i8"'
_TABLE_MXF8F6F4 = 'Instruction descriptor, table "Instruction descriptor format for .kind::mxf8f6f4"'
_TABLE_MXF4 = 'Instruction descriptor, table "Instruction descriptor format for .kind::mxf4 and .kind::mxf4nvf4"'
_SHAPE = 'Matrix Shape, table "Various combinations of .kind and shapes"'
_TRANSPOSE = "Transpose and Negate operations"
_TRANSPOSE_KINDS = f'{_TRANSPOSE}, table "Transpose and Negate operation for various MMA-Kind"'
_COMBINATIONS = "Valid Combinations of Type-Size, Major-ness and Swizzling"
_SCALING = "Valid combinations of scale_vectorsize with types and MMA-Kind"
_SCALE_TYPES = f'{_SCALING}, table "Valid combinations of scale_vectorsize with types and MMA-Kind"'
_SCALE_SHAPES = f'{_SCALING}, table "Valid combinations of scale_vectorsize and shapes"'

_SELECTORS = {"f16": (0, 1), "tf32": (0, 1), "f8f6f4": (0,), "i8": (0,)}
"""Kind -> sparsity selectors that choose something; the field can hold 2 and 3, but no source says what they select."""

_FLAG = {False: 0, True: 1}


def _dense(kind: Kind) -> BitFormat:
    return BitFormat(
        "instruction descriptor",
        _TABLE,
        32,
        (
            BitField("selector", 0, 2, "Sparsity selector"),
            BitField("sparse", 2, 1, "Sparsity", values=_FLAG),
            BitField("saturate", 3, 1, "Saturate for integer types", values=_FLAG),
            BitField("d", 4, 2, f"dtype of .kind::{kind.name}", values=kind.d),
            BitField("a", 7, 3, f"atype of .kind::{kind.name}", values=kind.ab),
            BitField("b", 10, 3, f"btype of .kind::{kind.name}", values=kind.ab),
            BitField("negate_a", 13, 1, "Negate A Matrix", values=_FLAG),
            BitField("negate_b", 14, 1, "Negate B Matrix", values=_FLAG),
            BitField("transpose_a", 15, 1, "Transpose A Matrix", values=_FLAG),
            BitField("transpose_b", 16, 1, "Transpose B Matrix", values=_FLAG),
            BitField("n", 17, 6, "N, Dimension of Matrix B", shift=3),
            BitField("m", 24, 5, "M, Dimension of Matrix A", shift=4),
            BitField("max_shift", 30, 2, "Maximum shift while attempting B matrix reuse", values={0: 0, 8: 1, 16: 2, 32: 3}),
        ),
    )


def _scaled(kind: Kind) -> BitFormat:
    packed = kind.container < 8
    return BitFormat(
        "instruction descriptor",
        _TABLE_MXF4 if packed else _TABLE_MXF8F6F4,
        32,
        (
            BitField("sparse", 2, 1, "Sparsity", values=_FLAG),
            BitField("scale_b_id", 4, 2, "Matrix B Scale Factor Data ID"),
            BitField("a", 7, 3, f"atype of .kind::{kind.name}", values=kind.ab),
            BitField("b", 10, 2 if packed else 3, f"btype of .kind::{kind.name}", values=kind.ab),
            BitField("negate_a", 13, 1, "Negate A Matrix", values=_FLAG),
            BitField("negate_b", 14, 1, "Negate B Matrix", values=_FLAG),
            BitField("transpose_a", 15, 1, "Transpose A Matrix", values=_FLAG),
            BitField("transpose_b", 16, 1, "Transpose B Matrix", values=_FLAG),
            BitField("n", 17, 6, "N, Dimension of Matrix B", shift=3),
            BitField("scale", 23, 1, "Scale Matrix Type", values=kind.scale),
            BitField("m", 27, 2, "M, Dimension of Matrix A", shift=7),
            BitField("scale_a_id", 29, 2, "Matrix A Scale Factor Data ID"),
            *([BitField("k96", 31, 1, "K Dimension: 1 for K = 96", values=_FLAG)] if packed else []),
        ),
    )


FORMATS: Mapping[str, BitFormat] = {
    **{kind.name: _dense(kind) for kind in KINDS.values()},
    **{kind.name: _scaled(kind) for kind in BLOCK_SCALED_KINDS.values()},
}


@dataclass(frozen=True, slots=True)
class InstructionDescriptor(Descriptor):
    """The 32-bit instruction descriptor.

    Attributes
    ----------
    kind : ``f16``, ``tf32``, ``f8f6f4`` or ``i8``; block-scaled: ``mxf8f6f4``, ``mxf4`` or ``mxf4nvf4``
    m, n : shape of the instruction; K follows from the kind and the sparsity
    a, b, d : element types; D of the block-scaled kinds is always ``f32`` and has no field
    transpose_a, transpose_b : MN-major instead of K-major
    saturate : of integers
    sparse, selector : sparse matrix A, and its sparsity selector
    max_shift : 0, 8, 16 or 32 columns, for ``.ws``
    scale : type of the scale factors, ``ue8m0`` or ``ue4m3``; empty: the kind's first one, or no block scaling
    scale_a_id, scale_b_id : scale factor IDs
    k96 : K = 96, of ``mxf4`` and ``mxf4nvf4``
    reserved : unnamed bits that are not 0

    Examples
    --------
    >>> i = InstructionDescriptor(kind="f16", m=128, n=256, a="bf16", b="bf16", d="f32")
    >>> hex(int(i)), i.k
    ('0x8400490', 16)
    >>> InstructionDescriptor.decode(int(i), kind="f16") == i
    True
    """

    kind: str
    m: int
    n: int
    a: str
    b: str
    d: str = "f32"
    transpose_a: bool = False
    transpose_b: bool = False
    negate_a: bool = False
    negate_b: bool = False
    saturate: bool = False
    sparse: bool = False
    selector: int = 0
    max_shift: int = 0
    reserved: int = 0
    scale: str = ""
    scale_a_id: int = 0
    scale_b_id: int = 0
    k96: bool = False

    def __post_init__(self) -> None:
        if not self.scale and self.kind in BLOCK_SCALED_KINDS:
            object.__setattr__(self, "scale", next(iter(BLOCK_SCALED_KINDS[self.kind].scale)))

    def __int__(self) -> int:
        form = _format(self.kind)
        stated = {item.name for item in form.fields}
        for name, default in _OPTIONAL.items():
            if name not in stated and getattr(self, name) != default:
                raise DescriptorError(f"{name} is {getattr(self, name)!r}, but .kind::{self.kind} has no field for it", form.section)
        return form.encode(self._values(), self.reserved)

    @classmethod
    def decode(cls, value: int, kind: str) -> InstructionDescriptor:
        """Read the 32 bits as ``.kind`` means them; every value can be read, `findings` says what is wrong with it."""
        return _decode(value, kind)

    @property
    def k(self) -> int:
        """K of the instruction, in elements of the dense matrix."""
        return 96 if self.k96 else MMA_KINDS[self.kind].k * (2 if self.sparse else 1)

    def fields(self) -> list[tuple[str, object]]:
        """Names and values, for a report."""
        stated = {item.name for item in FORMATS[self.kind].fields} if self.kind in FORMATS else set()
        return [(name, value) for name, value in self._values().items() if name in stated or name not in _OPTIONAL]

    def findings(
        self,
        cta_group: int | None = None,
        ws: bool = False,
        sparse: bool | None = None,
        scale_vector: str | None = None,
    ) -> list[Finding]:
        """What is not legal for an instruction with these qualifiers.

        Parameters
        ----------
        cta_group, ws : qualifiers of the instruction; without a cta_group the shape is not checked
        sparse : whether the instruction is ``tcgen05.mma.sp``; None: as the descriptor says
        scale_vector : ``.scale_vectorsize`` of a block-scaled instruction: ``block32``, ``scale_vec::1X``, ...; None: not checked
        """
        return list(_findings(self, cta_group, ws, sparse, scale_vector))


_OPTIONAL: Mapping[str, object] = {
    "d": "f32", "selector": 0, "saturate": False, "max_shift": 0, "scale": "", "scale_a_id": 0, "scale_b_id": 0, "k96": False,
}  # fmt: skip
"""Attributes that only some formats have a field for, and what they are elsewhere."""


def _format(kind: str) -> BitFormat:
    if kind not in FORMATS:
        raise DescriptorError(f"no instruction descriptor of .kind::{kind}; the kinds are {', '.join(FORMATS)}", _TABLE)
    return FORMATS[kind]


@lru_cache(maxsize=1024)
def _decode(value: int, kind: str) -> InstructionDescriptor:
    return InstructionDescriptor(kind=kind, **_format(kind).decode(value))


@lru_cache(maxsize=1024)
def _findings(
    i: InstructionDescriptor, cta_group: int | None, ws: bool, sparse: bool | None, scale_vector: str | None
) -> tuple[Finding, ...]:
    return tuple(_check(i, cta_group, ws, sparse, scale_vector))


def _check(i: InstructionDescriptor, cta_group: int | None, ws: bool, sparse: bool | None, scale_vector: str | None) -> Iterator[Finding]:
    """What is not legal for an instruction with these qualifiers."""
    form, kind = _format(i.kind), MMA_KINDS[i.kind]
    yield from form.findings(i._values(), "D701")
    yield from _check_flags(i, kind, form.section, sparse)
    yield from _check_types(i, kind)
    if cta_group is not None:
        yield from _check_shape(i, cta_group, ws, i.sparse if sparse is None else sparse)
    if kind.scale:
        yield from _check_scaling(i, scale_vector)
    if cta_group is not None and i.transpose_b and TYPE_BITS.get(i.b) == 8 and i.n not in TRANSPOSED_8_BIT_N[cta_group]:
        steps = TRANSPOSED_8_BIT_N[cta_group]
        yield Finding(
            "D703",
            "n",
            f"N = {i.n} with a transposed 8-bit matrix B and cta_group::{cta_group}; N must be {_series(steps)}",
            f'{_TRANSPOSE}, table "Various combinations of N shape with .cta_group qualifier for 8bit transpose B"',
        )


def _check_flags(i: InstructionDescriptor, kind: Kind, table: str, sparse: bool | None) -> Iterator[Finding]:
    if sparse is not None and sparse != i.sparse:
        said, opcode = ("sparse", "tcgen05.mma") if i.sparse else ("dense", "tcgen05.mma.sp")
        message = f"the instruction descriptor says {said}, the instruction is {opcode}"
        yield Finding("D701", "sparse", message, table, f"{'clear' if i.sparse else 'set'} bit 2, or use the other instruction")
    if i.sparse and i.selector not in _SELECTORS.get(i.kind, (i.selector,)):
        allowed = " or ".join(map(str, _SELECTORS[i.kind]))
        message = f"the sparsity selector is {i.selector}; it must be {allowed} for .kind::{i.kind}"
        yield Finding("D701", "selector", message, "Sparsity selector", "write another value to bits 0-1")
    if i.saturate and not kind.saturate:
        yield Finding("D701", "saturate", f"saturation is not available for .kind::{i.kind}", table, "clear bit 3")
    for name, bit in (("negate_a", 13), ("negate_b", 14)):
        if getattr(i, name) and not kind.negate:
            message = f"matrix {name[-1].upper()} cannot be negated for .kind::{i.kind}"
            yield Finding("D701", name, message, _TRANSPOSE_KINDS, f"clear bit {bit}")


def _check_types(i: InstructionDescriptor, kind: Kind) -> Iterator[Finding]:
    wanted = kind.d_for_ab.get(i.d)
    for name, bit in (("a", 15), ("b", 16)):
        given = getattr(i, name)
        if wanted is not None and given in kind.ab and given not in wanted:
            types = " or ".join(f".{t}" for t in sorted(wanted))
            message = f"matrix D of type .{i.d} needs matrix {name.upper()} of type {types}, not .{given}"
            yield Finding("D701", "d", message, _SHAPE, "accumulate in .f32")
        if not getattr(i, f"transpose_{name}"):
            continue
        if not kind.transpose:
            message = f"matrix {name.upper()} cannot be transposed for .kind::{i.kind}"
            yield Finding("D701", f"transpose_{name}", message, _TRANSPOSE_KINDS, f"clear bit {bit} and lay the operand out K-major")
        elif TYPE_BITS.get(given, 8) < 8:
            message = f"matrix {name.upper()} of type .{given} cannot be transposed"
            yield Finding("D701", f"transpose_{name}", message, _COMBINATIONS, f"clear bit {bit} and lay the operand out K-major")


def _check_shape(i: InstructionDescriptor, cta_group: int, ws: bool, sparse: bool) -> Iterator[Finding]:
    what = f".kind::{i.kind}, cta_group::{cta_group}{', .ws' if ws else ''}, {'sparse' if sparse else 'dense'}"
    shapes = SHAPES.get((i.kind, ws, cta_group, sparse))
    if shapes is None:
        yield Finding("D703", "kind", f"the combination {what} is not supported", _SHAPE)
        return
    if i.m not in shapes.m:
        yield Finding("D703", "m", f"M = {i.m} for {what}; M must be {_series(shapes.m)}", _SHAPE)
    if i.n not in shapes.n:
        yield Finding("D703", "n", f"N = {i.n} for {what}; N must be {_series(shapes.n)}", _SHAPE)
    if i.k96 and sparse:
        yield Finding("D703", "k96", "K = 96 is for dense matrices only", _SHAPE, "clear bit 31")


def _check_scaling(i: InstructionDescriptor, vector: str | None) -> Iterator[Finding]:
    allowed = SCALE_VECTOR_TYPES.get((i.kind, i.scale), ())
    if vector is None:
        # Without the qualifier: the IDs that some qualifier of the kind and the scale type allows.
        rows = [row for name in allowed if (row := scale_vector_of(i.kind, name, i.k)) is not None]
    else:
        found = scale_vector_of(i.kind, vector, i.k)
        rows = [] if found is None else [found]
        if found is None:
            named = " or ".join(
                f".{name}" for name in dict.fromkeys(n for (k, _), names in SCALE_VECTOR_TYPES.items() for n in names if k == i.kind)
            )
            yield Finding("D701", "scale", f".{vector} does not go with .kind::{i.kind}; use {named}", _SCALE_SHAPES)
        elif allowed and vector not in allowed:
            named = " or ".join(f".{name}" for name in allowed)
            message = f"scale factors of type .{i.scale} for .kind::{i.kind} need {named}, not .{vector}"
            yield Finding("D701", "scale", message, _SCALE_TYPES, "change bit 23, or the qualifier")
    ids = sorted({value for row in rows for value in SCALE_IDS[row.scales]})
    for name, bits in (("scale_a_id", "29-30"), ("scale_b_id", "4-5")):
        given = getattr(i, name)
        if ids and given not in ids:
            scales = " or ".join(str(n) for n in sorted({row.scales for row in rows}))
            message = (
                f"the scale factor {name[6].upper()} ID is {given}; with {scales} scale factors of a row it must be {_series(tuple(ids))}"
            )
            yield Finding("D701", name, message, f"Scale Factor {name[6].upper()} ID", f"correct bits {bits}")


def _series(values: Sequence[int]) -> str:
    if isinstance(values, range):
        return f"{values[0]}, {values[1]}, ... {values[-1]}"
    if len(values) > 4:
        return f"{', '.join(map(str, values[:6]))}, ... {values[-1]}"
    return " or ".join(", ".join(map(str, values)).rsplit(", ", 1))
