"""The picture of the packages on the page about the architecture: one row for each layer of the import contract."""

from __future__ import annotations

import tomllib
from html import escape
from pathlib import Path

__all__ = ["packages_svg"]

ROOT = Path(__file__).parents[1]
PURPOSES = {
    "cli": "commands",
    "interop": "Triton, CuTe DSL, nvcc, torch, pytest",
    "editor": "language server",
    "view": "pictures, pages, traces",
    "silicon": "record kits for GPUs",
    "check": "linter, race check",
    "profile": "counters, time model",
    "cuda": "the virtual CUDA driver",
    "debug": "the debugger",
    "machine": "memory, warps, scheduler, launches",
    "engine": "lowering, LLVM and NumPy back ends",
    "isa": "instructions: syntax, accesses, semantics",
    "numerics": "arithmetic",
    "descriptors": "bit fields, tensor maps",
    "ptx": "text to syntax tree",
    "formats": "element types",
    "layout": "coordinates to addresses",
    "diagnostics": "findings, codes",
    "tables": "the specification's tables",
    "campaign": "launch files, many launches",
    "native": "LLVM compilation, code cache",
}
WIDTH, HEIGHT, GAP, MARGIN = 760, 46, 12, 16
STYLE = (
    "text{font:12px system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;fill:#1c2024}.n{font-weight:600;font-size:14px}"
    ".p{fill:#ffffff}.b{fill:#e3edf7;stroke:#7fa8cf}"
    "@media (prefers-color-scheme:dark){text{fill:#f1f3f5}.p{fill:#1c2026}.b{fill:#243a50;stroke:#4f7ba6}}"
)


def layers() -> list[list[str]]:
    """The packages from the top to the bottom, as import-linter holds them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (order,) = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    return [[name.strip(" ()") for name in layer.split("|")] for layer in order]


def packages_svg() -> str:
    """The picture; a package imports only packages in the rows below it."""
    rows = layers()
    height = 2 * MARGIN + len(rows) * HEIGHT + (len(rows) - 1) * GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" role="img" '
        'aria-label="The packages: each imports only packages in the rows below it">',
        f"<style>{STYLE}</style>",
        '<rect class="p" width="100%" height="100%" rx="8"/>',
    ]
    for line, names in enumerate(rows):
        width = (WIDTH - 2 * MARGIN - (len(names) - 1) * GAP) / len(names)
        y = MARGIN + line * (HEIGHT + GAP)
        for place, name in enumerate(names):
            x = MARGIN + place * (width + GAP)
            middle = f"{x + width / 2:g}"
            parts += [
                f'<rect class="b" x="{x:g}" y="{y}" width="{width:g}" height="{HEIGHT}" rx="6"/>',
                f'<text class="n" x="{middle}" y="{y + 19}" text-anchor="middle">{escape(name)}</text>',
                f'<text x="{middle}" y="{y + 36}" text-anchor="middle">{escape(PURPOSES[name])}</text>',
            ]
    return "\n".join([*parts, "</svg>"]) + "\n"
