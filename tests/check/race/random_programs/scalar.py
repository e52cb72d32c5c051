"""Scalar instructions: every pure form of the catalogue, by the module that defines it."""

from __future__ import annotations

from collections import defaultdict
from functools import partial

from ptxlab.engine.lowering.scope import TYPE_BITS
from tests.isa.form_helpers import Form, forms, pure_rows

from .writer import Family, Statement, Writer

__all__ = ["SCALAR"]

_FORMS: dict[str, list[list[Form]]] = defaultdict(list)
"""By family for each row of the catalogue some of its forms."""
for _row in pure_rows():
    _some = [f for f in forms(_row, 12) if "b128" not in f.sources]
    if _some:
        _FORMS[_row.semantics.__module__.rsplit(".", 1)[1].strip("_")].append(_some)


def _statement(rows: list[list[Form]], writer: Writer) -> Statement:
    form = writer.random.choice(writer.random.choice(rows))
    written: list[str] = []
    results, sources = list(form.results), list(form.sources)
    counts = iter(form.counts)
    for number, (_, type) in enumerate(form.row.operands):
        destination = number < form.row.outputs or (type == "carry" and "out" in _)
        first, *second = type.split("|")
        if type == "carry":
            (results if destination else sources).pop(0)
            if not destination:
                next(counts)
            continue
        if destination:
            names = [_register(writer, results.pop(0)) for _ in (first, *second)]
            written.append("|".join(names))
            continue
        items = [_source(writer, sources.pop(0)) for _ in range(next(counts))]
        written.append("{" + ", ".join(items) + "}" if "." in first else items[0])
    return Statement(f"{form.opcode} {', '.join(written)};", pure=True)


def _register(writer: Writer, type: str) -> str:
    return writer.register(max(TYPE_BITS[type], 16) if type != "pred" else 1)


def _source(writer: Writer, type: str) -> str:
    if type == "any":
        return str(writer.random.randrange(256))
    if type == "pred" or TYPE_BITS[type] < 16 or writer.random.random() < 0.8 or type[0] not in "us":
        return _register(writer, type)
    return str(writer.random.choice((0, 1, 2, 3, 7, 8, 15, 16, 31)))


def _carries(writer: Writer) -> Statement:
    """A sum, difference or product of two words, with the carry between them."""
    low, high = writer.random.choice((("add.cc", "addc"), ("sub.cc", "subc"), ("mad.lo.cc", "madc.hi"), ("mad.hi.cc", "madc.lo")))
    count, width = 3 if low[0] == "m" else 2, writer.random.choice((32, 64))
    text = [f"{each}.u{width} {', '.join(writer.register(width) for _ in range(count + 1))};" for each in (low, high)]
    return Statement(" ".join(text), pure=True)


SCALAR = {name: Family(partial(_statement, rows)) for name, rows in sorted(_FORMS.items())} | {"carries": Family(_carries)}
