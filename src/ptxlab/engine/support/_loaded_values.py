"""From where values come that lanes load, and store to shared memory as they are: the addresses, noted for an observer."""

from __future__ import annotations

from functools import reduce
from operator import and_

from ptxlab.engine.context import Word
from ptxlab.engine.program import SOURCE_ROW
from ptxlab.engine.support.accesses import lane_address
from ptxlab.engine.support.word_parts import define_listed, half_of, of_parts, part_at, part_of, regular_of_parts
from ptxlab.engine.word_sources import IN_BYTES, NO_SOURCE
from ptxlab.isa.address_space import SHARED_RANK_SHIFT
from ptxlab.layout import tensor_fragment_layout
from ptxlab.native.builder import Module, Value

__all__ = [
    "emit_cells_stored_from",
    "emit_columns_stored_from",
    "emit_elements_loaded",
    "emit_elements_stored_from",
    "emit_loaded_from",
    "emit_matrix_loaded",
    "emit_rows_stored_from",
    "emit_stored_from",
    "emit_words_loaded",
]

_BYTES = 4
"""Of a word."""


def emit_loaded_from(module: Module, source: str) -> None:
    """Emit ``loadedfrom_SOURCE``: note the addresses of a load in its row, and zeros for the lanes that are skipped.

    SOURCE is the width in bits of the addresses in the row; ``u``: the address is uniform, it is the offset.
    """
    c, (context, mask, skipped, row, offset, place) = module.define(
        f"void loadedfrom_{source}(ptr context, i32 mask, i32 skipped, ptr row, i64 offset, ptr place)"
    )
    with c.when(context.word(Word.COPIED).ne(0)):
        with c.each_bit(mask) as lane:
            place.store(lane_address(source, row, offset, lane), lane)
        with c.each_bit(skipped) as lane:
            place.store(c.const("i64", NO_SOURCE), lane)
    c.ret()


def emit_words_loaded(module: Module, in_bytes: bool) -> None:
    """Emit ``wordsloaded``: note from where the words come that lanes load from shared memory, in a row for each word.

    ``in_bytes``: only the sources of bytes may be right (`ptxlab.engine.word_sources.IN_BYTES`); the name then ends in ``_bytes``.
    """
    _define_noted(module, in_bytes)
    c, (context, mask, skipped, hosts, count, rows) = module.define(
        f"void wordsloaded{_suffix(in_bytes)}(ptr context, i32 mask, i32 skipped, ptr hosts, i32 count, ptr rows)"
    )
    with c.when(context.word(Word.COPIED).ne(0)):
        with c.each_bit(mask) as lane:
            place = c.call("noted", "ptr", context, hosts.load("i64", lane))
            with c.loop(count.to("i64")) as i:
                rows.at(i * SOURCE_ROW).store(_held(context, place, i, in_bytes), lane)
        _note_zeros(skipped, count, rows)
    c.ret()


def emit_elements_loaded(module: Module, size: int, in_bytes: bool) -> None:
    """Emit ``elementsloaded_SIZE``: the same for elements of fewer bytes, with a row for each."""
    _define_noted(module, in_bytes)
    c, (context, mask, skipped, hosts, count, rows) = module.define(
        f"void elementsloaded_{size}{_suffix(in_bytes)}(ptr context, i32 mask, i32 skipped, ptr hosts, i32 count, ptr rows)"
    )
    with c.when(context.word(Word.COPIED).ne(0)):
        with c.each_bit(mask) as lane, c.loop(count.to("i64")) as i:
            host = hosts.load("i64", lane) + i * size
            held = _held(context, c.call("noted", "ptr", context, host), 0, in_bytes)
            rows.at(i * SOURCE_ROW).store(part_of(held, host, size), lane)
        _note_zeros(skipped, count, rows)
    c.ret()


def emit_matrix_loaded(module: Module, transposed: bool, in_bytes: bool) -> None:
    """Emit ``rowsloaded`` or, of a transposed ldmatrix, ``columnsloaded``: the same for ldmatrix, with a row for each register.

    ``hosts`` has the rows of the matrices, eight for each register.
    """
    _define_noted(module, in_bytes or transposed)
    name = ("columnsloaded" if transposed else "rowsloaded") + _suffix(in_bytes)
    c, (context, mask, skipped, hosts, count, rows) = module.define(
        f"void {name}(ptr context, i32 mask, i32 skipped, ptr hosts, i32 count, ptr rows)"
    )

    def source(index: Value, row: Value, word: Value) -> Value:
        return _held(context, c.call("noted", "ptr", context, hosts.load("i64", index * 8 + row) + (word << 2)), 0, in_bytes)

    with c.when(context.word(Word.COPIED).ne(0)):
        with c.loop(count.to("i64")) as i, c.each_bit(mask) as lane:
            line, within = lane >> 2, lane & 3
            if transposed:
                word, upper = line >> 1, line & 1
                found = of_parts(context, [half_of(source(i, (within << 1) + more, word), upper) for more in (0, 1)])
            else:
                found = source(i, line, within)
            rows.at(i * SOURCE_ROW).store(found, lane)
        _note_zeros(skipped, count, rows)
    c.ret()


def _note_zeros(skipped: Value, count: Value, rows: Value) -> None:
    """Note that the registers of skipped lanes are zero."""
    c = rows.function
    with c.loop(count.to("i64")) as i, c.each_bit(skipped) as lane:
        rows.at(i * SOURCE_ROW).store(c.const("i64", NO_SOURCE), lane)


def emit_stored_from(module: Module, parts: int) -> None:
    """Emit ``storedfrom_PARTS``: note from where the words come that lanes store.

    The table has three numbers for each part of a word: those of a `ptxlab.engine.program.NotedPart`, or a row of -1 where none is known.
    """
    _define_noted(module, parts > 1)
    c, (context, mask, hosts, frame, count, table) = module.define(
        f"void storedfrom_{parts}(ptr context, i32 mask, ptr hosts, ptr frame, i32 count, ptr table)"
    )
    with c.when(context.word(Word.COPIED).ne(0)), c.each_bit(mask) as lane:
        place = c.call("noted", "ptr", context, hosts.load("i64", lane))
        with c.when(place.ne(0)), c.loop(count.to("i64")) as i:
            place.store(_source(context, frame, table, i, lane, parts), i)
    c.ret()


def emit_elements_stored_from(module: Module, size: int, parts: int) -> None:
    """Emit ``elementsstoredfrom_SIZE_PARTS``: the same for elements of fewer bytes.

    The other bytes of the word are where they have been noted, if nothing else has been noted of the word since then.
    """
    _define_noted(module)
    c, (context, mask, hosts, frame, count, table) = module.define(
        f"void elementsstoredfrom_{size}_{parts}(ptr context, i32 mask, ptr hosts, ptr frame, i32 count, ptr table)"
    )
    copied, every = context.word(Word.COPIED), context.pointer(Word.COPIED_BYTES)
    with c.when(copied.ne(0)), c.each_bit(mask) as lane, c.loop(count.to("i64")) as i:
        host = hosts.load("i64", lane) + i * size
        place = c.call("noted", "ptr", context, host)
        with c.when(place.ne(0)):
            noted = every.at((place.convert("ptrtoint", "i64") - copied) << 2)
            word, held = place.load("i64", 0), [noted.load("i64", k) for k in range(_BYTES)]
            current = word.eq(IN_BYTES) | (word.ne(0) & word.eq(regular_of_parts(held)))
            new = [_part(frame, table, i * parts + k, lane, size // parts) for k in range(parts)]
            first = host & (_BYTES - 1)
            made = []
            for k in range(_BYTES):
                byte = current.select(held[k], part_at(word, k, 1))
                for n in range(min(size, k + 1)):
                    source = new[n] if parts == size else part_at(new[0], n, 1)
                    byte = first.eq(k - n).select(source, byte)
                noted.store(byte, k)
                made.append(byte)
            regular, known = regular_of_parts(made), ~reduce(and_, [byte.eq(0) for byte in made])
            place.store(regular.ne(0).select(regular, known.select(IN_BYTES, c.const("i64", 0))), 0)
    c.ret()


def emit_rows_stored_from(module: Module, parts: int) -> None:
    """Emit ``rowsstoredfrom_PARTS``: note from where the words come that stmatrix stores, with a table as in ``storedfrom``, of registers.

    ``hosts`` has the rows, eight for each register; a lane has a word of one of them.
    """
    _define_noted(module, parts > 1)
    c, (context, mask, hosts, frame, count, table) = module.define(
        f"void rowsstoredfrom_{parts}(ptr context, i32 mask, ptr hosts, ptr frame, i32 count, ptr table)"
    )
    with c.when(context.word(Word.COPIED).ne(0)), c.loop(count.to("i64")) as i, c.each_bit(mask) as lane:
        host = hosts.load("i64", i * 8 + (lane >> 2)) + ((lane & 3) << 2)
        place = c.call("noted", "ptr", context, host)
        with c.when(place.ne(0)):
            place.store(_source(context, frame, table, i, lane, parts), 0)
    c.ret()


def emit_columns_stored_from(module: Module, parts: int) -> None:
    """Emit ``columnsstoredfrom_PARTS``: the same for a transposed stmatrix.

    A lane has two elements of a column in a register; those of a word are the upper or the lower halves of registers of two lanes.
    """
    _define_noted(module, listed=True)
    c, (context, mask, hosts, frame, count, table) = module.define(
        f"void columnsstoredfrom_{parts}(ptr context, i32 mask, ptr hosts, ptr frame, i32 count, ptr table)"
    )
    with c.when(context.word(Word.COPIED).ne(0)), c.loop(count.to("i64")) as i, c.each_bit(mask) as lane:
        row, word = lane >> 2, lane & 3
        place = c.call("noted", "ptr", context, hosts.load("i64", i * 8 + row) + (word << 2))
        with c.when(place.ne(0)):
            first = (word << 3) + (row >> 1)
            halves = [half_of(_source(context, frame, table, i, each, parts), row & 1) for each in (first, first + 4)]
            place.store(of_parts(context, halves), 0)
    c.ret()


def emit_cells_stored_from(module: Module, parts: int, shape: str, pack: bool) -> None:
    """Emit ``cellsstoredfrom_PARTS_SHAPE``: note from where the words come that tcgen05.st stores, with a table as in ``storedfrom``.

    The address in tensor memory is as in `ptxlab.engine.support._tensor_memory.emit_tensor`. Halves in columns of their own are not known.
    """
    if parts > 1:
        define_listed(module)
    c, (context, mask, addresses, offset, split, frame, count, table) = module.define(
        f"void cellsstoredfrom_{parts}_{shape}{'_pack' if pack else ''}"
        "(ptr context, i32 mask, ptr addresses, i32 offset, i32 split, ptr frame, i32 count, ptr table)"
    )
    with c.when(context.word(Word.TENSOR_SOURCES).ne(0) & mask.ne(0)):
        place = c.variable("i32", offset)
        with c.when(addresses.ne(0)):
            place.set(addresses.load("i32", mask.lowest_bit().to("i64")) + offset)
        first = (context.word(Word.QUADRANT) << 5) + ((place.get() >> 16) & 31).to("i64")
        column = (place.get() & 0xFFFF).to("i64")
        cells, layout = context.pointer(Word.TENSOR_SOURCES), tensor_fragment_layout(shape)
        with c.loop(count.to("i64")) as r, c.each_bit(mask) as t:
            lane, at = layout.coefficients("L")(t, r) + first, column + (layout.coefficients("C")(t, r) << int(pack))
            if "H" in layout.symbols:
                at = at + layout.coefficients("H")(t, r) * split.to("i64")
            for part in range(1 + pack):
                cells.store(c.const("i64", 0) if pack else _source(context, frame, table, r, t, parts), ((at + part) << 7) + lane)
    c.ret()


def _suffix(in_bytes: bool) -> str:
    return "_bytes" if in_bytes else ""


def _held(context: Value, place: Value, number: Value | int, in_bytes: bool) -> Value:
    """What is noted of a word behind a place; 0 without a place."""
    known = place.ne(0)
    source = known.select(known.select(place, context).load("i64", number), 0)
    if not in_bytes:
        return source
    c = context.function
    found = c.variable("i64", source)
    with c.when(source.eq(IN_BYTES)):
        word = place.convert("ptrtoint", "i64") - context.word(Word.COPIED) + c.const("i64", 8) * number
        every = context.pointer(Word.COPIED_BYTES).at(word << 2)
        found.set(c.call("listed", "i64", context, *[every.load("i64", k) for k in range(_BYTES)]))
    return found.get()


def _source(context: Value, frame: Value, table: Value, number: Value, lane: Value, parts: int) -> Value:
    """From where a lane has loaded the word that a number of the table stands for."""
    if parts == 1:
        return _noted_part(frame, table, number, lane)
    return of_parts(context, [_part(frame, table, number * parts + i, lane, _BYTES // parts) for i in range(parts)])


def _part(frame: Value, table: Value, number: Value, lane: Value, size: int) -> Value:
    """From where a lane has loaded the part of a word, of so many bytes, that a number of the table stands for."""
    return part_of(_noted_part(frame, table, number, lane), table.load("i32", number * 3 + 2).to("i64"), size)


def _noted_part(frame: Value, table: Value, number: Value, lane: Value) -> Value:
    """What is noted of the word in which a part begins."""
    row = table.load("i32", number * 3)
    known = row.ne(-1)
    address = frame.at(known.select(row, 0).to("i64")).load("i64", lane)
    added = table.load("i32", number * 3 + 1).to("i64")
    return known.select(address.ugt(NO_SOURCE).select(address + added, address), 0)


def _define_noted(module: Module, listed: bool = False) -> None:
    """Define ``noted``: where the source of a word is noted that is at a host address; 0 outside the shared memories of the cluster.

    Define ``listed``, too, if it is needed.
    """
    if listed:
        define_listed(module)
    c, (context, host) = module.define("ptr noted(ptr context, i64 host)")
    copied, size = context.pointer(Word.COPIED), context.word(Word.SHARED_SIZE)
    inside = host - context.word(Word.SHARED)
    with c.when(inside.ult(size)):
        c.ret(copied.at((inside >> 2) * 8))
    rank, stride = context.word(Word.SHARED_RANK) >> SHARED_RANK_SHIFT, ((size + 3) >> 2) * 8
    with c.loop(context.word(Word.CLUSTER_SIZE)) as peer:
        row = context.pointer(Word.CLUSTER).at(peer << 4)
        inside = host - row.word(0)
        with c.when(inside.ult(row.word(1))):
            c.ret(copied.at((peer - rank) * stride + (inside >> 2) * 8))
    c.ret(c.const("ptr", 0))
