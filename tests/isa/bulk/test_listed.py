"""Tensor copies as real kernels write them: every opcode of the list, against slices of the array."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import ptxlab
from tests.isa.test_opcodes import OPCODES

LISTED = [o for o in OPCODES if re.match(r"cp\.(reduce\.)?async\.bulk\.(prefetch\.)?tensor\.", o)]
LOADS = [o for o in LISTED if "mbarrier" in o]
STORES = [o for o in LISTED if ".global.shared::cta" in o]
PREFETCHES = [o for o in LISTED if "prefetch" in o]
FIRST, INNER = 4, 8
"""The box begins at column 4 and is 8 elements wide; along the other dimensions it has two of four, from 1 on."""


def tensor(opcode: str) -> np.ndarray:
    shape = (4,) * (rank(opcode) - 1) + (16,)
    return np.arange(int(np.prod(shape)), dtype=np.uint32).reshape(shape) + 1000


def rank(opcode: str) -> int:
    found = re.search(r"\.(\d)d\.", opcode)
    assert found is not None
    return int(found[1])


def box(opcode: str) -> tuple[slice, ...]:
    return (slice(1, 3),) * (rank(opcode) - 1) + (slice(FIRST, FIRST + INNER),)


def launch(opcode: str, body: str, array: np.ndarray) -> np.ndarray:
    """Two CTAs, a pair; ``body`` has the map's address in m, and shared memory at data and bar."""
    moved = array[box(opcode)].size
    text = f"""
.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 result)
{{
.shared .align 128 .b8 data[{4 * moved}];
.shared .align 8 .b64 bar;
.reg .pred first, p;
.reg .b16 mask;
.reg .b32 tid, rank, at, v;
.reg .b64 m, out, policy;
mov.b64 m, map;
cvta.param.u64 m, m;
ld.param.u64 out, [result];
mov.u32 tid, %tid.x;
mov.u32 rank, %cluster_ctarank;
setp.eq.u32 first, tid, 0;
mov.b64 policy, 0x12f0000000000000;
mov.u32 at, 1;
shl.b32 at, at, rank;
cvt.u16.u32 mask, at;
@first mbarrier.init.shared::cta.b64 [bar], 1;
fence.mbarrier_init.release.cluster;
barrier.cluster.arrive;
barrier.cluster.wait;
mad.lo.u32 v, rank, {moved}, tid;
mul.wide.u32 policy, v, 4;
add.u64 out, out, policy;
mov.b64 policy, 0x12f0000000000000;
mov.u32 at, data;
mad.lo.u32 at, tid, 4, at;
{body}
barrier.cluster.arrive;
barrier.cluster.wait;
ret;
}}
"""
    out = np.zeros((2, moved), np.uint32)
    made = ptxlab.TensorMap(array, box=(INNER, *[2] * (rank(opcode) - 1)))
    ptxlab.loads(text).kernel().launch(grid=2, cluster=2, block=moved, args=[made, out], check="all").raise_for_errors()
    return out


def operands(opcode: str) -> str:
    """What stands behind the coordinates."""
    return (", mask" if "multicast" in opcode else "") + (", policy" if "cache_hint" in opcode else "")


def coordinates(opcode: str) -> str:
    return "{" + ", ".join([str(FIRST), *["1"] * (rank(opcode) - 1)]) + "}"


@pytest.mark.parametrize("opcode", LOADS)
def test_loads(opcode: str) -> None:
    array = tensor(opcode)
    wanted = array[box(opcode)].ravel()
    body = f"""
@first mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {4 * wanted.size};
@first {opcode} [data], [m, {coordinates(opcode)}], [bar]{operands(opcode)};
W: mbarrier.try_wait.parity.shared::cta.b64 p, [bar], 0;
@!p bra W;
ld.shared.b32 v, [at];
st.global.b32 [out], v;
"""
    assert np.array_equal(launch(opcode, body, array), [wanted, wanted])


def write(opcode: str) -> str:
    return f"""
st.shared.b32 [at], tid;
fence.proxy.async.shared::cta;
bar.sync 0;
setp.eq.and.u32 p, rank, 0, first;
@p {opcode} [m, {coordinates(opcode)}], [data]{operands(opcode)};
@p cp.async.bulk.commit_group;
@p cp.async.bulk.wait_group 0;
"""


@pytest.mark.parametrize("opcode", STORES)
def test_stores(opcode: str) -> None:
    array = tensor(opcode)
    wanted: Any = array.copy()
    written = np.arange(wanted[box(opcode)].size, dtype=np.uint32).reshape(wanted[box(opcode)].shape)
    wanted[box(opcode)] = written + wanted[box(opcode)] * (".add." in opcode)
    launch(opcode, write(opcode), array)
    assert np.array_equal(array, wanted)


@pytest.mark.parametrize("opcode", PREFETCHES)
def test_prefetches(opcode: str) -> None:
    array = tensor(opcode)
    before = array.copy()
    assert not launch(opcode, f"@first {opcode} [m, {coordinates(opcode)}]{operands(opcode)};", array).any()
    assert np.array_equal(array, before)


def test_every_listed_opcode_is_executed() -> None:
    assert set(LOADS) | set(STORES) | set(PREFETCHES) == set(LISTED)
