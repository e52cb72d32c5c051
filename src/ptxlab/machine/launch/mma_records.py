"""Records of the matrix instructions that a launch executed: what each multiplied, from where, and where its result is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.diagnostics import Place, ranges
from ptxlab.formats import FORMATS, decode
from ptxlab.machine.launch.result import shortened

if TYPE_CHECKING:
    from ptxlab.machine.launch.result import Writer
    from ptxlab.machine.replay.replay import Replay

__all__ = ["OPERANDS", "MmaMatrices", "MmaRecord", "MmaRecords", "Operand", "values_of"]


class Operand(NamedTuple):
    """What an operand of a product is called, and the dimension that its rows are: ``"m"`` or ``"n"``."""

    title: str
    dimension: str


OPERANDS = {
    "a": Operand("A", "m"),
    "b": Operand("B", "n"),
    "scale_a": Operand("scale factors of A", "m"),
    "scale_b": Operand("scale factors of B", "n"),
    "metadata": Operand("sparsity metadata", "m"),
}
"""What a product takes, beside D."""

_MOST_LINES = 60
"""Records that a table shows."""
_MOST_WRITERS = 24
"""Writers that stand below a table."""


def values_of(codes: NDArray[Any], element: str) -> NDArray[Any]:
    """The numbers that element codes stand for; the codes themselves for types without a format."""
    if element == "f64":
        return codes.view(np.float64)
    if element in ("s32", "u32"):
        return codes.astype(np.uint32).view(np.int32 if element == "s32" else np.uint32)
    return decode(codes, element) if element in FORMATS else codes


class MmaMatrices(NamedTuple):
    """The matrices of one product, as numbers.

    Attributes
    ----------
    a : [m, k]; of a sparse A the elements that are stored
    b : [n, k]
    d : [m, n], after the product
    """

    a: NDArray[Any]
    b: NDArray[Any]
    d: NDArray[Any]


@dataclass(frozen=True, slots=True)
class MmaRecord:
    """One matrix instruction that was executed.

    Attributes
    ----------
    number : in the order in which the products were computed, from 0
    opcode, place, excerpt, source : the instruction, where it is in the PTX, that line, and its source line
    cta, warp, lanes : who issued it; all warps of a warpgroup issue a wgmma, and the last one is named
    m, n, k : its shape
    a, b, d : element types
    accumulate : whether it adds to what D held
    first : the number of the product with which the sum in D begins
    facts : descriptors and addresses, each with its fields
    d_place : where element (0, 0) of D is
    writers : by ``"a"``, ``"b"``, ``"scale_a"``, ``"scale_b"`` and ``"metadata"`` who wrote the elements of A and of B, and the scale
        factors and sparsity metadata in tensor memory or registers, each instruction once for each warp; empty unless asked for

    Examples
    --------
    See `ptxlab.Result.mmas`.
    """

    number: int
    opcode: str
    place: Place
    excerpt: str
    source: Place | None
    cta: tuple[int, int, int]
    warp: int
    lanes: tuple[int, ...]
    m: int
    n: int
    k: int
    a: str
    b: str
    d: str
    accumulate: bool
    first: int
    facts: tuple[tuple[str, tuple[tuple[str, object], ...]], ...]
    d_place: str
    writers: dict[str, tuple[Writer, ...]] = field(default_factory=dict)
    replay: Replay | None = field(default=None, repr=False, compare=False)

    @property
    def shape(self) -> str:
        """``128x256x16``."""
        return f"{self.m}x{self.n}x{self.k}"

    @property
    def types(self) -> str:
        """The types of A, B and D."""
        return f"{self.a} * {self.b} -> {self.d}"

    def fact(self, name: str) -> dict[str, object]:
        """The fields of a descriptor or an address by its name, such as ``"descriptor of A"``; empty if there is none."""
        return dict(next((fields for key, fields in self.facts if key == name), ()))

    def matrices(self) -> MmaMatrices:
        """The operands and the result, as numbers; the launch runs again to read them."""
        from ptxlab.machine.observe.mmas import matrices

        assert self.replay is not None
        return matrices(self.replay, self)

    def __str__(self) -> str:
        adds = f", adds to product {self.first} and those after it" if self.accumulate else ""
        lines = [f"product {self.number}: {self.opcode}", f"  {self.place} | {shortened(self.excerpt)}"]
        if self.source is not None:
            lines.append(f"  source: {self.source}")
        lanes = f" lanes {', '.join(ranges(self.lanes))}" if self.lanes else ""
        lines.append(f"  issued by: CTA {self.cta} warp {self.warp}{lanes}")
        lines.append(f"  computes: {self.shape}, {self.types}{adds}")
        lines += [f"  {name}: {', '.join(f'{key} {value}' for key, value in fields)}" for name, fields in self.facts]
        for operand, found in self.writers.items():
            for writer in found:
                first, *rest = str(writer).splitlines()
                lines += [f"  {OPERANDS[operand].title} written by {first}", *(f"  {line}" for line in rest)]
        return "\n".join([*lines, f"  D[0, 0]: {self.d_place}"])

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "number": self.number,
            "opcode": self.opcode,
            "place": str(self.place),
            "excerpt": self.excerpt.strip(),
            "source": None if self.source is None else str(self.source),
            "cta": list(self.cta),
            "warp": self.warp,
            "lanes": list(self.lanes),
            "shape": [self.m, self.n, self.k],
            "types": {"a": self.a, "b": self.b, "d": self.d},
            "accumulate": self.accumulate,
            "first": self.first,
            "d_place": self.d_place,
            **{name: {key: _plain(value) for key, value in fields} for name, fields in self.facts},
            **({"writers": {name: [writer.as_dict() for writer in found] for name, found in self.writers.items()}} if self.writers else {}),
        }

    def row(self) -> tuple[str, ...]:
        """The cells of its line in a table."""
        return (
            str(self.number),
            str(self.cta),
            str(self.warp),
            str(self.place.line),
            self.shape,
            self.types,
            self._operand("A"),
            self._operand("B"),
            self.d_place,
            f"to {self.first}" if self.accumulate else "",
        )

    def _operand(self, name: str) -> str:
        found = self.fact(f"descriptor of {name}")
        if found:
            return f"{found['start']:#x} {found['swizzle']} LBO {found['leading']} SBO {found['stride']}"
        tensor = self.fact(f"{name} in tensor memory")
        return f"column {tensor['column']}" if tensor else "registers"


_HEADS = ("product", "CTA", "warp", "line", "shape", "types", "A", "B", "D[0, 0]", "adds")


def _plain(value: object) -> object:
    return value if isinstance(value, (bool, int, str)) else str(value)


@dataclass(frozen=True, slots=True)
class MmaRecords(Sequence[MmaRecord]):
    """The matrix instructions of a launch; ``print`` gives a table."""

    records: tuple[MmaRecord, ...]

    def __len__(self) -> int:
        return len(self.records)

    @overload
    def __getitem__(self, index: int) -> MmaRecord: ...
    @overload
    def __getitem__(self, index: slice) -> MmaRecords: ...
    def __getitem__(self, index: int | slice) -> MmaRecord | MmaRecords:
        return MmaRecords(self.records[index]) if isinstance(index, slice) else self.records[index]

    def __iter__(self) -> Iterator[MmaRecord]:
        return iter(self.records)

    def __str__(self) -> str:
        if not self.records:
            return "no matrix instruction was executed"
        rows = [_HEADS, *(record.row() for record in self.records[:_MOST_LINES])]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        more = len(self.records) - _MOST_LINES
        return "\n".join([*lines, *([f"and {more} more"] if more > 0 else []), *self._writers()])

    def _writers(self) -> Iterator[str]:
        """Each writer of operands once, with the products that have taken what it has written."""
        groups: dict[tuple[str, str], list[int]] = {}
        for record in self.records[:_MOST_LINES]:
            for operand, found in record.writers.items():
                for writer in found:
                    groups.setdefault((operand, str(writer)), []).append(record.number)
        for (operand, text), numbers in list(groups.items())[:_MOST_WRITERS]:
            first, *rest = text.splitlines()
            yield f"{OPERANDS[operand].title} of product{'s' * (len(numbers) > 1)} {', '.join(ranges(numbers))} written by {first}"
            yield from (f"  {line}" for line in rest)
        if len(groups) > _MOST_WRITERS:
            yield f"and {len(groups) - _MOST_WRITERS} more writers"

    def as_dict(self) -> list[dict[str, Any]]:
        """Plain values for JSON."""
        return [record.as_dict() for record in self.records]
