"""Micro-kernels of one access of memory each, whose counters a GPU gives: the instruction, and the address of each lane."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.hardware.suite._kernel import Kernel
from tests.profile.access_helpers import TEXT, patterns

__all__ = ["ACCESSES", "Access", "kernel"]

DATA = Path(__file__).parents[1] / "data"
PATTERNS = 20
"""Of each instruction; from the list of the test by the definitions."""
REGISTERS = {1: "{%r10}", 2: "{%r10, %r11}", 4: "{%r10, %r11, %r12, %r13}"}
HALF = ".reg .b16 %h; mov.b16 %h, 0; "
CONSUME = """
  xor.b32 %r10, %r10, %r11; xor.b32 %r10, %r10, %r12; xor.b32 %r10, %r10, %r13; cvt.u32.u64 %r11, %rd10; xor.b32 %r10, %r10, %r11;
  setp.eq.u32 %p, %r10, 0x5eadbeef;
  @%p st.global.u32 [%rd1], %r10;
"""
"""Makes what was loaded matter; the store is never executed, for all data are zero."""


@dataclass(frozen=True)
class Access:
    """``form``: the instruction in short; ``text``: in PTX; %r4 is the address in shared memory, %rd5 the one in global memory."""

    form: str
    text: str
    places: tuple[int, ...]
    active: tuple[int, ...]


def _forms() -> Iterator[tuple[str, str, int, int]]:
    """Form, text, bytes of a lane, and lanes whose addresses count."""
    for space, at in (("shared", "%r4"), ("global", "%rd5")):
        for size in (1, 2, 4, 8, 16):
            kind = {1: "b8", 2: "b16", 4: "b32", 8: "v2.b32", 16: "v4.b32"}[size]
            value = {1: "%r10", 2: "%h", 4: "%r10", 8: REGISTERS[2], 16: REGISTERS[4]}[size]
            after = " cvt.u32.u16 %r10, %h;" if size == 2 else ""
            yield f"ld.{space}.{kind}", f"{HALF * (size == 2)}@%p ld.{space}.{kind} {value}, [{at}];{after}", size, 32
            yield f"st.{space}.{kind}", f"{HALF * (size == 2)}@%p st.{space}.{kind} [{at}], {value};", size, 32
        yield f"atom.{space}.add.u32", f"@%p atom.{space}.add.u32 %r10, [{at}], %r11;", 4, 32
        yield f"atom.{space}.exch.b64", f"@%p atom.{space}.exch.b64 %rd10, [{at}], %rd11;", 8, 32
    yield "red.global.add.u32", "@%p red.global.add.u32 [%rd5], %r3;", 4, 32
    for count in (1, 2, 4):
        for transposed in (False, True):
            shape = f"sync.aligned.m8n8.x{count}{'.trans' * transposed}.shared.b16"
            yield f"ldmatrix.x{count}{'.trans' * transposed}", f"ldmatrix.{shape} {REGISTERS[count]}, [%r4];", 16, 8 * count
            yield f"stmatrix.x{count}{'.trans' * transposed}", f"stmatrix.{shape} [%r4], {REGISTERS[count]};", 16, 8 * count
    for size in (4, 8, 16):
        yield f"cp.async.{size}", f"@%p cp.async.ca.shared.global [%r4], [%rd5], {size}; cp.async.wait_all;", size, 32


def _all() -> Iterator[tuple[str, Access]]:
    yield "nothing", Access("nothing", "", (0,) * 32, (0,) * 32)
    for seed, (form, text, size, _) in enumerate(_forms()):
        chosen = patterns(size, 900 + seed)
        step = max(len(chosen) // PATTERNS, 1)
        for number, (places, active) in enumerate(chosen[::step][:PATTERNS]):
            lanes = [1] * 32 if "matrix" in form else active
            yield f"{form}/{number}", Access(form, text, tuple(places), tuple(lanes))


ACCESSES: dict[str, Access] = dict(_all())


def kernel(name: str) -> Kernel:
    """The micro-kernel of an access for a GPU."""
    access = ACCESSES[name]
    table = np.stack([access.places, access.active], axis=1).astype(np.uint32)
    text = TEXT.format(access=access.text + CONSUME)
    return Kernel(name, text, (table, np.zeros(16384, np.uint8)), 1, 32, results=(), entry="k", module=True)
