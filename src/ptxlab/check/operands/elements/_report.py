"""The findings about matrices in registers and in tensor memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.check.operands._repetitions import Repetitions
from ptxlab.check.operands._report import Executed, Reporter
from ptxlab.check.operands.elements._images import Addresses, Apart, RegisterImage, image_of_elements, order_of_registers
from ptxlab.check.operands.elements._several import ArrayPart
from ptxlab.check.operands.elements._sources import Matrix
from ptxlab.engine.word_sources import NO_SOURCE
from ptxlab.isa.native_ops import MatrixAccess
from ptxlab.isa.operations.matrices import MatrixOperand
from ptxlab.isa.operations.tiles import CHUNK
from ptxlab.machine.memory.elements import ArrayPlace

if TYPE_CHECKING:
    from ptxlab.check.operands.elements.parts import SharedPart
    from ptxlab.isa.context import Cta
    from ptxlab.machine.launch.launch import Launch

__all__ = ["ElementReporter", "Taken"]

_BLOCK = 8
"""Rows and columns of a matrix of ldmatrix."""
_HALF_BITS = 16
_BYTE = 8
_SAME_K = "load both so that each k of A is the k of B"
_MATRIX_DIMENSIONS = 2
_FARTHEST = 4096
"""Bytes by which start addresses are tried."""
_LONGEST = 64
"""Starts of further elements of k that are looked for."""

Verified = Callable[[], bool]


@dataclass(frozen=True, slots=True, eq=False)
class Taken:
    """A matrix that an instruction has taken, with its image.

    Attributes
    ----------
    base : the address of its first element
    elsewhere : whether its steps are compared elsewhere
    operand : how it is read from shared memory, if it is there
    part : the same with what is noted of that memory; of the instruction before it is not needed
    """

    matrix: Matrix
    image: RegisterImage
    base: int
    elsewhere: bool = False
    operand: MatrixOperand | None = None
    part: SharedPart | None = None

    def moved(self, before: Taken) -> tuple[bool, int] | None:
        """Whether it is in other rows than one before, and by how many k further on; None if it is not known."""
        if not (self.image.has_steps and before.image.has_steps) or self.image.k_dimension != before.image.k_dimension:
            return None
        start, now = before.lowest(), self.lowest()
        if start is None or now is None:
            return None
        distance = now - start
        steps, rest = divmod(int(distance[self.image.k_dimension]), self.image.step)
        moved = steps * self.image.per_unit * self.matrix.stored
        return None if rest else (bool(np.delete(distance, self.image.k_dimension).any()), moved)

    def step_from(self, before: Taken) -> int | None:
        """By how many bytes its start address must advance from one before, so that the next k follow; None if it is not known."""
        if self.part is None or before.operand is None:
            return None
        operand, first = self.part.operand, before.operand.descriptor
        for step in range(CHUNK, _FARTHEST + CHUNK, CHUNK):
            found = self._at(operand.chunks_of(replace(first, start=first.start + step), operand.major))
            if found is not None and found.moved(before) == (False, self.reach):
                return step
        return None

    def following(self) -> list[int]:
        """The start addresses at which the next elements of k of the same rows stand, one after the other."""
        found: list[int] = []
        if self.part is None:
            return found
        operand = self.part.operand
        last = start = operand.descriptor.start
        while len(found) < _LONGEST and start - last < _FARTHEST:
            start += CHUNK
            taken = self._at(operand.chunks_of(replace(operand.descriptor, start=start), operand.major))
            if taken is not None and taken.moved(self) == (False, (len(found) + 1) * self.reach):
                found.append(start)
                last = start
        return found

    def _at(self, chunks: NDArray[np.intp]) -> Taken | None:
        """The same of other chunks of shared memory; None if it is not known, or has no image."""
        assert self.part is not None
        matrix = replace(self.matrix, places=self.matrix.places_of(chunks))
        places = matrix.places.reshape(-1)
        if places.max() >= len(self.part.sources):
            return None
        found = self.part.sources.take(places)
        self.part.list_words(places, found)
        elements = matrix.elements(matrix.parts(found))
        image = image_of_elements(elements, self.image.array, self.image.per_unit) if (elements > NO_SOURCE).all() else None
        return Taken(matrix, image, elements.item(0)) if isinstance(image, RegisterImage) else None

    def lowest(self) -> NDArray[np.int64] | None:
        """The index of the element of its first row with the lowest k, which need not be the first one; None if it is in no array."""
        image = self.image
        places, held = image.array.locate(np.array([self.base]))
        if not held.all():
            return None
        place: NDArray[np.int64] = places[0].astype(np.int64)
        if image.order:
            place[image.k_dimension] -= image.order[0] * image.step
        return place

    @property
    def reach(self) -> int:
        """Elements of k that an instruction takes."""
        return self.image.k * self.matrix.stored

    @property
    def has_next(self) -> bool:
        """Whether the array has further elements of k."""
        image = self.image
        place, along = self.lowest(), image.k_dimension
        return place is not None and int(place[along]) + 2 * image.columns * image.step <= image.array.shape[along]


class ElementReporter:
    """Reports each defect of an instruction once, together with a `Reporter`."""

    def __init__(self, launch: Launch, reporter: Reporter, repetitions: Repetitions) -> None:
        self._ops, self._natives, self._loaded = launch.program.ops, launch.program.natives, launch.program.loaded
        self._reporter = reporter
        self._repetitions = repetitions

    def element_type(self, by: Executed, matrix: Matrix, array: ArrayPlace, parts: Addresses, cta: Cta) -> None:
        """The element type of the instruction is not that of the array, or not that for which elements have been expanded."""
        if expanded := matrix.expanded(parts):
            self._reporter.other_type(by, matrix, expanded, "the elements that were expanded to bytes", "expand elements of", (), cta)
        elif matrix.where:
            self._reporter.other_type(by, matrix, array.dtype, f"the elements of {array.name}", f"make {array.name} an array of", (), cta)

    def mismatch(self, by: Executed, matrix: Matrix, found: Apart, parts: Addresses, verified: Verified, cta: Cta) -> None:
        """A matrix is none of the array's elements."""
        key = by.op.index, matrix.name
        elements = matrix.elements(parts)
        array = self._reporter.array_at(int(elements[elements > NO_SOURCE][0]))
        if self._reporter.has(*key) or array is None or array.itemsize * _BYTE != matrix.unit_bits or not verified():
            return
        self._reporter.first(*key)
        each = matrix.per_unit(parts)
        here, there = (f"{matrix.name}[{row}, {k * each}] is {_element(array, elements[row, k])}" for row, k in (found.at, found.other))
        self._reporter.add(
            "O101",
            f"{matrix.title}{matrix.where} is not a matrix of the elements that were loaded: {found.what}; {here}, but {there}",
            by,
            cta,
            fix=self.repair(matrix, parts, array, None)
            or f"correct the addresses with which {matrix.name} is {'loaded' if matrix.loads is not None else 'loaded or stored'}, "
            "so that all rows have the same k",
            details=self._loaded_by(matrix, *found.at),
        )

    def pair(
        self,
        by: Executed,
        matrices: Sequence[Matrix],
        images: tuple[RegisterImage, RegisterImage],
        parts: Sequence[Addresses],
        verified: Verified,
        cta: Cta,
    ) -> None:
        """A and B have different k."""
        if self._reporter.has(by.op.index, "pair") or not verified():
            return
        self._reporter.first(by.op.index, "pair")
        columns = min(image.columns for image in images)
        places = [np.array(image.order[:: image.columns // columns]) // (image.columns // columns) for image in images]
        apart = int((places[0] != places[1]).argmax())
        elements = [matrix.elements(own) for matrix, own in zip(matrices, parts, strict=True)]
        at = [apart * image.columns // columns for image in images]
        here, there = (
            f"{matrix.name}[0, {k * image.per_unit}] is {_element(image.array, found[0, k])}"
            for matrix, image, found, k in zip(matrices, images, elements, at, strict=True)
        )
        tried = [
            (image.in_order, repair)
            for number, (matrix, image) in enumerate(zip(matrices, images, strict=True))
            if (repair := self.repair(matrix, parts[number], image.array, images[1 - number]))
        ]
        number = 0 if images[1].in_order else 1
        wrong = matrices[number] if matrices[number].where else matrices[1 - number]
        fix = min(tried)[1] if tried else _SAME_K
        self._different_k(by, f"{here}, but {there}", fix, self._loaded_by(wrong, 0, at[matrices.index(wrong)]), cta)

    def pair_of_arrays(
        self,
        by: Executed,
        matrices: Sequence[Matrix],
        parts: Sequence[ArrayPart],
        unit: int,
        elements: Sequence[Addresses],
        verified: Verified,
        cta: Cta,
    ) -> None:
        """Parts of A and B, each of one array, have different k from a unit on."""
        if self._reporter.has(by.op.index, "pair") or not verified():
            return
        self._reporter.first(by.op.index, "pair")
        here, there = (
            f"{matrix.name}[{part.row}, {unit * part.per_unit}] is {_element(part.array, found[part.row, unit])}"
            for matrix, part, found in zip(matrices, parts, elements, strict=True)
        )
        a, b = (part.array.name for part in parts)
        self._different_k(by, f"{here}, but {there}; A has k of {a} in another order than B has those of {b}", _SAME_K, (), cta)

    def _different_k(self, by: Executed, what: str, fix: str, details: Sequence[tuple[str, str]], cta: Cta) -> None:
        self._reporter.add("O104", f"A and B are multiplied with different k: {what}", by, cta, fix=fix, details=details)

    def step(self, by: Executed, pairs: Sequence[tuple[Taken, Taken]], again: bool, verified: Verified, cta: Cta) -> None:
        """An instruction that adds to the same D as the one before must take the next k of A and of B; a pair is one of these.

        ``again`` says whether it takes both once more.
        """
        if len(pairs) < _MATRIX_DIMENSIONS or any(one.image.array != now.image.array for one, now in pairs):
            return
        if again:
            self._repeated(by, pairs, verified, cta)
            return
        moves = [now.moved(before) for before, now in pairs]
        for number, ((before, now), move) in enumerate(zip(pairs, moves, strict=True)):
            other = moves[1 - number]
            if move is None or other is None or other[0]:
                continue
            rows, k = move
            reach = now.reach
            advances = other[1] == reach
            if rows:
                wrong = not k and advances and before.has_next and len(now.image.array.shape) == _MATRIX_DIMENSIONS
            else:
                again = 0 < abs(k) < reach and k == other[1] and (now.image.in_order or now.operand is not None)
                wrong = again or (k != other[1] and advances and before.has_next)
            if wrong and not now.elsewhere:
                self._wrong_step(by, before, now, (rows, k), verified, cta)
                return

    def _repeated(self, by: Executed, pairs: Sequence[tuple[Taken, Taken]], verified: Verified, cta: Cta) -> None:
        """It is a mistake to take both once more if some k are left out."""
        operands = tuple(now.operand for _, now in pairs if now.operand is not None)
        if any(self._reporter.has(by.op.index, operand.name, "step") for operand in operands) or not verified():
            return
        for (_, now), operand in zip(pairs, operands, strict=True):
            self._reporter.first(by.op.index, operand.name, "step")
            others = now.following()
            wanted = others[0] - operand.descriptor.start if others else None
            report = partial(self._reporter.wrong_step, by, operand, operand, (0, 0, now.reach), wanted, None, (), cta)
            self._repetitions.doubt(operands, operand, others, report)

    def _wrong_step(self, by: Executed, before: Taken, now: Taken, moved: tuple[bool, int], verified: Verified, cta: Cta) -> None:
        name = now.matrix.name
        if self._reporter.has(by.op.index, name, "step") or not verified():
            return
        self._reporter.first(by.op.index, name, "step")
        rows, k = moved
        if before.operand is not None and now.operand is not None:
            operands, wanted = (before.operand, now.operand), now.step_from(before)
            self._reporter.wrong_step(by, *operands, (int(rows), k, now.reach), wanted, None, (), cta)
            return
        what = f"the rows of {name} move, and its k does not" if rows else f"k of {name} moves by {k}"
        how = "loaded" if now.matrix.loads is not None else "taken"
        fix = f"advance the address from which {name} is {how} by {now.reach} elements of k from instruction to instruction"
        if rows and (text := self._transposed(now.matrix)):
            fix = f"load {name} {text}: then its k advances"
        self._reporter.add(
            "O105",
            f"between two instructions that add to the same D {what}, where an instruction takes {now.reach} elements of k",
            by,
            cta,
            fix=fix,
            details=self._loaded_by(now.matrix, 0, 0),
        )

    def repair(self, matrix: Matrix, parts: Addresses, array: ArrayPlace, other: RegisterImage | None) -> str:
        """How a matrix in registers has an image, of the same k as the other one; "" if it is not known."""
        if matrix.loads is None:
            return ""
        repairs, elements = [], matrix.elements(parts)
        text = self._transposed(matrix)
        if text:
            blocks = elements.reshape(-1, _BLOCK, elements.shape[1] // _BLOCK, _BLOCK).transpose(0, 3, 2, 1).reshape(elements.shape)
            image = image_of_elements(blocks, array)
            if isinstance(image, RegisterImage) and image.order and (image.in_order if other is None else image.agrees(other)):
                repairs.append(f"load {matrix.name} {text}")
        order = order_of_registers(elements, matrix.bits, array, other)
        if order is not None:
            repairs.append(f"give the registers of {matrix.name} in the order {', '.join(map(str, order))}, counted from 0")
        return ", or ".join(repairs)

    def _transposed(self, matrix: Matrix) -> str:
        """The other way in which ldmatrix loads a matrix; "" if something else loads it."""
        if matrix.loads is None or matrix.bits != _HALF_BITS:
            return ""
        natives = [self._natives[load] for load in self._loaded.alike(int(matrix.loads[0, 0]))]
        transposed = {native.transposed if isinstance(native, MatrixAccess) else None for native in natives}
        if None in transposed:
            return ""
        if len(transposed) > 1:
            return "with .trans in all of its loads, or in none of them"
        return "without .trans" if True in transposed else "with .trans"

    def _loaded_by(self, matrix: Matrix, row: int, k: int) -> list[tuple[str, str]]:
        """The loads of which one has brought an element."""
        if matrix.loads is None:
            return []
        part = k * max(matrix.bits // _BYTE, 1) // matrix.size
        return [("loaded by", self._reporter.line(self._ops[load])) for load in self._loaded.alike(int(matrix.loads[row, part]))]


def _element(array: ArrayPlace, address: int) -> str:
    """The element of an array at an address."""
    if address <= NO_SOURCE:
        return "zero"
    places, _ = array.locate(np.array([int(address)]))
    return array.element(places[0].tolist())
