"""Compares matrices that instructions take from registers or from tensor memory with what has been loaded."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ptxlab.check.operands._repetitions import Repetitions
from ptxlab.check.operands._report import Executed, Reporter
from ptxlab.check.operands.compiled.cta_words import MOST_ACCUMULATORS, CtaTaken
from ptxlab.check.operands.elements._images import Addresses, Apart, RegisterImage, image_of_elements, stands_as_loaded
from ptxlab.check.operands.elements._last import Judged, KnownMatrices, LastMatrices
from ptxlab.check.operands.elements._report import ElementReporter, Taken
from ptxlab.check.operands.elements._several import first_apart, parts_of
from ptxlab.check.operands.elements._sources import Matrix, Sources
from ptxlab.check.operands.elements.parts import SharedPart, TensorPart
from ptxlab.engine.word_sources import NO_SOURCE, address_in
from ptxlab.isa.effects import Asynchronous
from ptxlab.isa.operations.matrices import MatrixProduct
from ptxlab.isa.operations.products import Product
from ptxlab.machine.launch.program_facts import copies_cells
from ptxlab.machine.memory.elements import ArrayPlace
from ptxlab.machine.observe.observer import ObservedRepetition
from ptxlab.native import BoundedCache

if TYPE_CHECKING:
    from ptxlab.check.operands.words.check import Words
    from ptxlab.engine.listed_words import ListedWords
    from ptxlab.isa.context import Cta
    from ptxlab.isa.operands import Op
    from ptxlab.isa.operations import AsyncOperation
    from ptxlab.machine.launch.launch import Launch

__all__ = ["ElementCheck"]

_ATTEMPTS = 64
"""How often the images of an instruction are made; the steps of a loop are alike."""
_PAIR = 2
_BLOCK = 8
"""Elements of a row of a matrix of ldmatrix."""


class ElementCheck:
    """One for each launch."""

    def __init__(self, launch: Launch, reporter: Reporter, repetitions: Repetitions, listed: ListedWords | None) -> None:
        self._listed = listed
        self._loaded = launch.program.loaded
        asynchronous = {op.index for op in launch.program.ops if isinstance(op.effects, Asynchronous)}
        self.follows_tiles = (
            bool(self._loaded.shared or self._loaded.cells)
            or launch.facts.of(copies_cells)
            or not asynchronous.isdisjoint(self._loaded.matrices)
        )
        """Whether something is taken from shared memory that may have been copied there by tensor copies, other than all operands."""
        self._reporter = reporter
        self._repetitions = repetitions
        self._element_reporter = ElementReporter(launch, reporter, repetitions)
        self._sources: dict[Any, Sources] = {}
        self._last: dict[int, dict[Any, LastMatrices]] = {}
        """Of each CTA, by what another product may add to: the matrices of the product that has computed it, and where they begin."""
        self._taken: dict[int, CtaTaken] = {}
        self._numbers: dict[Hashable, int] = {}
        """Of accumulators of asynchronous products, the same in all CTAs."""
        self._known: dict[int, KnownMatrices] = {}
        """Matrices that compiled code knows, by their numbers."""
        self._images: BoundedCache[Any, RegisterImage] = BoundedCache(1024)
        """By matrix, and by where its words come from, less where the first one does: unrolled instructions share images."""
        self._steps: set[tuple[Judged, Judged, int, int]] = set()

    def started(self, cta: Cta, taken: CtaTaken) -> None:
        """A CTA starts; by ``taken`` compiled code knows what its products take."""
        self._last[id(cta)], self._taken[id(cta)] = {}, taken

    def ended(self, cta: Cta) -> None:
        """A CTA has exited."""
        self._last.pop(id(cta), None)
        self._taken.pop(id(cta), None)

    def takes(self, op: Op) -> bool:
        """Whether a matrix of an instruction is in registers that hold what has been loaded."""
        return op.index in self._loaded.matrices

    def multiplied_joined(self, operation: AsyncOperation, product: MatrixProduct, words: Words, cta: Cta) -> None:
        """Compare A and B in shared memory, of which threads have put words together."""
        operands = product.operands
        if operation.details is None or product.tensor_a is not None or self.takes(operation.op) or len(operands) != _PAIR:
            return
        if any(words.are_joined(operand) for operand in operands) and not any(operand.overlaps for operand in operands):
            again = self.multiplied(operation, operation.details(), cta, *[SharedPart.of(operand, words) for operand in operands])
            self._repetitions.follows((id(cta), "joined"), product.accumulator, operands, again)

    def multiplied(
        self,
        by: Executed,
        product: Product,
        cta: Cta,
        *memory: SharedPart | TensorPart,
    ) -> bool:
        """Compare matrices with each other, and with those of the instruction before that added to the same D.

        ``memory`` are those that are not in registers, A before B.

        Returns
        -------
        whether they are taken again: both are known, in shared memory, and those of the instruction before
        """
        sources = self._sources.get(_key(by, memory))
        if sources is None:
            sources = self._sources[_key(by, memory)] = Sources(by.op, product.in_registers(), memory, self._loaded, self._listed)
        if not sources.matrices:
            return False
        before = self._last_of(cta, product.accumulator, by.op).take() if product.accumulate else None
        frames = product.frames()
        known = sources.last if sources.is_repeated(frames, memory) else None
        if known is None:
            noted = sources.read(frames, memory)
            known = sources.judged.get(noted)
            if known is None:
                if sources.attempts == _ATTEMPTS:
                    return False
                sources.attempts += 1
                prepared = {part.operand.name for part in memory if isinstance(part, SharedPart) and part.prepared()}
                judged = self._judge(by, sources, prepared, self._verify(product, sources, memory, cta), cta)
                known = sources.enter(noted, judged, memory)
                if known.repeated is not None:
                    self._known[known.repeated.number] = known
            sources.last = known
        if not known.judged.both:
            return False
        self._last_of(cta, product.result, by.op).enter(known, sources.bases)
        return before is not None and self._follow(by, product, sources, memory, before, known, cta)

    def _follow(
        self,
        by: Executed,
        product: Product,
        sources: Sources,
        memory: Sequence[SharedPart | TensorPart],
        before: tuple[KnownMatrices, tuple[int, ...]],
        known: KnownMatrices,
        cta: Cta,
    ) -> bool:
        """Compare matrices with those of the instruction before; the result says whether they are taken again."""
        (last, begins), bases, own = before, sources.bases, sources.parts_of(memory)
        operands = zip(last.operands, known.operands, strict=True)
        again = bases == begins and all(one is not None and one is now for one, now in operands)
        steps = bases[0] - begins[0], bases[1] - begins[1]
        step = last.judged, known.judged, *steps
        if step not in self._steps:
            self._steps.add(step)
            sources.read(product.frames(), memory)
            # Words in shared memory that are not joined are compared as words.
            elsewhere = [not matrix.where and not sources.are_joined(i) for i, matrix in enumerate(sources.matrices)]
            images = zip(last.judged.images, known.judged.images, strict=True)
            pairs = zip(images, sources.matrices, begins, bases, elsewhere, last.operands, own, known.operands, strict=True)
            taken = [
                (Taken(matrix, one, address_in(base), operand=first), Taken(matrix, image, address_in(now), elsewhere, operand, part))
                for (one, image), matrix, base, now, elsewhere, first, part, operand in pairs
                if one is not None and image is not None
            ]
            self._element_reporter.step(by, taken, again, self._verify(product, sources, memory, cta), cta)
        if last.repeated is not None and known.repeated is not None:
            known.repeated.expect(last.repeated.number, steps)
        return again

    def _last_of(self, cta: Cta, accumulator: Any, op: Op) -> LastMatrices:
        """What has been taken for an accumulator of an instruction; compiled code knows it of those that are asynchronous."""
        others = self._last.get(id(cta))
        if others is None:
            # An operation may perform after its CTA has exited.
            others = self._last[id(cta)] = {}
        last = others.get(accumulator)
        if last is None:
            taken = self._taken.get(id(cta)) if isinstance(op.effects, Asynchronous) else None
            words = None if taken is None else taken.matrices(self._number(accumulator))
            last = others[accumulator] = LastMatrices(words, self._known)
        return last

    def _number(self, accumulator: Any) -> int:
        """The number of an accumulator, the same in all CTAs: the first item says of which CTA it is."""
        return self._numbers.setdefault(accumulator[1:], len(self._numbers))

    def repetition(self, operation: AsyncOperation, memory: Sequence[SharedPart | TensorPart], cta: int) -> ObservedRepetition | None:
        """How compiled code compares the matrices of a product, of which these are in memory; None if it cannot.

        ``cta`` is the number of the CTA in its pair, -1 if the product is that of one CTA.
        """
        sources = self._sources.get(_key(operation, memory))
        if sources is None or operation.details is None:
            return None
        if not sources.matrices:
            return ObservedRepetition()
        product, known = operation.details(), sources.last
        number = self._number(product.accumulator)
        if known is None or known.repeated is None or number >= MOST_ACCUMULATORS:
            return None
        ask, note = known.repeated.calls(number, product.accumulate, cta)
        return ObservedRepetition(ask=(ask,), note=(note,), kept=known)

    def _judge(self, by: Executed, sources: Sources, prepared: Collection[str], verified: Callable[[], bool], cta: Cta) -> Judged:
        """The images of the matrices; reports those that have none, and those that have other k than the other one.

        ``prepared`` are matrices whose arrays may have been arranged for a descriptor: nothing is known of these.
        """
        parts = sources.parts()
        images = [
            None if matrix.name in prepared else self._image(by, matrix, own, verified, cta)
            for matrix, own in zip(sources.matrices, parts, strict=True)
        ]
        if len(images) == _PAIR:
            a, b = images
            if a is not None and b is not None and not a.agrees(b):
                self._element_reporter.pair(by, sources.matrices, (a, b), parts, verified, cta)
                return Judged(())
            if None in images:
                self._compare_arrays(by, sources, prepared, verified, cta)
        return Judged(tuple(images))

    def _compare_arrays(self, by: Executed, sources: Sources, prepared: Collection[str], verified: Callable[[], bool], cta: Cta) -> None:
        """Compare the k of A and of B, of which one or both come from several arrays."""
        matrices, parts = sources.matrices, sources.parts()
        elements = [matrix.elements(own) for matrix, own in zip(matrices, parts, strict=True)]
        if prepared or not all(found.all() for found in elements) or not any(self._array_of(found) is None for found in elements):
            return
        if any(m.loads is not None and stands_as_loaded(found, m.bits) for m, found in zip(matrices, elements, strict=True)):
            return
        of_a, of_b = (
            parts_of(found, matrix.per_unit(own), partial(_fits, matrix), self._reporter.array_at)
            for matrix, own, found in zip(matrices, parts, elements, strict=True)
        )
        apart = first_apart(of_a, of_b)
        if apart is not None:
            a, b, unit = apart
            self._element_reporter.pair_of_arrays(by, matrices, (a, b), unit, elements, verified, cta)

    def _image(self, by: Executed, matrix: Matrix, parts: Addresses, verified: Callable[[], bool], cta: Cta) -> RegisterImage | None:
        """The image of a matrix; None if it is not known, or has been reported to have none."""
        first = parts.item(0)
        taken = matrix.turned, matrix.size, matrix.first.tobytes()
        key = matrix.name, matrix.where, matrix.element, *taken, parts.shape, first - address_in(first), (parts - first).tobytes()
        if matrix.listed is not None and parts.min() < 0:
            return self._new_image(by, matrix, parts, verified, cta)
        known = self._images.get(key) if first > NO_SOURCE else None
        if known is None or not known.array.holds(address_in(first)):
            known = self._new_image(by, matrix, parts, verified, cta)
            if known is not None:
                self._images[key] = known
        return known

    def _new_image(self, by: Executed, matrix: Matrix, parts: Addresses, verified: Callable[[], bool], cta: Cta) -> RegisterImage | None:
        """The same for a matrix that begins elsewhere than those before it, or whose elements are in another order."""
        elements = matrix.elements(parts)
        array = self._array_of(elements)
        if array is None:
            return None
        self._element_reporter.element_type(by, matrix, array, parts, cta)
        if not _fits(matrix, array) or (matrix.loads is not None and stands_as_loaded(elements, matrix.bits)):
            # An array that is arranged for the registers need not have rows.
            return None
        image = image_of_elements(elements, array, matrix.per_unit(parts))
        doubt = image.doubt if isinstance(image, RegisterImage) else None
        if doubt is not None and _is_matrix(array) and self._element_reporter.repair(matrix, parts, array, None):
            image = doubt
        if isinstance(image, Apart):
            # Matrices in shared memory are compared elsewhere.
            if matrix.where:
                self._element_reporter.mismatch(by, matrix, image, parts, verified, cta)
            return None
        return image

    def _array_of(self, elements: Addresses) -> ArrayPlace | None:
        """The array in which all elements lie that are not zeros."""
        known = elements[elements > NO_SOURCE]
        if not known.size:
            return None
        array = self._reporter.array_at(int(known.min()))
        return array if array is not None and array.holds(int(known.max())) else None

    def _verify(self, product: Product, sources: Sources, memory: Sequence[SharedPart | TensorPart], cta: Cta) -> Callable[[], bool]:
        """Whether the matrices are what stands where they come from; threads may have computed with it since."""

        def verified() -> bool:
            held = len(sources.matrices) - len(memory)
            codes = [product.codes(matrix.name.lower()) for matrix in sources.matrices[:held]] + [part.codes(cta) for part in memory]
            return all(
                self._reporter.all_hold(matrix.elements(parts), matrix.held(own, parts))
                for matrix, parts, own in zip(sources.matrices, sources.parts(), codes, strict=True)
            )

        return verified


def _key(by: Executed, memory: Sequence[SharedPart | TensorPart]) -> Hashable:
    """What the matrices of an instruction are known by."""
    return (by.op.index, *[part.key for part in memory]) if memory else by.op.index


def _fits(matrix: Matrix, array: ArrayPlace) -> bool:
    """Whether the elements of an array are those of a matrix."""
    return array.itemsize * 8 == matrix.unit_bits


def _is_matrix(array: ArrayPlace) -> bool:
    """Whether an array is a matrix that is larger than what a register of a warp holds."""
    return len(array.shape) == _PAIR and min(array.shape) > _BLOCK
