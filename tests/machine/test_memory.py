from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from ptxlab.diagnostics import PtxlabError
from ptxlab.isa.address_space import GLOBAL_BASE
from ptxlab.machine.memory.global_memory import AccessError, DeviceMemory, sparse_bytes


def refused(memory: DeviceMemory, address: int, size: int, write: bool = False) -> tuple[str, str]:
    with pytest.raises(AccessError) as caught:
        memory.view(address, size, write)
    return caught.value.code, caught.value.message


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
def test_sparse_bytes_take_memory_only_where_they_are_written() -> None:
    def resident() -> int:
        return int(Path("/proc/self/status").read_text().split("RssAnon:")[1].split()[0]) << 10

    before = resident()
    made = sparse_bytes(64 << 20)
    made[:: 2 << 20] = 1
    assert resident() - before < 2 << 20
    assert made.sum() == 32


def test_allocations_are_aligned_apart_and_in_the_table() -> None:
    memory = DeviceMemory()
    a, b, c = memory.allocate(100, "a"), memory.allocate(1, "b", alignment=4096), memory.allocate(10, "c", writable=False)
    assert a.base == GLOBAL_BASE
    assert all(x.base % 256 == 0 and x.data.ctypes.data % 256 == 0 for x in (a, b, c))
    assert b.base % 4096 == 0
    assert b.base - (a.base + a.size) >= 0x1000
    assert memory.rows.tolist() == [
        [a.base, 100, a.data.ctypes.data, 3],
        [b.base, 1, b.data.ctypes.data, 3],
        [c.base, 10, c.data.ctypes.data, 1],
    ]


def test_views_are_the_bytes_themselves() -> None:
    memory = DeviceMemory()
    a = memory.allocate(16, "a")
    memory.view(a.base + 4, 4, write=True)[:] = [1, 2, 3, 4]
    assert a.data.tolist() == [0] * 4 + [1, 2, 3, 4] + [0] * 8


def test_refusals_say_what_is_wrong() -> None:
    memory = DeviceMemory()
    a = memory.allocate(16, "a")
    b = memory.allocate(16, "b", writable=False)
    base = GLOBAL_BASE
    text = f"a [{base:#x}, {base + 16:#x}), 16 bytes"
    assert refused(memory, base + 12, 8) == ("M402", f"read of 8 bytes at {base + 12:#x} runs 4 bytes past the end of {text}")
    assert refused(memory, base + 20, 4, True) == ("M402", f"write of 4 bytes at {base + 20:#x}, 4 bytes past the end of {text}")
    assert refused(memory, b.base, 4, True)[0] == "M404"
    assert refused(memory, base - 4, 4) == ("M401", f"read of 4 bytes at {base - 4:#x}, 4 bytes before the start of {text}")
    assert refused(memory, 8, 4) == ("M401", "read of 4 bytes at 0x8: a null pointer with an offset")
    assert refused(memory, 1 << 46, 4) == ("M401", f"read of 4 bytes at {1 << 46:#x}, which belongs to no allocation")
    memory.free(a)
    assert refused(memory, base, 4) == ("M403", f"read of 4 bytes at {base:#x}, in memory that was freed: {text}")
    assert memory.rows[:, 0].tolist() == [b.base]


def test_addresses_are_never_used_twice() -> None:
    memory = DeviceMemory()
    first = memory.allocate(8, "a")
    memory.free(first)
    assert memory.allocate(8, "b").base > first.base


def test_the_device_may_be_full() -> None:
    memory = DeviceMemory(limit=1000)
    memory.allocate(900, "a")
    with pytest.raises(PtxlabError, match="b needs 200 bytes, but only 100 of the device's 1000 are free"):
        memory.allocate(200, "b")


def test_deferred_copies_in_order_with_zero_fill() -> None:
    memory = DeviceMemory()
    a = memory.allocate(64, "a")
    a.data[:] = np.arange(64)
    b = memory.allocate(16, "b")
    b.data[:] = 200
    shared = np.full(128, 255, np.uint8)
    rows = np.array(
        [
            [0, a.base, 16 | 16 << 8],
            [16, a.base + 16, 16 | 16 << 8 | 1 << 16],
            [32, b.base, 16 | 16 << 8],
            [48, a.base + 32, 16 | 4 << 8],
            [64, 0, 8],
            [0, b.base, 4 | 4 << 8],
        ],
        np.uint64,
    )
    memory.copy_to_shared(shared, rows)
    expected = np.full(128, 255, np.uint8)
    expected[:32] = np.arange(32)
    expected[32:48] = 200
    expected[48:64] = [32, 33, 34, 35] + [0] * 12
    expected[64:72] = 0
    expected[:4] = 200
    assert shared.tolist() == expected.tolist()


def test_host_memory_at_its_own_address() -> None:
    memory = DeviceMemory(4096)
    own = memory.allocate(64, "own")
    host = np.arange(100, dtype=np.uint8)
    attached = memory.attach(host.ctypes.data, host, "host")
    assert [row[0] for row in memory.rows.tolist()] == [host.ctypes.data, own.base], "sorted, as compiled code searches it"
    memory.view(attached.base + 10, 2, write=True)[:] = 7
    assert host[9:13].tolist() == [9, 7, 7, 12]
    assert str(memory.refusal(attached.base + 100, 4, False)).split(", in")[0].endswith(f"0 bytes past the end of {attached}")
    assert memory.used == 64
    memory.detach(attached)
    assert memory.find(host.ctypes.data) is None
    assert memory.rows.tolist() == [[own.base, 64, own.data.ctypes.data, 3]]
