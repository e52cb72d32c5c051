"""What a product of matrices has contributed to an element: the data that `Result.provenance` returns, as text and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ptxlab._records import dataclass
from ptxlab.machine.launch.mma_records import MmaRecord

if TYPE_CHECKING:
    from ptxlab.machine.launch.result import Writer

__all__ = ["Contribution", "InputElement", "OperandLine", "element_ranges", "operand_lines"]

InputElement = tuple[str, tuple[int, ...]]
"""The name of an array argument, and an index."""


@dataclass(frozen=True, slots=True)
class OperandLine:
    """The row of A, or the column of B, that a product has taken for one element of D.

    Attributes
    ----------
    line : the row of A, or the column of B
    inputs : for each element along k the elements of array arguments on which it depends; none for a constant and for zero fill
    mixed : the arrays on several elements of which some of them depend
    writers : who wrote the bytes in shared memory, the registers or the cells of tensor memory from which the product has read it; behind a
        load from shared memory stands who wrote the bytes there, behind a store to tensor memory who wrote its registers
    beside : by ``"scale factors"`` and ``"sparsity metadata"`` who wrote those of the line in tensor memory or registers
    """

    line: int
    inputs: tuple[tuple[InputElement, ...], ...]
    mixed: tuple[str, ...]
    writers: tuple[Writer, ...]
    beside: dict[str, tuple[Writer, ...]] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "line": self.line,
            "inputs": [[{"array": array, "index": list(index)} for array, index in each] for each in self.inputs],
            "mixed": list(self.mixed),
            "writers": [writer.as_dict() for writer in self.writers],
            **{name.replace(" ", "_"): {"writers": [writer.as_dict() for writer in found]} for name, found in self.beside.items()},
        }


@dataclass(frozen=True, slots=True)
class Contribution:
    """A product that an element is a sum of.

    Attributes
    ----------
    mma : the instruction
    m, n : the element of D
    place : where that is
    a, b : what it has multiplied
    """

    mma: MmaRecord
    m: int
    n: int
    place: str
    a: OperandLine
    b: OperandLine

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "product": self.mma.as_dict(),
            "element": [self.m, self.n],
            "place": self.place,
            "a": self.a.as_dict(),
            "b": self.b.as_dict(),
        }


def element_ranges(elements: Sequence[InputElement]) -> Iterator[str]:
    """Elements in few words, in their order.

    Examples
    --------
    >>> list(element_ranges([("a", (3, 0)), ("a", (3, 1)), ("a", (3, 2)), ("b", (7, 5)), ("b", (8, 5))]))
    ['a[3, 0:3]', 'b[7:9, 5]']
    """
    at = 0
    while at < len(elements):
        name, first = elements[at]
        stop = at + 1
        moving = -1
        while stop < len(elements):
            other, index = elements[stop]
            steps = [i for i, (x, y) in enumerate(zip(index, first, strict=False)) if x != y]
            if other != name or len(index) != len(first) or len(steps) != 1 or moving not in (-1, steps[0]):
                break
            if index[steps[0]] != first[steps[0]] + stop - at:
                break
            moving = steps[0]
            stop += 1
        parts = [f"{i}:{i + stop - at}" if d == moving else str(i) for d, i in enumerate(first)]
        yield f"{name}[{', '.join(parts)}]"
        at = stop


_MOST_RANGES = 8
_MOST_WRITERS = 4


def operand_lines(name: str, lines: Sequence[OperandLine]) -> Iterator[str]:
    """What the products took as A or B, one after the other."""
    what = "row" if name == "A" else "column"
    numbers = ", ".join(str(number) for number, _ in groupby(each.line for each in lines))
    inputs = [each for line in lines for each in line.inputs]
    mixed = list(dict.fromkeys(array for line in lines for array in line.mixed))
    arrays = list(dict.fromkeys(array for each in inputs for array, _ in each))
    texts: list[str] = []
    for array in arrays:
        found = list(dict.fromkeys(element for each in inputs for element in each if element[0] == array))
        texts += element_ranges(found)
    shown = texts[:_MOST_RANGES] + ([f"{len(texts) - _MOST_RANGES} more ranges"] if len(texts) > _MOST_RANGES else [])
    shown += [f"several elements of {array}" for array in mixed]
    empty = sum(not each for each in inputs)
    if empty and not mixed:
        shown.append(f"{empty} constants" if shown else "constants")
    yield f"{what} {numbers} of {name}: {', '.join(shown) or 'nothing of an array'}"
    yield from _brought(writer for line in lines for writer in line.writers)
    for beside in dict.fromkeys(key for line in lines for key in line.beside):
        yield f"  its {beside}:"
        yield from (f"  {line}" for line in _brought(writer for each in lines for writer in each.beside.get(beside, ())))


def _brought(found: Iterable[Writer]) -> Iterator[str]:
    """Each instruction once."""
    writers = {(writer.place.line, writer.opcode): writer for writer in found}
    for writer in list(writers.values())[:_MOST_WRITERS]:
        first, *rest = str(writer).splitlines()
        yield f"  brought by {first}"
        yield from (f"  {line}" for line in rest)
    if len(writers) > _MOST_WRITERS:
        yield f"  and by {len(writers) - _MOST_WRITERS} more instructions"
