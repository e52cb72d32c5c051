"""From where the cells of tensor memory come, and which scale factors and metadata instructions have taken there."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.check.operands.compiled.cells import IN_GLOBAL, WORDS_OF_CHUNK
from ptxlab.check.operands.compiled.scale_tables import ScaleTables
from ptxlab.check.operands.elements.slots import expanded_addresses
from ptxlab.check.operands.words.images import words_in_chunks
from ptxlab.engine.word_sources import NO_SOURCE
from ptxlab.isa.operations.matrices import ScaleFactors, TensorCopy
from ptxlab.isa.operations.tiles import CHUNK
from ptxlab.layout import decompression
from ptxlab.native import address_of

if TYPE_CHECKING:
    from ptxlab.check.operands._report import Reporter
    from ptxlab.check.operands._shared_tiles import Entries
    from ptxlab.check.operands.compiled.cta_words import CtaTaken
    from ptxlab.check.operands.words.check import Words
    from ptxlab.engine.listed_words import ListedWords

__all__ = ["TensorSources"]


@dataclass(slots=True, eq=False)
class TensorSources:
    """Of the tensor memory of one CTA where each cell comes from.

    Attributes
    ----------
    codes, values : ``[column, lane]`` of what tcgen05.cp has copied; 0 where it is not known, and what was copied there
    addresses : of all that has been copied or stored the global addresses, as in `ptxlab.engine.context.Word.TENSOR_SOURCES`
    tables : the scale factors and metadata that have been taken since D was last written anew
    """

    codes: NDArray[np.int64] = field(default_factory=lambda: np.zeros((512, 128), np.int64))
    values: NDArray[np.uint32] = field(default_factory=lambda: np.zeros((512, 128), np.uint32))
    addresses: NDArray[np.int64] = field(default_factory=lambda: np.zeros((512, 128), np.int64))
    tables: ScaleTables = field(default_factory=ScaleTables)

    @classmethod
    def of(cls, taken: CtaTaken) -> TensorSources:
        """Those of a CTA, of which compiled code is told."""
        found = cls()
        taken.follow_cells(address_of(found.addresses), address_of(found.codes), address_of(found.values), found.tables.address)
        return found

    def copied(self, copy: TensorCopy, cta: Any, entries: Entries, words: Words | None) -> None:
        """tcgen05.cp copies chunks, which come from ``entries``; each CTA of a pair its own. Expanded chunks hold no scale factors."""
        chunks, entries = copy.source.chunks, entries[..., None]
        codes = np.where(entries > 0, entries * WORDS_OF_CHUNK + np.arange(WORDS_OF_CHUNK), 0)
        known = np.zeros_like(codes)
        if words is not None:
            known = words_in_chunks(words.addresses, chunks)
            words.list_words(chunks[..., None] * WORDS_OF_CHUNK + np.arange(WORDS_OF_CHUNK), known)
            codes = np.where((known > NO_SOURCE) & (codes == 0), known + IN_GLOBAL, codes)
        if copy.expanded:
            codes, known = np.zeros_like(codes), expanded_addresses(known, decompression(copy.expanded).bits)
        values = cta.shared[: len(cta.shared) // CHUNK * CHUNK].view(np.uint32).reshape(-1, WORDS_OF_CHUNK).take(chunks, axis=0)
        rows, cells = len(chunks), (slice(copy.column, copy.column + chunks.shape[1] * WORDS_OF_CHUNK), copy.lanes.T)
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
            return (byte + IN_GLOBAL, 0) if byte > NO_SOURCE and reporter.holds(byte, held, 1) else None
        # tcgen05.st has stored what it has loaded.
        return (address + IN_GLOBAL, scales.byte) if address > NO_SOURCE and reporter.holds(address, word) else None
