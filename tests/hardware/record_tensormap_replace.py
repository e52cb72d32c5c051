"""Record what tensormap.replace does to 128 bytes, on an sm_90a device with cupy.

``python -m tests.hardware record tensormap_replace``
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from tests.hardware.suite._tools import ASSEMBLE, tools

CASE = np.dtype([("field", "U20"), ("ordinal", "<i4"), ("value", "<u8"), ("before", "u1", 128), ("after", "u1", 128)])

FIELDS: dict[str, tuple[str, int, tuple[int, ...]]] = {
    "global_address": ("b64", 0, (0x10, 0x7F1234567890, 0xFFFFFFFFFFFFFFF0, 0x123456789ABCDEF7)),
    "rank": ("b32", 0, (0, 1, 2, 3, 4)),
    "box_dim": ("b32", 5, (1, 2, 64, 255, 256)),
    "global_dim": ("b32", 5, (1, 2, 1000, 0x7FFFFFFF, 0xFFFFFFFF)),
    "global_stride": ("b64", 4, (16, 0x12340, 0xFFFFFFFFF0, 0x8765432100)),
    "element_stride": ("b32", 5, (1, 2, 5, 8)),
    "elemtype": ("b32", 0, tuple(range(13))),
    "interleave_layout": ("b32", 0, (0, 1, 2)),
    "swizzle_mode": ("b32", 0, (0, 1, 2, 3)),
    "fill_mode": ("b32", 0, (0, 1)),
}
"""Field -> type of the value, ordinals, values."""

FILLS = (0x00, 0xFF, 0xA5)
IMMEDIATE = ("elemtype", "interleave_layout", "swizzle_mode", "fill_mode")


def entry(name: str, field: str, type: str, ordinal: int | None, immediate: int | None) -> str:
    operands = [] if ordinal is None else [str(ordinal)]
    operands.append("%v" if immediate is None and type == "b64" else "%w" if immediate is None else str(immediate))
    words = "\n".join(f"ld.global.b64 %t, [%in+{i}]; st.shared.b64 [%map+{i}], %t;" for i in range(0, 128, 8))
    back = "\n".join(f"ld.shared.b64 %t, [%map+{i}]; st.global.b64 [%out+{i}], %t;" for i in range(0, 128, 8))
    return f"""
.visible .entry {name}(.param .u64 in, .param .u64 out, .param .u64 value)
{{
.reg .b64 %in, %out, %v, %t;
.reg .b32 %w, %map;
.shared .align 128 .b8 object[128];
ld.param.u64 %in, [in];
ld.param.u64 %out, [out];
ld.param.u64 %v, [value];
cvt.u32.u64 %w, %v;
mov.u32 %map, object;
{words}
tensormap.replace.tile.{field}.shared::cta.b1024.{type} [%map], {", ".join(operands)};
{back}
ret;
}}
"""


def cases() -> list[tuple[str, str, str, int | None, int]]:
    """(entry, field, type, ordinal, value)."""
    found = []
    for field, (type, ordinals, values) in FIELDS.items():
        for ordinal in range(ordinals) if ordinals else (None,):
            for value in values:
                suffix = f"_{value}" if field in IMMEDIATE else ""
                found.append((f"{field}_{ordinal or 0}{suffix}", field, type, ordinal, value))
    return found


def main(out: str) -> None:
    import cupy

    listed = cases()
    entries = {name: entry(name, f, t, o, v if f in IMMEDIATE else None) for name, f, t, o, v in listed}
    with tempfile.TemporaryDirectory() as folder:
        source, binary = Path(folder, "replace.ptx"), Path(folder, "replace.cubin")
        source.write_text(".version 8.6\n.target sm_90a\n.address_size 64\n" + "".join(entries.values()))
        subprocess.run([*ASSEMBLE, str(source), "-o", str(binary)], check=True)
        loaded = cupy.RawModule(path=str(binary))
        loaded.compile()
    rows = []
    for name, field, _, ordinal, value in listed:
        for fill in FILLS:
            before = np.full(128, fill, np.uint8)
            result = cupy.zeros(128, cupy.uint8)
            loaded.get_function(name)((1,), (1,), (cupy.asarray(before), result, np.uint64(value)))
            rows.append((field, -1 if ordinal is None else ordinal, value, before, result.get()))
    np.savez_compressed(out, cases=np.array(rows, CASE), tools=np.array(tools()))
    print(len(rows), "cases", *tools())


if __name__ == "__main__":
    main(sys.argv[1])
