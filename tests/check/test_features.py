"""Targets and versions of the instructions around the tensor core, compared with the assembler where it is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptxlab import lint_instruction
from ptxlab.isa.form import is_declared

from .test_verdicts import assembler, verdict

INSTRUCTIONS = (
    "mbarrier.init.shared::cta.b64 [mbar], 1;",
    "mbarrier.inval.shared::cta.b64 [mbar];",
    "mbarrier.arrive.shared::cta.b64 %rd1, [mbar];",
    "mbarrier.arrive.shared::cluster.b64 _, [mbar];",
    "mbarrier.arrive.noComplete.shared::cta.b64 %rd1, [mbar], 1;",
    "mbarrier.arrive.expect_tx.shared::cta.b64 %rd1, [mbar], 16;",
    "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [mbar], 16;",
    "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [mbar], 16;",
    "mbarrier.test_wait.shared::cta.b64 %p1, [mbar], %rd1;",
    "mbarrier.test_wait.parity.shared::cta.b64 %p1, [mbar], 0;",
    "mbarrier.try_wait.shared::cta.b64 %p1, [mbar], %rd1;",
    "mbarrier.try_wait.parity.shared::cta.b64 %p1, [mbar], 0;",
    "mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 %p1, [mbar], 0;",
    "mbarrier.arrive.relaxed.cluster.shared::cta.b64 %rd1, [mbar];",
    "cp.async.mbarrier.arrive.shared::cta.b64 [mbar];",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [smem], [%rd1], 16, [mbar];",
    "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [smem], [%rd1], 16, [mbar];",
    "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [smem], 16;",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [smem], [%rd1], 16, [mbar], %h1;",
    "cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%rd1], [smem], 16, %h1;",
    "cp.async.bulk.commit_group;",
    "cp.async.bulk.wait_group.read 0;",
    "cp.async.bulk.prefetch.L2.global [%rd1], 16;",
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1], [smem], 16;",
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [smem], [%rd1, {%r1,%r2}], [mbar];",
    "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [smem], [%rd1, {%r1,%r2}], [mbar];",
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2 [smem], [%rd1, {%r1,%r2}], [mbar];",
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [smem], [%rd1, {%r1,%r2}], [mbar], %h1;",  # noqa: E501
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes [smem], [%rd1, {%r1,%r2,%r3,%r4,%r5}], [mbar];",  # noqa: E501
    "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes [smem], [%rd1, {%r1,%r2,%r3,%r4,%r5}], [mbar];",
    "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%rd1, {%r1,%r2,%r3,%r4,%r5}], [smem];",
    "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r1,%r2}], [smem];",
    "cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd1, {%r1,%r2}];",
    "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%rd1, {%r1,%r2}], [smem];",
    "tensormap.replace.tile.global_address.shared::cta.b1024.b64 [smem], %rd1;",
    "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd1], [smem], 128;",
    "fence.proxy.tensormap::generic.release.gpu;",
    "fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;",
    "fence.proxy.async;",
    "fence.proxy.async.shared::cta;",
    "fence.proxy.async.global;",
    "fence.mbarrier_init.release.cluster;",
    "fence.acq_rel.cluster;",
    "fence.acquire.sync_restrict::shared::cluster.cluster;",
    "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;",
    "fence.acq_rel.gpu;",
    "fence.acquire.gpu;",
    "fence.proxy.alias;",
    "prefetch.tensormap [%rd1];",
    "griddepcontrol.wait;",
    "barrier.cluster.arrive.aligned;",
    "mapa.shared::cluster.u32 %r1, %r2, 0;",
    "elect.sync %r1|%p1, 0xffffffff;",
    "setmaxnreg.inc.sync.aligned.u32 64;",
    "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [smem], [mbar];",
    "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [smem], %r1, [mbar];",
)
TARGETS = ("sm_80", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_100f", "sm_103a", "sm_103f", "sm_110a", "sm_120", "sm_120a", "sm_120f")
CASES = [*((target, "9.5") for target in TARGETS), ("sm_90a", "8.5"), ("sm_90a", "8.6")]


def refused(instruction: str, target: str, version: str) -> bool:
    return any(d.code in ("L106", "L107", "L108") for d in lint_instruction(instruction, target=target, version=version))


@pytest.mark.parametrize(
    ("instruction", "target", "version", "code"),
    [
        ("mbarrier.arrive.expect_tx.shared::cta.b64 %rd1, [mbar], 16;", "sm_80", "8.5", "L106"),
        ("fence.acquire.gpu;", "sm_90", "8.5", "L107"),
        ("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [smem], %rd1;", "sm_100", "8.6", "L106"),
        ("fence.proxy.async;", "sm_80", "9.0", "L106"),
        ("cp.async.bulk.commit_group;", "sm_90", "8.0", None),
    ],
)
def test_needs(instruction: str, target: str, version: str, code: str | None) -> None:
    found = lint_instruction(instruction, target=target, version=version)
    assert [d.code for d in found] == ([code] if code else [])


@pytest.mark.oracle
@pytest.mark.compiler
def test_targets_and_versions_against_the_assembler(tmp_path: Path) -> None:
    ptxas = assembler()
    if ptxas is None:
        pytest.skip("ptxas 13.5 is not installed: pip install 'ptxlab[assembler]'")
    undeclared = [instruction for instruction in INSTRUCTIONS if not is_declared(instruction.split()[0].rstrip(";"))]
    differ = []
    for instruction in undeclared:
        for target, version in CASES:
            status, _ = verdict(ptxas, tmp_path, instruction, target, version)
            if refused(instruction, target, version) != (status != 0):
                differ.append((instruction, target, version))
    assert differ == []
