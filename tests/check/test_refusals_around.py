"""Illegal forms of mbarriers, bulk copies, fences and tensor maps: the exact texts of the refusals; ptxas 13.5 refuses each."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptxlab import lint_instruction

from .test_verdicts import assembler, verdict

TEXTS = [
    (
        "mbarrier.arive.b64 %rd1, [mbar];",
        "sm_100a",
        "9.0",
        ["L101: there is no instruction mbarrier.arive.b64"],
    ),
    (
        "mbarrier.init.shared::cluster.b64 [mbar], 1;",
        "sm_100a",
        "9.0",
        ["L102: mbarrier.init has no modifier .shared::cluster"],
    ),
    (
        "mbarrier.init.shared::cta.b64 [mbar], 0;",
        "sm_100a",
        "9.0",
        ["L113: 0 is not the number of arrivals, from 1 to 1048575"],
    ),
    (
        "mbarrier.init.shared::cta.b64 [gvar], 1;",
        "sm_100a",
        "9.0",
        ["L111: [gvar] is not an address of shared memory in brackets"],
    ),
    (
        "mbarrier.init.b64 [%r1], 1;",
        "sm_100a",
        "9.0",
        ["L111: a generic address stands in a 64-bit register, not in a .b32 one"],
    ),
    (
        "mbarrier.init.shared::cta.b64 [mbar];",
        "sm_100a",
        "9.0",
        ["L110: mbarrier.init takes 2 operands here, not 1"],
    ),
    (
        "mbarrier.init.shared::cta.b64 [mbar], %rd1;",
        "sm_100a",
        "9.0",
        ["L111: %rd1 is not the number of arrivals, from 1 to 1048575"],
    ),
    (
        "mbarrier.arrive.release.b64 _, [mbar];",
        "sm_100a",
        "9.0",
        ["L105: an order needs a scope: .cta or .cluster"],
    ),
    (
        "mbarrier.arrive.cluster.b64 _, [mbar];",
        "sm_100a",
        "9.0",
        ["L105: a scope needs an order: .release or .relaxed"],
    ),
    (
        "mbarrier.arrive.shared::cluster.b64 %rd1, [%r1];",
        "sm_100a",
        "9.0",
        ["L111: %rd1 is not _: an arrival at another CTA's mbarrier returns nothing"],
    ),
    (
        "mbarrier.arrive.noComplete.relaxed.cta.b64 %rd1, [mbar], 2;",
        "sm_100a",
        "9.0",
        ["L105: .noComplete goes with .release.cta only"],
    ),
    (
        "mbarrier.arrive.noComplete.b64 %rd1, [mbar];",
        "sm_100a",
        "9.0",
        ["L110: mbarrier.arrive takes 3 operands here, not 2"],
    ),
    (
        "mbarrier.arrive.expect_tx.b64 _, [mbar];",
        "sm_100a",
        "9.0",
        ["L110: mbarrier.arrive.expect_tx takes 3 operands here, not 2"],
    ),
    (
        "mbarrier.arrive.shared.b64 %rd1, [mbar], 2;",
        "sm_80",
        "8.6",
        ["L106: sm_80 does not have a count without .noComplete"],
    ),
    (
        "mbarrier.test_wait.parity.b64 %p1, [mbar], 2;",
        "sm_100a",
        "9.0",
        ["L113: 2 is not the parity: a 32-bit register, 0 or 1"],
    ),
    (
        "mbarrier.try_wait.b64 !%p1, [mbar], %rd1;",
        "sm_100a",
        "9.0",
        ["L111: !%p1 is not a predicate register"],
    ),
    (
        "mbarrier.try_wait.phase_type::conditional.b64 %p1, [mbar], %rd1;",
        "sm_100a",
        "9.0",
        ["L102: mbarrier.try_wait has no modifier .phase_type::conditional"],
    ),
    (
        "cp.async.bulk.shared.global.mbarrier::complete_tx::bytes [smem], [gvar], 16, [mbar];",
        "sm_100a",
        "9.0",
        ["L102: cp.async.bulk has no modifier .shared", "L103: cp.async.bulk needs two of .shared::cluster, .shared::cta, .global"],
    ),
    (
        "cp.async.bulk.global.shared::cluster.mbarrier::complete_tx::bytes [gvar], [smem], 16, [mbar];",
        "sm_100a",
        "9.0",
        ["L105: the directions are .shared::cta.global, .shared::cluster.global, .shared::cluster.shared::cta, .global.shared::cta"],
    ),
    (
        "cp.async.bulk.shared::cta.global.bulk_group [smem], [gvar], 16;",
        "sm_100a",
        "9.0",
        ["L110: cp.async.bulk takes 4 operands here, not 3", "L105: a copy in this direction completes on an mbarrier"],
    ),
    (
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [smem], [gvar], 24, [mbar];",
        "sm_100a",
        "9.0",
        ["L113: 24 is not the number of bytes: a 32-bit register or a multiple of 16 from 0 to 1048560"],
    ),
    (
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.multicast::cluster [smem], [gvar], 16, [mbar], %h1;",
        "sm_100a",
        "9.0",
        ["L110: cp.async.bulk takes 4 operands here, not 5", "L105: multicasting is for .shared::cluster.global"],
    ),
    (
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [smem], [gvar], 16, [mbar], %r1;",
        "sm_100a",
        "9.0",
        ["L111: %r1 is not ctaMask in a 16-bit register"],
    ),
    (
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [smem], [gvar], 16, [mbar];",
        "sm_100a",
        "9.0",
        ["L110: cp.async.bulk takes 5 operands here, not 4"],
    ),
    (
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.L2::cache_hint [smem], [smem], 16, [mbar], %rd1;",
        "sm_100a",
        "9.0",
        ["L110: cp.async.bulk takes 4 operands here, not 5", "L105: .L2::cache_hint needs global memory on one side"],
    ),
    (
        "cp.async.bulk.global.shared::cta.bulk_group.cp_mask [gvar], [smem], 16, %h1;",
        "sm_90a",
        "9.0",
        ["L106: sm_90a does not have .cp_mask"],
    ),
    (
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [smem], [gvar], 16, [mbar];",
        "sm_90",
        "8.0",
        ["L107: .shared::cta as destination needs PTX ISA 8.6; the module has 8.0"],
    ),
    (
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [smem], [%rd1, {%r1}], [mbar];",
        "sm_100a",
        "9.0",
        ["L112: the vector has 1 registers; the instruction takes 2"],
    ),
    (
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [smem], [%rd1], [mbar];",
        "sm_100a",
        "9.0",
        ["L111: the operand is not of the form [tensorMap, tensorCoords]"],
    ),
    (
        "cp.async.bulk.tensor.2d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [smem], [%rd1, {%r1, %r2}], [mbar], {%h1,%h2};",
        "sm_100a",
        "9.0",
        ["L112: the vector has 2 registers; the instruction takes 0", "L105: the im2col modes need at least three dimensions"],
    ),
    (
        "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [smem], [%rd1, {%r1, %r2, %r3}], [mbar];",
        "sm_100a",
        "9.0",
        ["L110: cp.async.bulk.tensor takes 4 operands here, not 3"],
    ),
    (
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.cta_group::2 [smem], [%rd1, {%r1, %r2}], [mbar];",
        "sm_90a",
        "9.0",
        ["L106: sm_90a does not have .cta_group"],
    ),
    (
        "cp.async.bulk.tensor.2d.global.shared::cta.tile::gather4.bulk_group [%rd1, {%r1, %r2, %r3, %r4, %r5}], [smem];",
        "sm_100a",
        "9.0",
        ["L105: .global.shared::cta takes .tile, .tile::scatter4, .im2col_no_offs, .im2col_no_offs::w"],
    ),
    (
        "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1+64, {%r1, %r2}], [smem];",
        "sm_100a",
        "9.0",
        ["L111: the generic address of a tensor map stands here without an offset"],
    ),
    (
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f16 [gvar], [smem], 16;",
        "sm_100a",
        "9.0",
        ["L105: .add of .f16 and .bf16 needs .noftz"],
    ),
    (
        "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.and.b64 [smem], [smem], 16, [mbar];",
        "sm_100a",
        "9.0",
        ["L105: with .shared::cluster.shared::cta it takes .b32"],
    ),
    (
        "cp.async.bulk.wait_group %r1;",
        "sm_100a",
        "9.0",
        ["L111: %r1 is not an integer constant"],
    ),
    (
        "fence.relaxed.gpu;",
        "sm_100a",
        "9.0",
        ["L102: fence has no modifier .relaxed"],
    ),
    (
        "fence.acquire.sync_restrict::shared::cta.cluster;",
        "sm_100a",
        "9.0",
        ["L105: .sync_restrict::shared::cta goes with .release"],
    ),
    (
        "fence.mbarrier_init.release.gpu;",
        "sm_100a",
        "9.0",
        ["L105: .mbarrier_init goes with .release.cluster only"],
    ),
    (
        "fence.proxy.alias.global;",
        "sm_100a",
        "9.0",
        ["L105: a state space goes with .async only"],
    ),
    (
        "fence.proxy.tensormap::generic.acquire.gpu [%rd1], 64;",
        "sm_100a",
        "9.0",
        ["L113: 64 is not 128, the size of a tensor map"],
    ),
    (
        "fence.proxy.async::generic.release.cluster;",
        "sm_100a",
        "9.0",
        ["L105: .async::generic.release needs .sync_restrict::shared::cta"],
    ),
    (
        "fence.proxy.async;",
        "sm_80",
        "9.0",
        ["L106: sm_80 does not have fence.proxy.async"],
    ),
    (
        "membar.gpu;",
        "sm_100a",
        "9.0",
        ["L102: membar has no modifier .gpu", "L103: membar needs one of .cta, .gl, .sys"],
    ),
    (
        "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [smem], 5, %r1;",
        "sm_100a",
        "9.0",
        ["L113: 5 is not the dimension, a constant from 0 to 4"],
    ),
    (
        "tensormap.replace.tile.global_address.shared::cta.b1024.b32 [smem], %r1;",
        "sm_100a",
        "9.0",
        ["L111: %r1 is not a 64-bit value", "L105: addresses and strides are .b64"],
    ),
    (
        "tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [smem], 16;",
        "sm_100a",
        "9.0",
        ["L113: 16 is not a constant from 0 to 15"],
    ),
    (
        "tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [smem], 13;",
        "sm_90a",
        "9.0",
        ["L106: sm_90a does not have an element type of less than a byte"],
    ),
    (
        "tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [smem], 4;",
        "sm_100a",
        "9.0",
        ["L106: sm_100a does not have swizzling of 96 bytes"],
    ),
    (
        "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync [gvar], [smem], 128;",
        "sm_100a",
        "9.0",
        ["L103: tensormap.cp_fenceproxy needs .aligned"],
    ),
]


@pytest.mark.parametrize(("instruction", "target", "version", "texts"), TEXTS, ids=[f"{case[0][:40]}{n}" for n, case in enumerate(TEXTS)])
def test_text(instruction: str, target: str, version: str, texts: list[str]) -> None:
    found = lint_instruction(instruction, target=target, version=version)
    assert [f"{d.code}: {d.message}" for d in found] == texts
    assert all(d.severity == "error" and d.reason and d.place for d in found)


@pytest.mark.oracle
@pytest.mark.compiler
def test_the_assembler_refuses_them(tmp_path: Path) -> None:
    ptxas = assembler()
    if ptxas is None:
        pytest.skip("ptxas 13.5 is not installed: pip install 'ptxlab[assembler]'")
    # The registers of the header need PTX ISA 8.3.
    cases = [case[:3] for case in TEXTS if float(case[2]) >= 8.3]
    assert [case for case in cases if verdict(ptxas, tmp_path, *case)[0] == 0] == []
