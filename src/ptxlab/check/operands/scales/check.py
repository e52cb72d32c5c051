"""Scale factors of block-scaled products, and the metadata of sparse ones: each belongs to the k of its matrix.

Tensor memory knows for the cells that tcgen05.cp has written from which word of a tile or of global memory they come. Instructions that
add to the same D go through k; so do their scale factors and metadata: each is taken once, or all of them equally often in a row. Other
orders repeat some and leave out others.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ptxlab.check.operands._report import Reporter
from ptxlab.check.operands.compiled.scale_tables import LONGEST, MOST_TAKERS, SourceTable, Table
from ptxlab.check.operands.compiled.scales import ArrayWord, ScaleCalls, TakenScales
from ptxlab.check.operands.elements.parts import LANES
from ptxlab.isa.operations.matrices import MatrixProduct, ScaleFactors
from ptxlab.machine.observe.observer import ObservedRepetition

if TYPE_CHECKING:
    from ptxlab.check.operands.scales.sources import TensorSources
    from ptxlab.engine.listed_words import ListedWords
    from ptxlab.isa.operands import Op
    from ptxlab.isa.operations import AsyncOperation

__all__ = ["ScaleCheck"]

_CELL = 4
"""Scale factors in a cell of tensor memory."""
_SCALES = "scale factors"
_TABLES = {("A", _SCALES): Table.OF_A, ("B", _SCALES): Table.OF_B, ("A", "metadata"): Table.METADATA}


class _Taker(NamedTuple):
    """An instruction, and the scale factors that it takes."""

    op: Op
    scales: ScaleFactors


class _Use(NamedTuple):
    """What takes scale factors, and where the first one comes from."""

    taker: _Taker
    source: tuple[int, int]


class ScaleCheck:
    """One for each launch."""

    def __init__(self, reporter: Reporter, listed: ListedWords | None) -> None:
        self._reporter = reporter
        self._listed = listed
        self._takers: list[_Taker] = []
        self._numbers: dict[Hashable, int] = {}
        """Of the takers, by what they are."""
        self._calls = ScaleCalls()

    def multiplied(self, operation: AsyncOperation, product: MatrixProduct, accumulator: int, sources: TensorSources, cta: Any) -> None:
        """Note which scale factors an instruction takes; compare those of one D when it is written anew.

        The accumulator has this number in the CTA.
        """
        for each in product.scales:
            table = sources.tables.of(accumulator, _TABLES[each.name, each.kind])
            if not product.accumulate or table.count == LONGEST:
                self._compare(table, cta)
                table.clear()
            source = sources.source(each, cta, self._reporter, self._listed)
            if source is None or table.count < 0:
                table.forget()
            else:
                table.add(self._number(operation.op, each), source, _start(product, each))

    def _number(self, op: Op, scales: ScaleFactors) -> int:
        """What numbers an instruction that takes scale factors."""
        found = self._numbers.setdefault((op.index, scales), len(self._takers))
        if found == len(self._takers):
            self._takers.append(_Taker(op, scales))
        return found

    def ended(self, sources: TensorSources, cta: Any) -> None:
        """Compare what is left at the end of a CTA."""
        for (_, table), found in sources.tables.known.items():
            if table != Table.TAKERS:
                self._compare(found, cta)

    def repetition(
        self,
        operation: AsyncOperation,
        product: MatrixProduct,
        accumulator: int,
        compared: bool,
        arrays: Sequence[ArrayWord],
        number: int,
    ) -> ObservedRepetition:
        """How compiled code notes which scale factors a product takes; ``compared``: A and B come from different arrays.

        ``arrays`` are those from which threads have copied them, ``number`` is that of the CTA in its pair.
        """
        taken = [
            TakenScales(
                self._number(operation.op, each),
                _start(product, each),
                each.column * LANES + each.lane,
                each.byte,
                _TABLES[each.name, each.kind],
            )
            for each in product.scales
        ]
        ask, note = self._calls.of(accumulator, product.accumulate, taken, compared, arrays, number)
        return ObservedRepetition(ask=(ask,), note=(note,), kept=self._calls)

    def _compare(self, table: SourceTable, cta: Any) -> None:
        """Report scale factors that are repeated while others are left out."""
        if not table.out_of_turn:
            return
        uses = [_Use(self._takers[number], source) for number, source in table.rows]
        number, wanted = _odd(uses)
        use = uses[number]
        other = next((each for i, each in enumerate(uses) if i != number and each.source == use.source), None)
        name, kind, scales = use.taker.scales.name, use.taker.scales.kind, use.taker.scales
        if other is None or not self._reporter.first(use.taker.op.index, name, kind):
            return
        first, end = scales.column, scales.column + scales.columns - 1
        selector = "" if kind == _SCALES else ", and the sparsity selector"
        address = f"check the address of the {kind} of {name}{selector}"
        by = f"set the scale factor ID of {name} to {wanted}" if wanted is not None else address
        self._reporter.add(
            "O108",
            f"two instructions that add to the same D take the same {kind} of {name}, byte {scales.byte} of columns {first} to "
            f"{end}, and other {kind} are taken less often",
            use.taker,
            cta,
            fix=f"let each instruction take the {kind} of its own k: {by}",
            details=[("the other one", self._reporter.line(other.taker.op))],
        )

    def exchanged(self, operation: AsyncOperation, product: MatrixProduct, accumulator: int, sources: TensorSources, cta: Any) -> None:
        """Report scale factors that A and B, which are of different arrays, have in common in the sum of one D."""
        takers = sources.tables.of(accumulator, Table.TAKERS)
        if not product.accumulate or takers.count > MOST_TAKERS:
            takers.clear()
        for each in product.scales:
            source = sources.source(each, cta, self._reporter, self._listed) if each.kind == _SCALES else None
            if source is None:
                continue
            own = _TABLES[each.name, each.kind]
            taker = takers.taker(source)
            if taker is None:
                takers.add(own, source)
            elif taker != own and self._reporter.first(operation.op.index, "both"):
                self._reporter.add(
                    "O108",
                    f"A and B, which are of different arrays, take the same scale factors: those of {each.name} in column {each.column} of "
                    f"tensor memory are those of the other matrix as well",
                    operation,
                    cta,
                    fix="give A and B the addresses to which their own scale factors have been copied",
                )


def _start(product: MatrixProduct, scales: ScaleFactors) -> int:
    """Where the matrix begins that they scale, -1 if it is not in shared memory."""
    return next((operand.descriptor.start for operand in product.operands if operand.name == scales.name), -1)


def _odd(uses: list[_Use]) -> tuple[int, int | None]:
    """The first instruction whose ID is not the next one, and that ID; else the first one that repeats scale factors."""
    scales = uses[0].taker.scales
    if scales.kind == _SCALES:
        in_a_cell = max(_CELL // scales.count, 1)
        for number, use in enumerate(uses):
            wanted = number % in_a_cell * scales.count
            if use.taker.scales.number != wanted:
                return number, wanted
    sources = [use.source for use in uses]
    return next((i for i, source in enumerate(sources) if source in sources[:i]), 0), None
