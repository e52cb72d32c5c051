"""The approximate instructions: results of chosen operands, and sums over all operands.

A thread of a sweep adds up a hash of each operand's number and result, so that one wrong bit shows in the sum of its block.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from ptxlab.formats import FORMATS
from ptxlab.silicon._case import STYLES, Array, Case, codes, head, random_words

__all__ = ["SINGLE", "THREADS", "approximate", "hashed"]

THREADS = 256
CTAS = 12
REPLAYED = (0x043, 0x3F1, 0x40A, 0x9F7)
"""Blocks of 4096 that ptxlab computes of a sweep over 32 bits: the others are compared by who has the time."""
_HASH = (0x9E3779B97F4A7C15, 0xD1B54A32D192ED03, 0xD6E8FEB86659FD93, 0xBF58476D1CE4E5B9)
SINGLE = tuple(f"{name}.approx{ftz}.f32" for name in ("ex2", "lg2", "rcp", "rsqrt", "sqrt", "sin", "cos") for ftz in ("", ".ftz"))
_HALF = tuple(
    f"{name}{'.ftz' * (name == 'ex2.approx' and kind[0] == 'b')}.{kind}"
    for name, kind in product(("ex2.approx", "tanh.approx"), ("f16", "bf16", "f16x2", "bf16x2"))
)
_DOUBLE = ("rcp.approx.ftz.f64", "rsqrt.approx.ftz.f64", "rsqrt.approx.f64")
_PAIRS = tuple(f"div.{way}{ftz}.f32" for way in ("approx", "full") for ftz in ("", ".ftz"))


def hashed(opcode: str, width: int, size: int, operands: str, sources: str = "%a") -> str:
    """PTX that adds up in ``%total`` a hash of the number and the result of a thread's operands, of which ``%i`` is the first.

    The threads of a CTA share ``size`` operands. ``operands`` is PTX that makes the ``sources`` of the number ``%i`` of an operand. Results
    have ``width`` bits.
    """
    return f"""  mov.u64 %total, 0;
  mov.u64 %left, {size // THREADS};
again:
{operands}
  {opcode} %d, {sources};
  {f"cvt.u64.u{width} %word, %d" if width < 64 else "mov.b64 %word, %d"};
  mul.lo.u64 %h, %i, {_HASH[0]:#x}U;
  mad.lo.u64 %h, %word, {_HASH[1]:#x}U, %h;
  shr.u64 %t, %h, 32;
  xor.b64 %h, %h, %t;
  mul.lo.u64 %h, %h, {_HASH[2]:#x}U;
  shr.u64 %t, %h, 29;
  xor.b64 %h, %h, %t;
  mul.lo.u64 %h, %h, {_HASH[3]:#x}U;
  shr.u64 %t, %h, 32;
  xor.b64 %h, %h, %t;
  add.u64 %total, %total, %h;
  add.u64 %i, %i, {THREADS};
  sub.u64 %left, %left, 1;
  setp.ne.u64 %p, %left, 0;
  @%p bra again;"""


@dataclass(frozen=True)
class Sweep:
    """One instruction over ``blocks`` of ``size`` operands; ``operands`` is PTX that makes ``%a`` of the operand's number ``%i``."""

    opcode: str
    blocks: int
    size: int
    operands: str

    def text(self, target: str) -> str:
        """A kernel: each CTA sums one block."""
        width = _width(self.opcode)
        return f"""{head(target)}.visible .entry k(.param .u64 sums)
{{
  .reg .b64 %i, %left, %word, %h, %t, %total, %sums;
  .reg .b32 %r, %cta, %low, %high;
  .reg .b{width} %a, %d;
  .reg .pred %p;
  ld.param.u64 %sums, [sums];
  mov.u32 %cta, %ctaid.x;
  mad.wide.u32 %sums, %cta, 4, %sums;
  mul.wide.u32 %i, %cta, {self.size};
  mov.u32 %r, %tid.x;
  cvt.u64.u32 %t, %r;
  add.u64 %i, %i, %t;
{hashed(self.opcode, width, self.size, self.operands)}
  cvt.u32.u64 %low, %total;
  red.global.add.u32 [%sums], %low;
  ret;
}}
"""


_HIGH_WORDS = "  cvt.u32.u64 %high, %i;\n  mul.lo.u32 %low, %high, 0x9e3779b1;\n  mov.b64 %a, {%low, %high};"
"""Every high word of f64, with some low word."""
_SWEEPS = (
    *(Sweep(opcode, 4096, 1 << 20, "  cvt.u32.u64 %a, %i;") for opcode in (*SINGLE, "tanh.approx.f32")),
    *(Sweep(opcode, 64, 1 << 10, "  cvt.u16.u64 %a, %i;") for opcode in _HALF if not opcode.endswith("x2")),
    *(Sweep(opcode, 4096, 1 << 20, _HIGH_WORDS) for opcode in _DOUBLE[:2]),
)


def _width(opcode: str) -> int:
    kind = opcode.rpartition(".")[2]
    return 32 if kind.endswith("x2") else FORMATS[kind].bits if kind in FORMATS else 64


def _words(opcode: str, target: str) -> Case:
    """Operands of every style, and what the instruction gives for each."""
    width, count = _width(opcode), CTAS * THREADS
    kind = opcode.rpartition(".")[2].removesuffix("x2")
    inputs = []
    for which in range(2 if opcode in _PAIRS else 1):
        if width == 64:
            data = random_words(count, which) >> np.where(np.arange(count) % 4 == 1, 12, 0).astype(np.uint64)
            data = np.where(np.arange(count) % 2 == 0, data & np.uint64(0x803FFFFFFFFFFFFF) | np.uint64(0x3FC0000000000000), data)
        else:
            per = width // FORMATS[kind].bits
            drawn = [codes(kind, THREADS * per, cta % len(STYLES), False, which, cta) for cta in range(CTAS)]
            data = np.concatenate(drawn).view(f"u{width // 8}")
        inputs.append(Array("ab"[which], data.reshape(CTAS, THREADS), ("CTA", "thread")))
    names = [array.name for array in inputs]
    at, size = "mad.wide.u32 %p, %i, {0}, %p;", width // 8
    loads = "\n".join(f"ld.param.u64 %p, [{n}];\n{at.format(size)}\nld.global.b{width} %{n}, [%p];" for n in names)
    text = f"""{head(target)}.visible .entry k({", ".join(f".param .u64 {n}" for n in [*names, "d"])})
{{
.reg .b{width} %a, %b, %d;
.reg .b64 %p;
.reg .b32 %i, %t;
mov.u32 %i, %ctaid.x;
mov.u32 %t, %tid.x;
mad.lo.u32 %i, %i, {THREADS}, %t;
{loads}
{opcode} %d, {", ".join(f"%{n}" for n in names)};
ld.param.u64 %p, [d];
{at.format(size)}
st.global.b{width} [%p], %d;
ret;
}}
"""
    out = Array.zeros("d", (CTAS, THREADS), ("CTA", "thread"), f"u{size}")
    return Case(opcode, text, CTAS, THREADS, tuple(inputs), (out,), (opcode,))


def approximate(target: str) -> Iterator[Case]:
    """Every approximate instruction."""
    for opcode in (*SINGLE, "tanh.approx.f32", *_HALF, *_DOUBLE, *_PAIRS):
        yield _words(opcode, target)
    for sweep in _SWEEPS:
        out = Array.zeros("sums", (sweep.blocks,), ("block",))
        replayed = REPLAYED if sweep.blocks > 64 else ()
        name = f"{sweep.opcode}, sums over {sweep.size} operands"
        yield Case(name, sweep.text(target), sweep.blocks, THREADS, (), (out,), (sweep.opcode,), replayed=replayed)
