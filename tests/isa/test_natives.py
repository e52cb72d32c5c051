"""The descriptions that memory and warp instructions give of themselves."""

from __future__ import annotations

from typing import Any

import pytest

from ptxlab.isa import load_all
from ptxlab.isa.catalogue import match
from ptxlab.isa.native_ops import Atomic, Collective, CopyAsync, LaneAccess, MatrixAccess, Nothing
from ptxlab.isa.operands import Const, Op, Reg, Unused

load_all()


def describe(opcode: str, row: int = 0, **constants: Any) -> Any:
    """What the row says of an instruction whose operands are registers, but for those given by name."""
    found, q = match(opcode)[row]
    operands = tuple(constants.get(name, Unused() if type.startswith("?") else Reg(i)) for i, (name, type) in enumerate(found.operands))
    return found.semantics(q, Op(0, opcode, found, q, operands, None, 1, 1))


@pytest.mark.parametrize(
    ("opcode", "want"),
    [
        ("ld.global.v4.b32", LaneAccess(False, "global", 32, 4, False, 1, 0)),
        ("ld.relaxed.sys.b16", LaneAccess(False, "generic", 16, 1, False, 1, 0)),
        ("ld.global.nc.L1::no_allocate.L2::128B.v8.f32", LaneAccess(False, "global", 32, 8, False, 1, 0)),
        ("ld.global.L2::cache_hint.s8", LaneAccess(False, "global", 8, 1, True, 1, 0)),
        ("ld.param.u64", LaneAccess(False, "param", 64, 1, False, 1, 0)),
        ("ld.volatile.shared.b128", LaneAccess(False, "shared", 128, 1, False, 1, 0)),
        ("ld.acquire.gpu.global.u32", LaneAccess(False, "global", 32, 1, False, 1, 0)),
        ("ld.shared::cluster.u32", LaneAccess(False, "shared::cluster", 32, 1, False, 1, 0)),
        ("st.shared::cta.b32", LaneAccess(True, "shared", 32, 1, False, 0, 1)),
        ("st.relaxed.cta.global.L1::no_allocate.v8.b32", LaneAccess(True, "global", 32, 8, False, 0, 1)),
        ("st.local.v4.u8", LaneAccess(True, "local", 8, 4, False, 0, 1)),
        ("atom.global.gpu.acq_rel.add.u32", Atomic("add", "u32", "global", 0, 1, (2,))),
        ("atom.relaxed.sys.shared.add.u32", Atomic("add", "u32", "shared", 0, 1, (2,))),
        ("atom.global.acq_rel.gpu.cas.b32", Atomic("cas", "b32", "global", 0, 1, (2, 3))),
        ("atom.exch.b128", Atomic("exch", "b128", "generic", 0, 1, (2,))),
        ("atom.global.v4.f32.add", Atomic("add", "f32", "global", 0, 1, (2,), count=4)),
        ("red.global.gpu.relaxed.add.v4.f32", Atomic("add", "f32", "global", -1, 0, (1,), count=4)),
        ("red.global.add.noftz.v2.bf16x2", Atomic("add", "bf16x2", "global", -1, 0, (1,), count=2, noftz=True)),
        ("shfl.sync.bfly.b32", Collective("shfl", "bfly", "b32", 4)),
        ("vote.sync.ballot.b32", Collective("vote", "ballot", "pred", 2)),
        ("vote.sync.any.pred", Collective("vote", "any", "pred", 2)),
        ("match.all.sync.b64", Collective("match", "all", "b64", 2)),
        ("redux.sync.max.NaN.f32", Collective("redux", "max.NaN", "f32", 2)),
        ("redux.sync.min.abs.NaN.f32", Collective("redux", "min.abs.NaN", "f32", 2)),
        ("redux.sync.xor.b32", Collective("redux", "xor", "b32", 2)),
        ("elect.sync", Collective("elect", "", "b32", 1, anywhere=True)),
        ("activemask.b32", Collective("activemask", "", "b32", -1)),
        ("bar.warp.sync", Collective("warpsync", "", "b32", 0, anywhere=True)),
        ("ldmatrix.sync.aligned.x4.trans.m8n8.shared.b16", MatrixAccess(False, 4, True, "b16", 1, 0, "shared")),
        ("ldmatrix.sync.aligned.m8n8.x1.b16", MatrixAccess(False, 1, False, "b16", 1, 0)),
        ("stmatrix.sync.aligned.x4.m8n8.shared.b16.trans", MatrixAccess(True, 4, True, "b16", 0, 1, "shared")),
        ("ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8", MatrixAccess(False, 4, True, "b8", 1, 0, "shared")),
        ("ldmatrix.sync.aligned.m8n16.x4.shared::cta.b8x16.b6x16_p32", MatrixAccess(False, 4, False, "b6", 1, 0, "shared")),
        ("ldmatrix.sync.aligned.m16n16.x1.trans.b8x16.b4x16_p64", MatrixAccess(False, 2, True, "b4", 1, 0)),
        ("ldmatrix.sync.aligned.x2.m8n16.shared.s8.s4", MatrixAccess(False, 2, False, "s4", 1, 0, "shared")),
        ("stmatrix.sync.aligned.m16n8.x4.trans.shared.b8", MatrixAccess(True, 4, True, "b8", 0, 1, "shared")),
        ("prefetch.global.L2", Nothing()),
        ("prefetchu.L1", Nothing()),
    ],
)
def test_description(opcode: str, want: object) -> None:
    assert describe(opcode) == want


def test_copies() -> None:
    opcode = "cp.async.cg.shared.global.L2::cache_hint.L2::128B"
    assert describe(opcode, size=Const(16)) == CopyAsync(16, 0, 1)
    assert describe(opcode, size=Const(16), source_size=Reg(3)) == CopyAsync(16, 0, 1, source_size=3)
    assert describe(opcode, row=1, size=Const(16)) == CopyAsync(16, 0, 1, ignore=3)


@pytest.mark.parametrize(("opcode", "vector"), [("ldmatrix.sync.aligned.m8n8.x2.shared.b16", "v2"), ("ld.global.v8.b32", "v8")])
def test_vectors_have_as_many_registers_as_the_opcode_says(opcode: str, vector: str) -> None:
    assert match(opcode)[0][1].vec == vector
