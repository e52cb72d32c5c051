"""The observer: follows what tensor copies place in shared memory, and compares it with what matrix instructions take."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ptxlab.check.operands._advice import advice
from ptxlab.check.operands._image import Image, Mismatch, image_of
from ptxlab.check.operands._images import PAIR, Images, is_image, tiles_under
from ptxlab.check.operands._loaded import halves_loaded, loads, loads_used_as
from ptxlab.check.operands._products import CompiledProducts, CtaMemory, CtaProduct, KnownProduct, array_of, columns_of
from ptxlab.check.operands._repetitions import ColumnSteps, Repetitions
from ptxlab.check.operands._report import Reporter, kept_matrices
from ptxlab.check.operands._rest import RestRows
from ptxlab.check.operands._results import ResultCheck
from ptxlab.check.operands._shared_tiles import PlacedTile, SharedTiles, Standing
from ptxlab.check.operands._tile_report import TileReporter
from ptxlab.check.operands.compiled.copies import CompiledCopies
from ptxlab.check.operands.compiled.cta_words import CtaTaken
from ptxlab.check.operands.compiled.lines import repeated_line
from ptxlab.check.operands.elements.check import ElementCheck
from ptxlab.check.operands.elements.parts import SharedPart, TensorPart
from ptxlab.check.operands.scales.check import ScaleCheck
from ptxlab.check.operands.scales.copies import TensorCopies
from ptxlab.check.operands.scales.sources import TensorSources
from ptxlab.check.operands.words.check import WordCheck, Words
from ptxlab.check.operands.words.images import is_image_of_words
from ptxlab.check.operands.words.report import WordReporter
from ptxlab.diagnostics import Diagnostic
from ptxlab.engine.context import Word
from ptxlab.engine.listed_words import ListedWords
from ptxlab.isa.operations.matrices import MatrixOperand, MatrixProduct
from ptxlab.isa.operations.products import Product
from ptxlab.isa.operations.tiles import TileArray
from ptxlab.machine.launch.program_facts import copies_words
from ptxlab.machine.observe.observer import ObservedRepetition, Observer
from ptxlab.native import address_of

if TYPE_CHECKING:
    from ptxlab.isa.operands import Op
    from ptxlab.isa.operations import AsyncOperation
    from ptxlab.machine.launch.cta import CtaState
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.warp.warp import Warp

__all__ = ["OperandCheck"]


class OperandCheck(Observer):
    """One for each launch."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._memory: dict[int, CtaMemory] = {}
        """Of the CTAs that have not exited."""
        self._types: dict[str, AsyncOperation] = {}
        """The element types of D, each with an instruction."""
        self._images: dict[tuple[tuple[MatrixOperand, ...], tuple[Standing, ...]], Images] = {}
        """Of the operands of an instruction, by the tiles in which they are: equal CTAs share them."""
        self._steps: set[tuple[Images, Images]] = set()
        """Pairs of instructions that have been compared."""
        self._kept = launch.facts.of(kept_matrices)
        self._reporter = Reporter(launch)
        self._repetitions = Repetitions()
        self._column_steps = ColumnSteps()
        self._tile_reporter = TileReporter(self._reporter, self._repetitions)
        self._rest = RestRows(launch)
        self._word_check = WordCheck(WordReporter(self._reporter, self._repetitions), self._rest, self._repetitions)
        self._results = ResultCheck(launch, self._reporter)
        if self._results.needed:
            self.exited = self._results.exited  # type: ignore[method-assign]
        loaded = launch.program.loaded
        self._by_words = launch.facts.of(copies_words)
        self._by_bytes = launch.program.stores_parts_of_words
        self._listed = ListedWords() if launch.program.joins_parts_of_words else None
        self._noted = self._by_words or bool(loaded.matrices or loaded.cells or loaded.with_results)
        self._elements = ElementCheck(launch, self._reporter, self._repetitions, self._listed)
        self._copies = CompiledCopies(self._noted, self._elements.follows_tiles)
        self._typed: set[tuple[int, str, str, TileArray]] = set()
        """Instructions, operands and arrays whose element types have been compared."""
        self._alike: set[tuple[tuple[MatrixOperand, ...], tuple[MatrixOperand, ...]]] = set()
        """Operands of an instruction and of the one before, of which none has fewer rows."""
        self._scale_check = ScaleCheck(self._reporter, self._listed)
        self._compiled = CompiledProducts(
            launch, self._reporter, self._elements, self._word_check, self._scale_check, self._repetitions, self._alike, self._steps
        )
        self._tensor_copies = TensorCopies(self._memory, self._tile_reporter, self._word_check, bool(loaded.cells))

    def started(self, ctas: tuple[CtaState, ...]) -> None:
        every = CtaTaken.of_cluster(len(ctas))
        noted = Words.of_cluster(every, len(ctas[0].shared), self._by_bytes, self._listed) if self._noted else [None] * len(ctas)
        for cta, words, taken in zip(ctas, noted, every, strict=True):
            memory = self._memory[id(cta)] = CtaMemory(cta, SharedTiles(cta, taken, self._copies), words, taken)
            self._elements.started(cta, taken)
            if self._launch.program.loaded.cells:
                memory.tensor = TensorSources.of(taken)

    def fill(self, warp: Warp) -> None:
        """Let compiled code note where the words come from that it copies."""
        memory = self._memory[id(warp.cta)]
        words = memory.words
        warp.words[Word.OPERANDS_TAKEN] = memory.taken.address
        if words is not None:
            warp.words[Word.COPIED] = address_of(words.sources)
            if self._by_bytes:
                warp.words[Word.COPIED_BYTES] = address_of(words.bytes)
        if self._listed is not None:
            warp.words[Word.LISTED_WORDS] = self._listed.address
        if memory.tensor is not None and self._launch.program.loaded.cells:
            warp.words[Word.TENSOR_SOURCES] = address_of(memory.tensor.addresses)

    def ended(self, cta: CtaState) -> None:
        memory = self._memory.pop(id(cta))
        if memory.tensor is not None:
            self._scale_check.ended(memory.tensor, cta)
        for product in memory.products:
            product.watched = None
        self._elements.ended(cta)
        self._results.ended(cta)

    def performing(self, operation: AsyncOperation) -> None:
        if operation.product is not None:
            product = operation.product()
            known: KnownProduct = product.watched or self._met(operation, product)
            for part in known.ctas:
                self._multiplied(operation, product, part)
            if known.beside:
                self._multiplied_beside(operation, product, known)
        elif operation.tiles is not None:
            for tile in operation.tiles():
                memory = self._memory.get(id(tile.cta))
                if memory is not None:
                    memory.shared.copied(tile, operation.op)
                    if memory.words is not None:
                        memory.words.placed(tile, self._elements.follows_tiles)
        elif operation.bytes_copied is not None:
            for copied in operation.bytes_copied():
                memory, origin = self._memory.get(id(copied.cta)), None if copied.origin is None else self._words_of(copied.origin[0])
                if memory is not None and memory.words is not None:
                    memory.words.brought(copied, origin)
                    memory.shared.forget(copied.offset, copied.size)
        elif operation.words is not None:
            words = self._words_of(operation.cta)
            if words is not None:
                words.copied(operation.words)
        elif operation.tensor_copy is not None:
            self._tensor_copies.copied(operation, operation.tensor_copy())

    def repetition(self, operation: AsyncOperation) -> ObservedRepetition | None:
        if operation.tensor_copy is not None:
            return self._tensor_copies.repetition(operation, operation.tensor_copy())
        if all(each is None for each in (operation.product, operation.tiles, operation.bytes_copied, operation.words)):
            return ObservedRepetition()
        if operation.bytes_copied is not None:
            return repeated_line(operation) if self._noted else ObservedRepetition()
        return (self._compiled if operation.tiles is None else self._copies).repetition(operation)

    def _words_of(self, cta: Any) -> Words | None:
        """From where the words of a CTA come, if that is followed."""
        memory = self._memory.get(id(cta))
        return None if memory is None else memory.words

    def _met(self, operation: AsyncOperation, product: MatrixProduct) -> KnownProduct:
        """A product that is new, or one of whose CTAs has exited: an operation may perform after that."""
        self._types.setdefault(product.d, operation)
        memories = [memory for cta in product.ctas if (memory := self._memory.get(id(cta))) is not None]
        if memories:
            self._repetitions.taken(product.operands)
        if self._results.needed:
            self._results.multiplied(product)
        parts = []
        for memory in memories:
            memory.products.append(product)
            accumulator = memory.accumulators.get(product.accumulator)
            if accumulator is None:
                accumulator = memory.accumulators[product.accumulator] = self._compiled.accumulator(product, memory.taken)
            accumulator.words.has(columns_of(product))
            parts.append(CtaProduct(memory, accumulator))
        beside = bool(product.tensor_a is not None or product.scales or self._launch.program.loaded.matrices)
        product.watched = known = KnownProduct(parts, beside)
        return known

    def _multiplied_beside(self, operation: AsyncOperation, product: MatrixProduct, known: KnownProduct) -> None:
        """A matrix may not be in shared memory, and there may be scale factors."""
        if operation.details is not None and (product.tensor_a is not None or self._elements.takes(operation.op)):
            self._multiplied_elsewhere(operation, operation.details, product)
        memory = self._memory.get(id(product.ctas[0])) if product.scales else None
        if memory is not None and memory.tensor is not None:
            about = operation, product, known.ctas[0].accumulator.number, memory.tensor, memory.cta
            self._scale_check.multiplied(*about)
            if self._compiled.of_two_arrays(product, memory):
                self._scale_check.exchanged(*about)

    def multiplied(self, warp: Warp, details: Callable[[], Product]) -> None:
        """An instruction of one warp has multiplied matrices in registers."""
        if self._elements.takes(warp.op):
            self._elements.multiplied(warp, details(), warp.cta)

    def _multiplied_elsewhere(self, operation: AsyncOperation, details: Callable[[], Product], product: MatrixProduct) -> None:
        """An instruction may multiply an A in registers or in tensor memory with a B in shared memory."""
        a = product.tensor_a
        if a is None:
            if self._elements.takes(operation.op):
                cta = product.ctas[0]
                self._elements.multiplied(operation, details(), cta, *self._parts_of(product, cta, None))
        elif a.bits and operation.op.index not in self._kept:
            for number, cta in enumerate(product.ctas[: len(a.lanes)]):
                memory = self._memory.get(id(cta))
                if memory is not None and memory.tensor is not None:
                    self._elements.multiplied(operation, details(), cta, *self._parts_of(product, cta, number))

    def _parts_of(self, product: MatrixProduct, cta: Any, number: int | None) -> tuple[TensorPart | SharedPart, ...]:
        """The matrices in the memory of a CTA that are compared element by element; A is in tensor memory if the CTA has a number."""
        memory = self._memory.get(id(cta))
        parts = None if memory is None else memory.parts.get(product)
        if parts is None:
            parts = self._other(product, cta)
            if number is not None and product.tensor_a is not None and memory is not None and memory.tensor is not None:
                parts = TensorPart(product.tensor_a, number, memory.tensor.addresses.reshape(-1)), *parts
            if memory is not None:
                memory.parts[product] = parts
        return parts

    def _other(self, product: MatrixProduct, cta: Any) -> tuple[SharedPart, ...]:
        """The B in shared memory beside an A that is not; nothing if it is not known from where its words come."""
        words, operand = self._words_of(cta), product.operands[-1]
        if words is None or operand.overlaps:
            return ()
        return (SharedPart.of(operand, words),)

    def _multiplied(self, operation: AsyncOperation, product: MatrixProduct, part: CtaProduct) -> None:
        """Compare the operands in one CTA with what was copied, and with those of the instruction before that added to the same D."""
        memory, accumulator, operands = part.memory, part.accumulator, product.operands
        shared, cta = memory.shared, memory.cta
        before_operands = accumulator.operands if product.accumulate else None
        if self._by_words and (words := memory.words) is not None:
            known = self._word_check.multiplied(operation, product, words, accumulator.words, cta)
            if not known and self._listed is not None and operation.op.index not in self._kept:
                self._elements.multiplied_joined(operation, product, words, cta)
        accumulator.takes(operands)
        if before_operands is not part.alike and before_operands is not None:
            if (before_operands, operands) not in self._alike:
                self._compare_sizes(operation, product, before_operands, cta)
            else:
                part.alike = before_operands
        moved = 0
        if product.tensor_a is not None:
            column, columns = product.tensor_a.column, product.tensor_a.columns
            last = accumulator.words.column if product.accumulate else None
            moved = 0 if last is None else column - last
            accumulator.words.column = column
            self._column_steps.taken(column)
            if 0 < abs(moved) < columns:
                self._reporter.wrong_tensor_step(operation, moved, columns, cta)
        if self._by_words and not shared.placed:
            part.images = None
            accumulator.takes_no_tiles()
            return
        standing = shared.standing(operands)
        images = self._images.get((operands, standing))
        if images is None or not images.current(shared):
            images = self._images[operands, standing] = self._compared(operation, product, standing, shared, cta)
        placed = [None if offset is None else shared.placed[offset] for offset in images.offsets]
        kept = self._kept.get(operation.op.index)
        if kept is not None:
            placed = [None if operand.name == kept else held for operand, held in zip(operands, placed, strict=True)]
        before = accumulator.tiles(shared) if product.accumulate else None
        accumulator.takes_tiles(images, placed, shared)
        part.images = images
        part.before = None if before is None else before[0]
        in_same_tiles = before is not None and None not in placed and before[1] == placed
        again = in_same_tiles and before is not None and before[0].repeats(images)
        if again or self._repetitions.runs:
            self._repetitions.follows(id(cta), product.accumulator, operands, again)
        if before is not None and in_same_tiles:
            if product.tensor_a is not None and moved > product.tensor_a.columns and before[0].leads_to(images):
                column, columns = product.tensor_a.column, product.tensor_a.columns
                report = partial(self._reporter.wrong_tensor_step, operation, moved, columns, cta)
                self._column_steps.over(column - moved, columns, moved, report)
            if (before[0], images) not in self._steps:
                self._steps.add((before[0], images))
                self._tile_reporter.step(operation, before[0].located(before[1]), images.located(placed), shared, cta)
        elif not images.agree:
            self._tile_reporter.pair(operation, images.located(placed), shared, cta)

    def _compare_sizes(self, operation: AsyncOperation, product: MatrixProduct, before: tuple[MatrixOperand, ...], cta: Any) -> None:
        """Report operands that begin in one row with those of the instruction before, which added to the same D, and have fewer rows."""
        smaller = []
        for one, other in ((a, b) for a in before for b in product.operands if a.name == b.name):
            rows = one.placed.index.rows, other.placed.index.rows
            if one is not other and rows[0] != rows[1] and one.in_row_of(other):
                smaller.append((one, other))
        if not smaller:
            self._alike.add((before, product.operands))
        for one, other in smaller:
            if array_of(other, self._memory[id(cta)], self._reporter) is not None:
                self._fewer_rows(operation, one, other, len(product.ctas), cta)

    def _fewer_rows(self, operation: AsyncOperation, one: MatrixOperand, other: MatrixOperand, ctas: int, cta: Any) -> None:
        """Report operands that begin in one row and have different numbers of rows; the larger number fits if so many were copied."""
        smaller, larger = sorted((one, other), key=lambda operand: operand.placed.index.rows)
        fitting = larger if self._is_known(larger, cta) else smaller
        self._reporter.fewer_rows(operation, one, other, fitting.placed.index.rows * ctas, cta)

    def _is_known(self, operand: MatrixOperand, cta: Any) -> bool:
        """Whether an operand is an image of what was copied."""
        shared, words = self._memory[id(cta)].shared, self._memory[id(cta)].words
        if shared.at(operand.descriptor.start) is not None:
            return operand.placed.bounds[1] <= len(shared.cta.shared) and is_image(operand, shared, operand.chunks)
        return words is None or is_image_of_words(operand, words.sources)

    def _compared(
        self, operation: AsyncOperation, product: MatrixProduct, standing: tuple[Standing, ...], shared: SharedTiles, cta: Any
    ) -> Images:
        """The images of the operands in a CTA; reports those that are not images of what was copied."""
        found = [self._image(operation, operand, shared, cta) for operand in product.operands]
        images: list[Image | None] = []
        offsets: list[int | None] = []
        for number, (operand, (image, under)) in enumerate(zip(product.operands, found, strict=True)):
            if isinstance(image, Mismatch):
                other = found[1 - number][0] if len(found) == PAIR else None
                self._tile_reporter.mismatch(operation, operand, image, other if isinstance(other, Image) else None, shared, cta)
            known = image if isinstance(image, Image) else None
            images.append(known)
            offsets.append(None if known is None else under[known.first].tile.offset)
            if known is not None:
                typed = operation.op.index, operand.name, operand.element, under[known.first].tile.array
                if typed not in self._typed:
                    self._typed.add(typed)
                    self._tile_reporter.element_type(operation, operand, under[known.first], cta)
                self._rest.multiplied(operation, product, operand, partial(is_image, operand, shared), cta)
        arrays = tuple(tiles_under(under) for _, under in found)
        return Images(product.operands, arrays, tuple(images), tuple(offsets), standing)

    def _image(
        self, operation: AsyncOperation, operand: MatrixOperand, shared: SharedTiles, cta: Any
    ) -> tuple[Image | Mismatch | None, list[PlacedTile]]:
        """The image of an operand, None if it is not known, and the tiles in which it lies."""
        if operand.overlaps:
            self._tile_reporter.overlapping(operation, operand, shared, cta)
            return None, []
        under = shared.under(operand)
        key = tiles_under(under)
        image: Image | Mismatch | None = operand.known.get(key)
        if image is None:
            image = operand.known[key] = self._image_in(operation, operand, shared, under, cta)
        return image, under

    def _image_in(
        self, operation: AsyncOperation, operand: MatrixOperand, shared: SharedTiles, under: list[PlacedTile], cta: Any
    ) -> Image | Mismatch | None:
        """The image of an operand in these tiles; None if part of it is not known."""
        entries = shared.entries().take(operand.chunks)
        if entries.all():
            return image_of(operand, entries, {held.number: held.tile for held in under})
        if under and all(held.gaps for held in under):
            self._tile_reporter.gaps(operation, operand, entries, under[0], shared, cta)
        return None

    def advice(self, operand: MatrixOperand, cta: Any) -> str:
        """The descriptor that reads what was copied to where this one begins, or how many rows of it there are."""
        memory = self._memory.get(id(cta))
        return advice(operand, *(None, None) if memory is None else (memory.shared, memory.words))

    def finished(self) -> tuple[Diagnostic, ...]:
        """Compare the element type of D with the types as which its elements are used, and its size with that of the tiles."""
        for report in (*self._repetitions.mistakes(), *self._column_steps.mistakes()):
            report()
        for rest in self._rest.unused():
            self._reporter.unused_rows(rest)
        program, only = self._launch.program, len(self._types) == 1
        if "f16" in self._types:
            # Where some D have another type, all that is loaded must be used as f32: which load reads which D is not known.
            used = loads_used_as(self._launch, "f32", "float32")
            if used and (only or len(used) == loads(program)):
                self._reporter.read_as_f32(self._types["f16"], *next(iter(used.values())))
        elif only and "f32" in self._types and (packed := halves_loaded(program)) is not None:
            self._reporter.read_as_f16(self._types["f32"], packed)
        return ()

    def retire_hook(self, op: Op) -> None:
        """Instructions of warps are not observed."""
        return

    def allows_direct_completion(self, op: Op) -> bool:
        return True
