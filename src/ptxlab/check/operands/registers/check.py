"""Compares matrices that instructions take from registers with what has been loaded there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.check.operands._report import Executed, Reporter
from ptxlab.check.operands.registers._images import Addresses, Apart, RegisterImage, image_of_elements, stands_as_loaded
from ptxlab.check.operands.registers._report import RegisterReporter, Taken
from ptxlab.check.operands.registers._sources import Noted, Sources
from ptxlab.engine.context import HALVES_SHIFT, NO_SOURCE
from ptxlab.isa.tiles import MatrixOperand, Product
from ptxlab.machine.memory.elements import ArrayPlace

if TYPE_CHECKING:
    from ptxlab.isa.context import Cta
    from ptxlab.isa.operands import Op
    from ptxlab.machine.launch.launch import Launch

__all__ = ["RegisterCheck"]

_ATTEMPTS = 64
"""How often the images of an instruction are made; the steps of a loop are alike."""
_PAIR = 2
_BLOCK = 8
"""Elements of a row of a matrix of ldmatrix."""
_ADDRESS = (1 << HALVES_SHIFT) - 1


@dataclass(frozen=True, slots=True, eq=False)
class _Judged:
    """The images of the matrices of an instruction; None for one that is not known."""

    images: tuple[RegisterImage | None, ...]


class RegisterCheck:
    """One for each launch."""

    def __init__(self, launch: Launch, reporter: Reporter) -> None:
        self._loaded = launch.program.loaded
        self._reporter = reporter
        self._register_reporter = RegisterReporter(launch, reporter)
        self._sources: dict[Any, Sources] = {}
        self._last: dict[Any, tuple[Sources, _Judged, tuple[int, ...]]] = {}
        """By what another product may add to: the matrices of the product that has computed it, and where they begin."""
        self._steps: set[tuple[_Judged, _Judged, tuple[int, ...]]] = set()

    def takes(self, op: Op) -> bool:
        """Whether a matrix of an instruction is in registers that hold what has been loaded."""
        return op.index in self._loaded.matrices

    def multiplied(
        self,
        by: Executed,
        product: Product,
        cta: Cta,
        other: MatrixOperand | None = None,
        words: NDArray[np.int64] | None = None,
    ) -> None:
        """Compare matrices with each other, and with those of the instruction before that added to the same D.

        ``other`` is the matrix in shared memory, if any, and ``words`` says where its words come from.
        """
        key = by.op.index, other
        sources = self._sources.get(key)
        if sources is None:
            sources = self._sources[key] = Sources(by.op, product.in_registers(), other, self._loaded)
        before = self._last.pop(product.accumulator, None) if product.accumulate else None
        if not sources.matrices:
            return
        noted = sources.noted(product.frames(), words)
        judged = sources.judged.get(noted.key)
        if judged is None:
            if sources.attempts == _ATTEMPTS:
                return
            sources.attempts += 1
            judged = sources.judged[noted.key] = self._judge(by, product, sources, noted, cta)
        if len(judged.images) < _PAIR or None in judged.images:
            return
        self._last[product.result] = sources, judged, noted.bases
        if before is not None:
            moved = tuple([now - last for now, last in zip(noted.bases, before[2], strict=True)])
            step = before[1], judged, moved
            if step not in self._steps:
                self._steps.add(step)
                pairs = zip(before[1].images, judged.images, sources.matrices, before[2], noted.bases, strict=True)
                taken = [
                    (Taken(matrix, one, base & _ADDRESS), Taken(matrix, image, now & _ADDRESS))
                    for one, image, matrix, base, now in pairs
                    if one is not None and image is not None
                ]
                self._register_reporter.step(by, taken, self._verify(product, sources, noted), cta)

    def _judge(self, by: Executed, product: Product, sources: Sources, noted: Noted, cta: Cta) -> _Judged:
        """The images of the matrices; reports those that have none, and those that have other k than the other one."""
        images: list[RegisterImage | None] = []
        words = [sources.words(number, noted.found) for number in range(len(sources.matrices))]
        verified = self._verify(product, sources, noted)
        for matrix, own in zip(sources.matrices, words, strict=True):
            elements = matrix.elements(own)
            array = self._array_of(elements)
            image = None if array is None else image_of_elements(elements, array)
            if array is not None:
                self._register_reporter.element_type(by, matrix, array, cta)
            if array is not None and (matrix.loads is None or stands_as_loaded(own, matrix.bits)):
                # An array that is arranged for the registers need not have rows; shared memory is compared elsewhere.
                image = image if isinstance(image, RegisterImage) and matrix.loads is None else None
            doubt = image.doubt if isinstance(image, RegisterImage) else None
            if doubt is not None and array is not None and _is_matrix(array) and self._register_reporter.repair(matrix, own, array, None):
                image = doubt
            if isinstance(image, Apart):
                self._register_reporter.mismatch(by, matrix, image, own, verified, cta)
                image = None
            images.append(image if image is not None and image.array.itemsize * 8 == matrix.bits else None)
        if len(images) == _PAIR and all(matrix.stored == 1 for matrix in sources.matrices):
            a, b = images
            if a is not None and b is not None and not a.agrees(b):
                self._register_reporter.pair(by, sources.matrices, (a, b), words, verified, cta)
                return _Judged((None, None))
        return _Judged(tuple(images))

    def _array_of(self, elements: Addresses) -> ArrayPlace | None:
        """The array in which all elements lie that are not zeros."""
        known = elements[elements > NO_SOURCE]
        if not known.size:
            return None
        array = self._reporter.array_at(int(known.min()))
        return array if array is not None and array.holds(int(known.max())) else None

    def _verify(self, product: Product, sources: Sources, noted: Noted) -> Callable[[], bool]:
        """Whether the registers hold what stands where they come from; threads may have computed with it since."""

        def verified() -> bool:
            for number, matrix in enumerate(sources.matrices):
                elements = matrix.elements(sources.words(number, noted.found))
                if not self._register_reporter.holds(elements, product.codes(matrix.name.lower()), matrix.bits):
                    return False
            return True

        return verified


def _is_matrix(array: ArrayPlace) -> bool:
    """Whether an array is a matrix that is larger than what a register of a warp holds."""
    return len(array.shape) == _PAIR and min(array.shape) > _BLOCK
