"""Sweeps of the approximate instructions: PTX that hashes the results of a block of operands into one sum, on a GPU and in ptxlab alike.

A thread adds up a hash of each operand's number and result. Sums are compared for each block of operands, so that one wrong bit shows.
"""

from __future__ import annotations

from dataclasses import dataclass

from ptxlab.silicon.parts.approximate import SINGLE, THREADS, hashed

__all__ = ["SWEEPS", "THREADS", "Sweep"]


@dataclass(frozen=True)
class Sweep:
    """One instruction; ``operands`` is PTX that makes ``%a`` (and ``%b``) of the operand's number ``%i``."""

    opcode: str
    type: str
    blocks: int
    size: int
    operands: str
    pairs: bool = False

    @property
    def text(self) -> str:
        """A kernel: each CTA sums one block."""
        width = {"f32": 32, "f64": 64, "f16": 16, "bf16": 16}.get(self.type, 32)
        return f"""
.version 8.0
.target sm_90a
.address_size 64

.visible .entry sweep(.param .u64 sums, .param .u32 first)
{{
  .reg .b64 %i, %left, %word, %h, %t, %y, %z, %total, %sums;
  .reg .b32 %r, %s, %cta, %first, %low, %high;
  .reg .b{width} %a, %b, %d;
  .reg .pred %p;
  ld.param.u64 %sums, [sums];
  ld.param.u32 %first, [first];
  mov.u32 %cta, %ctaid.x;
  mul.wide.u32 %t, %cta, 8;
  add.u64 %sums, %sums, %t;
  add.u32 %first, %first, %cta;
  mul.wide.u32 %i, %first, {self.size};
  mov.u32 %r, %tid.x;
  cvt.u64.u32 %t, %r;
  add.u64 %i, %i, %t;
{hashed(self.opcode, width, self.size, self.operands, "%a, %b" if self.pairs else "%a")}
  red.global.add.u64 [%sums], %total;
  exit;
}}
"""


def scrambled(to: str, of: str) -> str:
    """PTX of a hash of a number (splitmix64)."""
    return f"""
  add.u64 {to}, {of}, 1;
  mul.lo.u64 {to}, {to}, 0x9E3779B97F4A7C15U;
  shr.u64 %t, {to}, 30;
  xor.b64 {to}, {to}, %t;
  mul.lo.u64 {to}, {to}, 0xBF58476D1CE4E5B9U;
  shr.u64 %t, {to}, 27;
  xor.b64 {to}, {to}, %t;
  mul.lo.u64 {to}, {to}, 0x94D049BB133111EBU;
  shr.u64 %t, {to}, 31;
  xor.b64 {to}, {to}, %t;"""


RANDOM = f"""{scrambled("%z", "%i")}
  add.u64 %y, %i, 0x10000000000;
{scrambled("%y", "%y")}
  cvt.u32.u64 %s, %y;
  cvt.u32.u64 %r, %i;
  and.b32 %r, %r, 3;"""
"""``%z`` and ``%s`` are random words of the operand's number; ``%r`` chooses one of four kinds of operands."""

PAIRS = f"""{RANDOM}
  mov.b64 {{%a, %b}}, %z;
  // Both exponents between 112 and 127.
  setp.eq.u32 %p, %r, 1;
  @%p lop3.b32 %a, %a, 0x87ffffff, 0x38000000, 0xea;
  @%p lop3.b32 %b, %b, 0x87ffffff, 0x38000000, 0xea;
  // The divisor's exponent among the first or the last eight.
  setp.eq.u32 %p, %r, 2;
  @%p and.b32 %b, %b, 0x83ffffff;
  and.b32 %low, %s, 1;
  setp.eq.and.u32 %p, %low, 0, %p;
  @%p or.b32 %b, %b, 0x7c000000;
  // The exponents about 128 apart: the quotient underflows or overflows, or nearly so.
  setp.eq.u32 %p, %r, 3;
  xor.b32 %low, %a, 0x40000000;
  and.b32 %low, %low, 0x7c000000;
  @%p lop3.b32 %b, %b, 0x83ffffff, %low, 0xea;"""

DOUBLES = f"""{RANDOM}
  mov.b64 %a, %z;
  setp.eq.u32 %p, %r, 1;
  @%p and.b64 %a, %a, 0x7fffffffffffffff;
  // Small exponents and subnormals.
  and.b32 %low, %s, 63;
  setp.eq.u32 %p, %r, 2;
  @%p shr.u64 %a, %a, %low;
  // Numbers between 1/8 and 2.
  setp.eq.u32 %p, %r, 3;
  @%p and.b64 %a, %a, 0x003fffffffffffff;
  @%p or.b64 %a, %a, 0x3fc0000000000000;"""

HIGH_WORDS = f"""{scrambled("%z", "%i")}
  cvt.u32.u64 %low, %z;
  cvt.u32.u64 %high, %i;
  mov.b64 %a, {{%low, %high}};"""
"""Every high word; the low word, which has no influence, is random."""

WORDS = "  cvt.u32.u64 %a, %i;"
HALVES = "  cvt.u16.u64 %a, %i;"
HALF_PAIRS = """  cvt.u32.u64 %low, %i;
  mad.lo.u32 %high, %low, 40503, 12345;
  prmt.b32 %a, %low, %high, 0x5410;"""

SWEEPS = [
    *(Sweep(opcode, "f32", 4096, 1 << 20, WORDS) for opcode in [*SINGLE, "tanh.approx.f32"]),
    *(Sweep(f"{name}.approx.ftz.f64", "f64", 4096, 1 << 20, HIGH_WORDS) for name in ("rcp", "rsqrt")),
    Sweep("rsqrt.approx.f64", "f64", 64, 1 << 20, DOUBLES),
    *(Sweep(f"div.{way}{ftz}.f32", "f32", 64, 1 << 20, PAIRS, pairs=True) for way in ("approx", "full") for ftz in ("", ".ftz")),
    *(
        Sweep(f"{name}{'.ftz' * (name == 'ex2.approx' and type[0] == 'b')}.{type}", type, 64, 1 << 10, operands)
        for name in ("ex2.approx", "tanh.approx")
        for type, operands in (("f16", HALVES), ("bf16", HALVES), ("f16x2", HALF_PAIRS), ("bf16x2", HALF_PAIRS))
    ),
]
"""Every operand of those with one f32 or 16-bit operand, every high word of f64; many operands of the others."""
