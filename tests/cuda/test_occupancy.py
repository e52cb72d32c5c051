"""Blocks of an SM by registers, as an H200 answered for the numbers of registers that its assembler chose."""

from __future__ import annotations

from ctypes import byref, c_int, c_size_t

import pytest

from ptxlab.cuda.building import compiler
from tests.cuda.driver_helpers import Driver
from tests.cuda.sequence_helpers import recorded

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C compiler")
TEXT = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() .maxnreg {registers} {{ ret; }}\n"
THREADS = range(32, 1025, 32)


def _numbers(steps: list[str]) -> list[int]:
    return [int(step.split(": ")[1]) for step in steps]


def test_blocks_by_registers(driver: Driver) -> None:
    rows = [_numbers(steps) for name, steps in recorded().items() if name.startswith("occupancy.registers/")]
    assert len({registers for registers, *_ in rows}) == 12
    for registers, *blocks in rows:
        kernel = driver.function(driver.module(TEXT.format(registers=registers)), "k")
        found = []
        for threads in THREADS:
            count = c_int()
            driver.call("cuOccupancyMaxActiveBlocksPerMultiprocessor", byref(count), kernel, threads, c_size_t(0))
            found.append(count.value)
        assert found == blocks, registers
