"""Warps that access memory at addresses which a test chooses, and what the accesses cost by the definitions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import cache

import numpy as np

import ptxlab

BANKS, BANK_BYTES, SECTOR, LINE = 32, 4, 32, 128
TEXT = """
.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 places, .param .u64 data) {{
  .reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .pred %p;
  .shared .align 1024 .b8 s[16384];
  ld.param.u64 %rd1, [places];
  ld.param.u64 %rd2, [data];
  mov.u32 %r5, %ctaid.x;
  mov.u32 %r1, %tid.x;
  mad.lo.u32 %r1, %r5, 32, %r1;
  mad.wide.u32 %rd3, %r1, 8, %rd1;
  ld.global.v2.u32 {{%r2, %r3}}, [%rd3];
  setp.ne.u32 %p, %r3, 0;
  mov.u32 %r4, s;
  add.u32 %r4, %r4, %r2;
  cvt.u64.u32 %rd4, %r2;
  add.u64 %rd5, %rd2, %rd4;
  mov.u32 %r10, 0; mov.u32 %r11, 0; mov.u32 %r12, 0; mov.u32 %r13, 0;
  mov.u64 %rd10, 0; mov.u64 %rd11, 0; mov.u64 %rd12, 0; mov.u64 %rd13, 0;
  {access}
  ret;
}}
"""
"""%r4 is an address in shared memory, %rd5 one in global memory; %p says whether the thread takes part."""
LINE_OF_ACCESS = TEXT[: TEXT.index("{access}")].count("\n") + 1


@cache
def _kernel(access: str) -> ptxlab.Kernel:
    return ptxlab.loads(TEXT.format(access=access)).kernel()


def measured(access: str, places: Sequence[int], active: Sequence[int]) -> ptxlab.profile.Counts:
    """The counters of the line of ``access``."""
    return measured_together(access, [(places, active)])


def measured_together(access: str, given: Sequence[tuple[Sequence[int], Sequence[int]]]) -> ptxlab.profile.Counts:
    """The same for several accesses, each by a CTA of its own, one after the other."""
    table = np.array([np.stack([places, active], axis=1) for places, active in given], np.uint32)
    data = np.zeros(16384, np.uint8)
    result = _kernel(access).launch(grid=len(given), block=32, args=[table, data], check="none", profile=True)
    assert result.diagnostics == ()
    (line,) = [line for line in result.profile.lines() if line.place is not None and line.place.line == LINE_OF_ACCESS]
    return line.counts


def wavefronts(places: Sequence[int], active: Sequence[int], size: int, shares: bool = True, loads: bool = False) -> tuple[int, int]:
    """Wavefronts of shared memory, and how many there would be without conflicts.

    CUDA C++ Programming Guide, "Shared Memory" of the compute capabilities: 32 banks, successive 32-bit words in successive banks, and no
    conflict between threads that access the same word. A wavefront moves at most 128 bytes, so lanes with 8 or 16 bytes each take part in
    half or quarter warps. Two such parts of a load (``loads``) are one if neighbouring lanes load from the same address or only one of them
    loads: an H200 counts so (`data/accesses_h200.json`).
    """
    lanes = BANKS * BANK_BYTES // max(size, BANK_BYTES)
    total = least = 0
    parts = [range(first, first + lanes) for first in range(0, 32, lanes)]
    if loads and lanes < 32:
        parts = []
        for first in range(0, 32, 2 * lanes):
            pairs = [(i, i + 1) for i in range(first, first + 2 * lanes, 2)]
            fits = all(places[i] == places[j] or not active[i] or not active[j] for i, j in pairs)
            parts += [range(first, first + 2 * lanes)] if fits else [range(first, first + lanes), range(first + lanes, first + 2 * lanes)]
    for part in parts:
        wanted: defaultdict[int, set[tuple[int, int]]] = defaultdict(set)
        for lane in part:
            if active[lane]:
                for byte in range(places[lane], places[lane] + size):
                    word = byte // BANK_BYTES
                    wanted[word % BANKS].add((word, 0 if shares else lane))
        total += max(map(len, wanted.values()), default=0)
        least += bool(wanted)
    return total, least


def sectors(places: Sequence[int], active: Sequence[int], size: int) -> tuple[int, int, int]:
    """Sectors and cache lines of global memory, and how many sectors the different bytes would fill."""
    touched = {byte for lane in range(32) if active[lane] for byte in range(places[lane], places[lane] + size)}
    return len({byte // SECTOR for byte in touched}), len({byte // LINE for byte in touched}), -(-len(touched) // SECTOR)


def atomic_sectors(places: Sequence[int], active: Sequence[int]) -> int:
    """Sectors of atomic operations: each is moved as often as its most wanted address has lanes."""
    wanted: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for place, takes_part in zip(places, active, strict=True):
        if takes_part:
            wanted[place // SECTOR][place] += 1
    return sum(max(counts.values()) for counts in wanted.values())


def patterns(size: int, seed: int) -> list[tuple[list[int], list[int]]]:
    """Addresses and active lanes: strides, broadcasts, swizzles and random ones, with all lanes and with some."""
    rng = np.random.default_rng(seed)
    lane = np.arange(32)
    found = [lane * step * size % 8192 for step in (0, 1, 2, 3, 4, 5, 8, 16, 17, 32, 33)]
    found += [lane[::-1] * size, lane // 2 * size, lane % 4 * size, (lane % 8) * 128 + lane // 8 * size, (lane ^ lane // 4) * size]
    found += [(lane * 128 + (lane % 8 ^ 3) * 16) // size * size, lane * 256 // size * size]
    found += [rng.integers(0, span, 32) * size for span in (4, 16, 64, 256)]
    masks = [np.ones(32, int), rng.integers(0, 2, 32), lane % 2, (lane < 5).astype(int), (lane == 19).astype(int)]
    chosen = [(places, masks[0]) for places in found] + [(places, masks[i % 5]) for i, places in enumerate(found)]
    return [(places.tolist(), active.tolist()) for places, active in chosen]
