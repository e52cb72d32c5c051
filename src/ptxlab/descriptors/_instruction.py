"""The instruction descriptor of tcgen05.mma: section "Instruction descriptor".

Three formats, one `BitFormat` for each kind: without block scaling, ``mxf8f6f4``, and ``mxf4`` with ``mxf4nvf4``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from ptxlab.descriptors._bitfields import BitField, BitFormat, Descriptor
from ptxlab.descriptors._errors import DescriptorError, Finding
from ptxlab.descriptors._instruction_rules import check
from ptxlab.tables import BLOCK_SCALED_KINDS, KINDS, MMA_KINDS, Kind

__all__ = ["FORMATS", "InstructionDescriptor"]

_TABLE = 'Instruction descriptor, table "Instruction descriptor format for .kind::tf32, .kind::f16, .kind::f8f6f4 and .kind::i8"'
_TABLE_MXF8F6F4 = 'Instruction descriptor, table "Instruction descriptor format for .kind::mxf8f6f4"'
_TABLE_MXF4 = 'Instruction descriptor, table "Instruction descriptor format for .kind::mxf4 and .kind::mxf4nvf4"'
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
    form = _format(i.kind)
    return (*form.findings(i._values(), "D701"), *check(i, form.section, cta_group, ws, sparse, scale_vector))
