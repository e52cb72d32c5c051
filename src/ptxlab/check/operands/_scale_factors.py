"""Scale factors of block-scaled products, and the metadata of sparse ones: each belongs to the k of its matrix.

Tensor memory knows for the cells that tcgen05.cp has written from which word of a tile or of global memory they come. Instructions that
add to the same D go through k; so do their scale factors and metadata: each is taken once, or all of them equally often in a row. Other
orders repeat some and leave out others.
"""

from __future__ import annotations

from dataclasses import field
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.check.operands._report import Reporter
from ptxlab.check.operands.elements.slots import expanded_addresses
from ptxlab.check.operands.words.images import words_in_chunks
from ptxlab.engine.word_sources import NO_SOURCE
from ptxlab.isa.operations.tiles import CHUNK, MatrixProduct, ScaleFactors, TensorCopy
from ptxlab.layout import decompression

if TYPE_CHECKING:
    from ptxlab.check.operands._shared_tiles import Entries
    from ptxlab.check.operands.words.check import Words
    from ptxlab.engine.listed_words import ListedWords
    from ptxlab.isa.operations import AsyncOperation

__all__ = ["ScaleCheck", "TensorSources"]

_CELL = 4
"""Bytes of a cell of tensor memory, and scale factors in it."""
_WORDS = CHUNK // _CELL
_IN_GLOBAL = 1 << 62
"""Added to addresses, so that they are not taken for words of tiles."""
_ROW = 128
_SCALES = "scale factors"
_LONGEST = 256
"""Instructions that are compared at a time."""


class _Use(NamedTuple):
    """An instruction, the scale factors that it takes, where the first one comes from, and where the matrix begins that they scale."""

    operation: AsyncOperation
    scales: ScaleFactors
    source: tuple[int, int]
    start: int


@dataclass(slots=True, eq=False)
class TensorSources:
    """Of the tensor memory of one CTA where each cell comes from.

    Attributes
    ----------
    codes, values : ``[column, lane]`` of what tcgen05.cp has copied; 0 where it is not known, and what was copied there
    addresses : of all that has been copied or stored the global addresses, as in `ptxlab.engine.context.Word.TENSOR_SOURCES`
    uses : by accumulator and matrix those since D was last written anew; None if one of them is not known
    takers : by accumulator, and by where scale factors come from, the matrix that they have scaled
    """

    codes: NDArray[np.int64] = field(default_factory=lambda: np.zeros((512, 128), np.int64))
    values: NDArray[np.uint32] = field(default_factory=lambda: np.zeros((512, 128), np.uint32))
    addresses: NDArray[np.int64] = field(default_factory=lambda: np.zeros((512, 128), np.int64))
    uses: dict[Any, list[_Use] | None] = field(default_factory=dict)
    takers: dict[Any, dict[tuple[int, int], str]] = field(default_factory=dict)

    def copied(self, copy: TensorCopy, cta: Any, entries: Entries, words: Words | None) -> None:
        """tcgen05.cp copies chunks, which come from ``entries``; each CTA of a pair its own. Expanded chunks hold no scale factors."""
        chunks, entries = copy.source.chunks, entries[..., None]
        codes = np.where(entries > 0, entries * _WORDS + np.arange(_WORDS), 0)
        known = np.zeros_like(codes)
        if words is not None:
            known = words_in_chunks(words.addresses, chunks)
            words.list_words(chunks[..., None] * _WORDS + np.arange(_WORDS), known)
            codes = np.where((known > NO_SOURCE) & (codes == 0), known + _IN_GLOBAL, codes)
        if copy.expanded:
            codes, known = np.zeros_like(codes), expanded_addresses(known, decompression(copy.expanded).bits)
        values = cta.shared[: len(cta.shared) // CHUNK * CHUNK].view(np.uint32).reshape(-1, _WORDS).take(chunks, axis=0)
        rows, cells = len(chunks), (slice(copy.column, copy.column + chunks.shape[1] * _WORDS), copy.lanes.T)
        self.codes[cells] = codes.reshape(rows, -1).T[:, None]
        self.addresses[cells] = known.reshape(rows, -1).T[:, None]
        self.values[cells] = values.reshape(rows, -1).T[:, None]

    def source(self, scales: ScaleFactors, cta: Any, reporter: Reporter, listed: ListedWords | None) -> tuple[int, int] | None:
        """Where the first scale factor of an instruction comes from; None if it is not known, or has been overwritten since."""
        at = scales.column, scales.lane
        code, word, address = self.codes.item(at), cta.tensor.words.item(at), self.addresses.item(at)
        if code and self.values.item(at) == word:
            return code, scales.byte
        if address < 0 and listed is not None:
            byte = listed.bytes_of(np.array([address])).item(scales.byte)
            held = word >> 8 * scales.byte & 0xFF
            return (byte + _IN_GLOBAL, 0) if byte > NO_SOURCE and reporter.holds(byte, held, 1) else None
        # tcgen05.st has stored what it has loaded.
        return (address + _IN_GLOBAL, scales.byte) if address > NO_SOURCE and reporter.holds(address, word) else None


class ScaleCheck:
    """One for each launch."""

    def __init__(self, reporter: Reporter, listed: ListedWords | None) -> None:
        self._reporter = reporter
        self._listed = listed

    def multiplied(self, operation: AsyncOperation, product: MatrixProduct, sources: TensorSources, cta: Any) -> None:
        """Note which scale factors an instruction takes; compare those of one D when it is written anew."""
        for each in product.scales:
            key = product.accumulator, each.name, each.kind
            uses = sources.uses.get(key, [])
            if not product.accumulate or (uses is not None and len(uses) == _LONGEST):
                self._compare(uses, cta)
                uses = []
            source = sources.source(each, cta, self._reporter, self._listed)
            if uses is not None and source is not None:
                start = next((operand.descriptor.start for operand in product.operands if operand.name == each.name), -1)
                uses.append(_Use(operation, each, source, start))
                sources.uses[key] = uses
            else:
                sources.uses[key] = None

    def ended(self, sources: TensorSources, cta: Any) -> None:
        """Compare what is left at the end of a CTA."""
        for uses in sources.uses.values():
            self._compare(uses, cta)
        sources.uses.clear()

    def _compare(self, uses: list[_Use] | None, cta: Any) -> None:
        """Report scale factors that are repeated while others are left out."""
        if not uses or (_regular([use.source for use in uses]) and not _again_in_a_row(uses)):
            return
        number, wanted = _odd(uses)
        use = uses[number]
        other = next((each for i, each in enumerate(uses) if i != number and each.source == use.source), None)
        name, kind, scales = use.scales.name, use.scales.kind, use.scales
        if other is None or not self._reporter.first(use.operation.op.index, name, kind):
            return
        first, end = scales.column, scales.column + scales.columns - 1
        selector = "" if kind == _SCALES else ", and the sparsity selector"
        address = f"check the address of the {kind} of {name}{selector}"
        by = f"set the scale factor ID of {name} to {wanted}" if wanted is not None else address
        self._reporter.add(
            "O108",
            f"two instructions that add to the same D take the same {kind} of {name}, byte {scales.byte} of columns {first} to "
            f"{end}, and other {kind} are taken less often",
            use.operation,
            cta,
            fix=f"let each instruction take the {kind} of its own k: {by}",
            details=[("the other one", self._reporter.line(other.operation.op))],
        )

    def exchanged(self, operation: AsyncOperation, product: MatrixProduct, sources: TensorSources, cta: Any) -> None:
        """Report scale factors that A and B, which are of different arrays, have in common in the sum of one D."""
        takers = sources.takers.setdefault(product.accumulator, {})
        if not product.accumulate or len(takers) > 2 * _LONGEST:
            takers.clear()
        for each in product.scales:
            source = sources.source(each, cta, self._reporter, self._listed) if each.kind == _SCALES else None
            if (
                source is not None
                and takers.setdefault(source, each.name) != each.name
                and self._reporter.first(operation.op.index, "both")
            ):
                self._reporter.add(
                    "O108",
                    f"A and B, which are of different arrays, take the same scale factors: those of {each.name} in column {each.column} of "
                    f"tensor memory are those of the other matrix as well",
                    operation,
                    cta,
                    fix="give A and B the addresses to which their own scale factors have been copied",
                )


def _regular(sources: list[tuple[int, int]]) -> bool:
    """Whether all sources are taken equally often in a row, at the end perhaps less often; once, or all in turn again and again."""
    runs = [(source, len(list(group))) for source, group in groupby(sources)]
    lengths = [length for _, length in runs]
    if any(length != lengths[0] for length in lengths[:-1]) or lengths[-1] > lengths[0]:
        return False
    taken = [source for source, _ in runs]
    period = len(set(taken))
    return len(taken) % period == 0 and taken == taken[:period] * (len(taken) // period)


def _again_in_a_row(uses: list[_Use]) -> bool:
    """Whether scale factors that others have followed are taken again, for another k in the same rows of 128 bytes."""
    before: dict[tuple[tuple[int, int], int], int] = {}
    for _, run in groupby(uses, key=lambda use: use.source):
        taken = list(run)
        if any(before.get((use.source, use.start // _ROW), use.start) != use.start for use in taken if use.start >= 0):
            return True
        before.update({(use.source, use.start // _ROW): use.start for use in taken})
    return False


def _odd(uses: list[_Use]) -> tuple[int, int | None]:
    """The first instruction whose ID is not the next one, and that ID; else the first one that repeats scale factors."""
    scales = uses[0].scales
    if scales.kind == _SCALES:
        in_a_cell = max(_CELL // scales.count, 1)
        for number, use in enumerate(uses):
            wanted = number % in_a_cell * scales.count
            if use.scales.number != wanted:
                return number, wanted
    sources = [use.source for use in uses]
    return next((i for i, source in enumerate(sources) if source in sources[:i]), 0), None
