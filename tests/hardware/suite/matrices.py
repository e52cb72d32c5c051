"""ldmatrix and stmatrix in all forms of sm_90: rows in any order, rows that several lanes name, unused addresses that mean nothing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from tests.hardware.suite._kernel import Kernel, at, entry, words

ROWS = 64
"""Rows of 16 bytes in shared memory."""
CASES = 8


def _rows(name: str, count: int, distinct: bool) -> np.ndarray:
    """The row that each lane names; lanes beyond the 8 of each matrix name a row that does not exist."""
    raw = words(len(name), CASES * ROWS)
    found = np.argsort(raw.reshape(CASES, ROWS), axis=1, kind="stable")[:, :32].astype(np.uint32)
    if not distinct:
        found[1::2] = raw.reshape(CASES, ROWS)[1::2, :32] % 5
    found[:, 8 * count :] = 1 << 20
    return found


def _frame(name: str, instruction: str, count: int, load: bool) -> Kernel:
    registers = "{" + ", ".join(f"%r{i}" for i in range(count)) + "}"
    fill = f"""
{at("%d30", "%image", 16, "%t")}
ld.global.v4.b32 {{%r10, %r11, %r12, %r13}}, [%d30];
mad.lo.u32 %r20, %t, 16, %s;
st.shared.v4.b32 [%r20], {{%r10, %r11, %r12, %r13}};
ld.global.v4.b32 {{%r10, %r11, %r12, %r13}}, [%d30+512];
st.shared.v4.b32 [%r20+512], {{%r10, %r11, %r12, %r13}};
{at("%d31", "%rows", 4)}
ld.global.b32 %r21, [%d31];
mad.lo.u32 %r21, %r21, 16, %s;
bar.warp.sync -1;
"""
    value = at("%d32", "%registers", 4 * count)
    if load:
        rest = f"{instruction} {registers}, [%r21];\n{value}\n"
        rest += "\n".join(f"st.global.b32 [%d32+{4 * i}], %r{i};" for i in range(count))
        results: tuple[int, ...] = (-1,)
    else:
        rest = f"{value}\n" + "\n".join(f"ld.global.b32 %r{i}, [%d32+{4 * i}];" for i in range(count))
        rest += f"""
{instruction} [%r21], {registers};
bar.warp.sync -1;
mad.lo.u32 %r22, %cta, {ROWS}, %t;
{at("%d33", "%out", 16, "%r22")}
ld.shared.v4.b32 {{%r10, %r11, %r12, %r13}}, [%r20];
st.global.v4.b32 [%d33], {{%r10, %r11, %r12, %r13}};
ld.shared.v4.b32 {{%r10, %r11, %r12, %r13}}, [%r20+512];
st.global.v4.b32 [%d33+512], {{%r10, %r11, %r12, %r13}};
"""
        results = (-1,)
    image = words(40, 4 * ROWS)
    rows = _rows(name, count, distinct=not load)
    registers_in = np.zeros((CASES, 32, count), np.uint32) if load else words(41, CASES * 32 * count).reshape(CASES, 32, count)
    args = [image, rows, registers_in] + ([] if load else [np.zeros((CASES, ROWS, 4), np.uint32)])
    parameters = "image rows registers" + ("" if load else " out")
    return Kernel(name, entry(name, parameters, fill + rest, shared=16 * ROWS), tuple(args), grid=CASES, block=32, results=results)


def _all() -> Iterator[Kernel]:
    for count, trans, space in product((1, 2, 4), ("", ".trans"), ("", "::cta")):
        for opcode in ("ldmatrix", "stmatrix"):
            text = f"{opcode}.sync.aligned.m8n8.x{count}{trans}.shared{space}.b16"
            yield _frame(text, text, count, opcode == "ldmatrix")


def kernels() -> list[Kernel]:
    return list(_all())
