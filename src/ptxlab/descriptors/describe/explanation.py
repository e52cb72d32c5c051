"""What an explanation consists of, and how it reads as text, HTML and plain values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Any

from ptxlab._records import dataclass
from ptxlab.descriptors._bitfields import BitField, BitFormat, Finding, escaped

__all__ = ["Explanation", "FieldRow", "Hint", "Interpretation", "field_rows"]


@dataclass(frozen=True, slots=True)
class FieldRow:
    """One field: its name, its bits (``"0-13"``), the code they hold, the value that this means, and what the field is."""

    name: str
    bits: str
    code: int
    value: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Hint:
    """A likely mistake: what may have been meant, and the value for it (None: there is not exactly one)."""

    text: str
    value: int | None = None

    def __str__(self) -> str:
        return self.text if self.value is None else f"{self.text}: {self.value:#x}"


@dataclass(frozen=True, slots=True)
class Interpretation:
    """A value read in one way.

    Attributes
    ----------
    what : ``smem``, ``wgmma``, ``idesc``, ``mask``, ``tmem`` or ``tensormap``
    title : in words
    section : title of the section with the format
    decoded : the descriptor, an object of `ptxlab.descriptors`
    score : 0 to 1, how well the value fits
    fields : rows in the order of their bits
    layouts : (name, text): the canonical layout in CuTe notation and what follows from it
    notes : facts worth knowing
    findings : what is not legal
    hints : "did you mean"
    """

    what: str
    title: str
    section: str
    decoded: Any
    score: float
    fields: tuple[FieldRow, ...]
    layouts: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    hints: tuple[Hint, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "what": self.what,
            "title": self.title,
            "section": self.section,
            "score": round(self.score, 3),
            "fields": [{"name": f.name, "bits": f.bits, "code": f.code, "value": f.value, "meaning": f.meaning} for f in self.fields],
            "layouts": dict(self.layouts),
            "notes": list(self.notes),
            "findings": [
                {"code": f.code, "field": f.field, "message": f.message, "section": f.section, "fix": f.fix} for f in self.findings
            ],
            "did_you_mean": [{"text": h.text, "value": None if h.value is None else hex(h.value)} for h in self.hints],
        }

    def _lines(self) -> Iterator[str]:
        yield f"{self.title}  ({self.section})"
        widths = [max(len(text) for text in column) for column in zip(*((f.bits, f.name, f.value) for f in self.fields), strict=True)]
        for row in self.fields:
            yield f"  {row.bits:>{widths[0]}}  {row.name:<{widths[1]}}  {row.value:<{widths[2]}}  {row.meaning}".rstrip()
        for name, text in self.layouts:
            yield f"  {name}: {text}"
        for note in self.notes:
            yield f"  note: {note}"
        for finding in self.findings:
            yield f"  not legal: {finding}"
            if finding.fix:
                yield f"    fix: {finding.fix}"
        for hint in self.hints:
            yield f"  did you mean: {hint}"

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _repr_html_(self) -> str:
        """An HTML fragment, as notebooks show it."""
        rows = "".join(
            f"<tr><td>{escaped(f.bits)}</td><td><b>{escaped(f.name)}</b></td><td><code>{escaped(f.value)}</code></td><td>{escaped(f.meaning)}</td></tr>"
            for f in self.fields
        )
        head = "<tr><th>bits</th><th>field</th><th>value</th><th>meaning</th></tr>"
        parts = [f"<h4>{escaped(self.title)}</h4><p><small>{escaped(self.section)}</small></p><table>{head}{rows}</table>"]
        parts += [f"<p>{escaped(name)}: <code>{escaped(text)}</code></p>" for name, text in self.layouts]
        parts += [f"<p>{escaped(note)}</p>" for note in self.notes]
        parts += [f"<p><b>not legal:</b> {escaped(str(f))}{escaped(f' Fix: {f.fix}' if f.fix else '')}</p>" for f in self.findings]
        parts += [f"<p><b>did you mean:</b> {escaped(str(hint))}</p>" for hint in self.hints]
        return f"<div class='ptxlab-explanation'>{''.join(parts)}</div>"


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a value means: its interpretations, the best first.

    ``str()`` gives text, `as_dict` plain values; notebooks show HTML.
    """

    value: int
    shown: str
    interpretations: tuple[Interpretation, ...] = field(default=())

    @property
    def best(self) -> Interpretation:
        """The first interpretation."""
        return self.interpretations[0]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is not legal in the first interpretation."""
        return self.best.findings

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"value": self.shown, "interpretations": [one.as_dict() for one in self.interpretations]}

    def __str__(self) -> str:
        first, *others = self.interpretations
        text = f"{self.shown}: {first}"
        if others:
            listed = "\n".join(f"  {one.score:.2f}  as {one.what}: {_summary(one)}" for one in others)
            text += f"\nother readings\n{listed}"
        return text

    def _repr_html_(self) -> str:
        first, *others = self.interpretations
        rest = "".join(f"<li>as {escaped(one.what)} ({one.score:.2f}): {escaped(_summary(one))}</li>" for one in others)
        return f"<p><code>{escaped(self.shown)}</code></p>{first._repr_html_()}" + (f"<p>Other readings</p><ul>{rest}</ul>" if rest else "")


def _summary(one: Interpretation) -> str:
    wrong = f"; {len(one.findings)} finding{'s' if len(one.findings) > 1 else ''}: {one.findings[0].message}" if one.findings else ""
    return f"{one.title}{wrong}"


_ADDRESSES = ("start", "leading", "stride", "address")


def _bits(low: int, width: int) -> str:
    return str(low) if width == 1 else f"{low}-{low + width - 1}"


def _row(item: BitField, raw: int) -> FieldRow:
    place = _bits(item.low, item.width)
    code = raw >> item.low & ((1 << item.width) - 1)
    if item.upper[1]:
        place += f", {_bits(*item.upper)}"
        code |= (raw >> item.upper[0] & ((1 << item.upper[1]) - 1)) << item.width
    value = item.get(raw)
    if isinstance(value, bool):
        shown = "yes" if value else "no"
    elif isinstance(value, int) and item.name in _ADDRESSES:
        shown = f"{value:#x}" if item.name in ("start", "address") else f"{value} ({value:#x})"
    else:
        shown = str(value)
    return FieldRow(item.name, place, code, shown, item.meaning)


def field_rows(form: BitFormat, raw: int) -> tuple[FieldRow, ...]:
    """A row for each field in the order of the bits, and for each run of unnamed bits that is not what it must be."""
    rows = [(item.low, _row(item, raw)) for item in form.fields]
    for low, width in form.unnamed():
        found, must = (word >> low & ((1 << width) - 1) for word in (raw, form.fixed))
        if must or found:
            name, meaning = ("constant", f"must be 0b{must:0{width}b}") if must else ("reserved", "must be 0")
            rows.append((low, FieldRow(name, _bits(low, width), found, f"0b{found:0{width}b}", meaning)))
    return tuple(row for _, row in sorted(rows, key=lambda pair: pair[0]))
