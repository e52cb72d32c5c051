"""The explorer: one HTML page that needs nothing else. Its tables are ours, written into it as JSON."""

from __future__ import annotations

import json
from html import escape
from importlib.resources import files
from typing import Any, cast

from ptxlab.descriptors import BitFormat, format_of
from ptxlab.layout import Layout, Major, canonical_layout, cute, parse_layout
from ptxlab.tables import (
    CANONICAL_LAYOUTS,
    COPY_LAYOUTS,
    DATA_PATHS,
    FRAGMENT_LANES,
    FRAGMENT_REGISTERS,
    LOAD_REGISTERS,
    MATRIX_FRAGMENTS,
    MMA_KINDS,
    SCALE_IDS,
    SCALE_VECTORS,
    SHAPES,
    SWIZZLES,
    TENSOR_FRAGMENTS,
    TRANSPOSED_SWIZZLES,
    TYPE_BITS,
    WGMMA_KINDS,
)

__all__ = ["explorer_page", "explorer_tables"]

_WGMMA_FRAGMENTS = {name: text for name, text in MATRIX_FRAGMENTS.items() if name.startswith("wgmma")}
_SCRIPTS = ("formulas.js", "model.js", "legend.js", "canvas.js", "page.js")


def explorer_page(home: str | None = None) -> str:
    """The page's text.

    Parameters
    ----------
    home : address of a page to which the title links; None: no link

    Examples
    --------
    >>> page = explorer_page()
    >>> page.startswith("<!doctype html>"), "http" in page
    (True, False)
    """
    folder = files("ptxlab.view") / "explorer"
    page = (folder / "page.html").read_text(encoding="utf-8")
    title = "ptxlab" if home is None else f'<a href="{escape(home)}">ptxlab</a>'
    parts = {
        "<!--TITLE-->": title,
        "/*CSS*/": (folder / "page.css").read_text(encoding="utf-8"),
        "/*TABLES*/": json.dumps(explorer_tables(), separators=(",", ":")),
        "/*JS*/": "\n".join((folder / name).read_text(encoding="utf-8") for name in _SCRIPTS),
    }
    for mark, text in parts.items():
        page = page.replace(mark, text, 1)
    return page


def explorer_tables() -> dict[str, Any]:
    """The tables of the specification that the page uses."""
    formats = {name: format_of(name) for name in ("smem", "wgmma")} | {f"idesc:{kind}": format_of("idesc", kind) for kind in MMA_KINDS}
    return {
        "swizzles": {
            name: {"bits": s.bits, "base": s.base, "width": s.width, "lines": s.lines, "wgmma": s.wgmma} for name, s in SWIZZLES.items()
        },
        "data_paths": {
            _key(key): {"letter": p.letter, "rows": p.rows, "banks": p.banks, "half": p.half, "organization": p.organization}
            for key, p in DATA_PATHS.items()
        },
        "kinds": {
            name: {"ab": dict(k.ab), "d": dict(k.d), "k": k.k, "container": k.container, "transpose": k.transpose, "scale": dict(k.scale)}
            for name, k in MMA_KINDS.items()
        },
        "wgmma_kinds": {
            name: {"ab": k.ab, "d": k.d, "mixed": k.mixed, "k": k.k, "n": list(k.n), "transpose": k.transpose}
            for name, k in WGMMA_KINDS.items()
        },
        "shapes": {_key(key): {"m": list(s.m), "n": list(s.n), "k96": s.k96} for key, s in SHAPES.items()},
        "scale_vectors": [{"name": s.name, "kind": s.kind, "k": s.k, "scales": s.scales} for s in SCALE_VECTORS],
        "scale_ids": SCALE_IDS,
        "type_bits": dict(TYPE_BITS),
        "loads": {
            shape: {"registers": registers, "nums": [num for s, num in LOAD_REGISTERS if s == shape], "lanes": FRAGMENT_LANES[shape]}
            for shape, registers in FRAGMENT_REGISTERS.items()
        },
        "fragments": {name: _modes(text) for name, text in {**TENSOR_FRAGMENTS, **_WGMMA_FRAGMENTS}.items()},
        "copies": {".".join(filter(None, shape)): _modes(text) for shape, text in COPY_LAYOUTS.items()},
        "transposed_swizzles": TRANSPOSED_SWIZZLES,
        "canonical": {f"{major},{mode}": str(canonical_layout(cast(Major, major), mode)) for major, mode in CANONICAL_LAYOUTS},
        "formats": {name: _format(form) for name, form in formats.items()},
    }


def _modes(text: str) -> list[list[tuple[int, str, int]]]:
    """For each mode of a layout its parts: size (1 where it is open), symbol and coefficient of the stride; L where it has no symbol."""
    layout = cast(Layout, parse_layout(text))
    return [
        [_part(size, stride) for size, stride in zip(cute.flatten(shape), cute.flatten(strides), strict=True)]
        for shape, strides in zip(layout.shape, layout.stride, strict=True)
    ]


def _part(size: Any, stride: Any) -> tuple[int, str, int]:
    symbol = stride if isinstance(stride, cute.Symbol) else cute.Symbol("L", stride)
    return size if isinstance(size, int) else 1, symbol.name, symbol.coefficient


def _key(key: tuple[object, ...]) -> str:
    return ",".join(str(int(part) if isinstance(part, bool) else part) for part in key)


def _format(form: BitFormat) -> dict[str, Any]:
    fields = [
        {
            "name": f.name,
            "low": f.low,
            "width": f.width,
            "shift": f.shift,
            "meaning": f.meaning,
            "values": None if f.values is None else [[value, code] for value, code in f.values.items()],
        }
        for f in form.fields
    ]
    return {"name": form.name, "bits": form.bits, "fixed": form.fixed, "fields": fields}
