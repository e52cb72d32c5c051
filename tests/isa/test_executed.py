"""Every opcode of real kernels is executed by a test: those that no sweep and no committed kernel has, here; and the list is closed."""

from __future__ import annotations

import ast
import re
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ptxlab
from ptxlab.isa import CATALOGUE
from ptxlab.isa.catalogue import match
from ptxlab.silicon.parts import mma as mma_cases
from tests.hardware import scalar_forms, suite, warp_matrix_cases
from tests.isa.bulk import test_listed as tensor_copies
from tests.isa.memory import test_round_trips as round_trips
from tests.isa.tcgen05 import mma_form_cases as catalogue
from tests.isa.test_opcodes import OPCODES
from tests.isa.wgmma import test_forms as wgmma_forms
from tests.sweep_helpers import one_in

pytestmark = pytest.mark.sweep

ROOT = Path(__file__).parents[2]
HEAD = """.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 result)
{
.shared .align 16 .b8 room[64];
.shared .align 8 .b64 bar;
.local .align 8 .b32 own;
.reg .pred p, q;
.reg .b32 r<8>, tid, remote;
.reg .b64 out, a, b, policy;
.reg .f32 f<2>;
ld.param.u64 out, [result];
mov.u32 tid, %tid.x;
setp.eq.u32 q, tid, 0;
mov.u32 r0, bar;
"""
BARRIER = """
@q mbarrier.init.shared.b64 [bar], 5;
bar.sync 0;
mapa.shared::cluster.u32 remote, r0, 0;
@q mbarrier.arrive.shared.b64 a, [bar];
@q mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], 8;
@q mbarrier.expect_tx.shared::cta.b64 [bar], 16;
@q mbarrier.arrive.expect_tx.shared.b64 a, [bar], 4;
@q mbarrier.arrive.expect_tx.release.cta.shared::cluster.b64 _, [remote], 32;
@q mbarrier.arrive.release.cta.shared::cluster.b64 _, [remote];
bar.sync 0;
mbarrier.test_wait.parity.shared.b64 p, [bar], 0;
selp.u32 r1, 1, 0, p;
bar.sync 0;
@q mbarrier.complete_tx.relaxed.cta.shared.b64 [bar], 60;
bar.sync 0;
mbarrier.test_wait.parity.shared.b64 p, [bar], 0;
@p add.u32 r1, r1, 2;
bar.sync 0;
@q mbarrier.arrive.shared::cluster.b64 _, [remote];
A: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [bar], 0;
@!p bra A;
B: mbarrier.try_wait.parity.shared.b64 p, [bar], 0;
@!p bra B;
add.u32 r1, r1, 4;
"""
KERNELS: dict[str, tuple[str, Any]] = {
    "an mbarrier whose phase completes with the last arrival only": (BARRIER, [4, 4]),
    "generic addresses of local memory": (
        "add.u32 r1, tid, 7; st.local.b32 [own], r1; mov.u64 a, own; cvta.local.u64 a, a; ld.b32 r1, [a]; add.u32 r1, r1, 1;"
        " st.b32 [a], r1; cvta.to.local.u64 b, a; ld.local.b32 r1, [b];",
        [8, 9],
    ),
    "generic addresses of shared memory": (
        "mov.u64 a, room; cvta.shared.u64 a, a; @q st.b32 [a], 5; bar.sync 0; cvta.to.shared.u64 b, a; ld.shared.b32 r1, [b];",
        [5, 5],
    ),
    "generic addresses of global memory": (
        "cvta.to.global.u64 a, out; ld.global.b32 r1, [a+4]; bar.sync 0; add.u32 r1, r1, 3;",
        [1003, 1003],
    ),
    "compare and swap of 32 bits": (
        "mul.wide.u32 a, tid, 4; add.u64 a, a, out; atom.relaxed.global.cas.b32 r2, [a], 1000, 77;"
        " ld.global.b32 r1, [a]; add.u32 r1, r1, r2;",
        [1077, 1077],
    ),
    "compare and swap of 64 bits": (
        "mov.b64 b, {1, 2}; setp.eq.u32 p, 0, 1; mov.b64 policy, 4294967296000; add.u64 policy, policy, 1000; mov.u32 r1, 0;"
        " @q atom.relaxed.global.cas.b64 a, [out], policy, b; @q ld.global.v2.b32 {r2, r3}, [out]; @q add.u32 r1, r2, r3; bar.sync 0;",
        [3, 0],
    ),
    "the largest number, or NaN": (
        "cvt.rn.f32.u32 f0, tid; redux.sync.max.NaN.f32 f0, f0, 0xffffffff; mov.b32 r1, f0;"
        " @q mov.f32 f0, 0f7FC00001; redux.sync.max.NaN.f32 f0, f0, 0xffffffff; mov.b32 r2, f0; @!q add.u32 r1, r2, 0;",
        [0x41F80000, 0x7FFFFFFF],
    ),
    "a copy into shared memory with hints": (
        "createpolicy.fractional.L2::evict_first.b64 policy; mul.wide.u32 a, tid, 4; add.u64 a, a, out;"
        " mov.u32 r2, room; and.b32 r3, tid, 7;"
        " shl.b32 r3, r3, 2; add.u32 r2, r2, r3; setp.lt.u32 p, tid, 8; mov.u32 r1, 0; @p cp.async.ca.shared.global.L2::128B [r2], [a], 4;"
        " cp.async.wait_all; @p ld.shared.b32 r1, [r2]; @p add.u32 r1, r1, 1;",
        [1001, 1001],
    ),
}
"""Name -> code that leaves its result in r1, and the results of threads 0 and 1; the array is 1000 in all places at first."""


@pytest.mark.parametrize("policy", ["eager", "lazy"])
@pytest.mark.parametrize("name", KERNELS)
def test_kernels(name: str, policy: str) -> None:
    code, wanted = KERNELS[name]
    out = np.full(32, 1000, np.uint32)
    text = f"{HEAD}{code}\nmul.wide.u32 a, tid, 4;\nadd.u64 a, a, out;\nst.global.b32 [a], r1;\nret;\n}}\n"
    ptxlab.loads(text).kernel().launch(grid=1, block=32, args=[out], policy=policy).raise_for_errors()
    assert out[:2].tolist() == wanted


FIELDS = {
    "tensormap.replace.tile.global_address.global.b1024.b64 [map], value;": {"address": 1 << 33},
    "tensormap.replace.tile.global_dim.global.b1024.b32 [map], 1, word;": {"dims": (64, 77)},
    "tensormap.replace.tile.global_stride.global.b1024.b64 [map], 0, value;": {"strides": (1 << 33,)},
}
"""An instruction -> what it changes; the value is 2**33, the word 77."""


@pytest.mark.parametrize("instruction", FIELDS)
def test_maps_in_global_memory(instruction: str) -> None:
    fields: dict[str, Any] = {
        "data_type": 6, "rank": 2, "address": 1 << 20, "dims": (64, 64), "strides": (128,), "box": (32, 8), "element_strides": (1, 1),
        "interleave": 0, "swizzle": 0, "l2_promotion": 0, "oob_fill": 0,
    }  # fmt: skip
    raw = np.zeros(128 + 64, np.uint8)
    raw[:128] = np.frombuffer(ptxlab.descriptors.encode_tensor_map(**fields), np.uint8)
    ptxlab.loads(
        ".version 8.8\n.target sm_100a\n.address_size 64\n.visible .entry k(.param .u64 at)\n{ .reg .b64 map, value; .reg .b32 word;\n"
        f"ld.param.u64 map, [at]; mov.b64 value, {1 << 33}; mov.u32 word, 77;\n{instruction}\nret; }}\n"
    ).kernel().launch(grid=1, block=1, args=[raw]).raise_for_errors()
    assert raw[:128].tobytes() == ptxlab.descriptors.encode_tensor_map(**fields | FIELDS[instruction])


ELSEWHERE = {
    "*.f32x2": "tests/isa/scalar/test_rounding.py::test_pairs",
    "cvt.rn.bf16x2.ue8m0x2": "tests/isa/scalar/test_conversion.py::test_scales_back",
    "cvt.rp.satfinite.ue8m0x2.f32": "tests/isa/scalar/test_conversion.py::test_scales",
    "cvt.rn.f16x2.e2m1x2": "tests/isa/scalar/test_conversion.py::test_from_small_floats",
    "cvt.rn.satfinite.e2m1x2.f32": "tests/isa/scalar/test_conversion.py::test_to_small_floats",
    "mov.*": "tests/isa/scalar/test_comparison.py::test_moves",
    "clusterlaunchcontrol.*": "tests/isa/bulk/test_launch_control.py::test_all_work_is_done_once",
    "griddepcontrol.*": "tests/isa/test_sync.py::test_dependent_launches_on_one_device",
    "cp.async.mbarrier.arrive.noinc.shared.b64": "tests/isa/test_sync.py::test_asynchronous_copies",
    "brkpt": "tests/isa/test_sync.py::test_misuse",
    "trap": "tests/isa/test_sync.py::test_misuse",
    "membar.gl": "tests/isa/memory/test_hints.py::test_nothing_changes",
    "fence.proxy.tensormap::generic.release.gpu": "tests/isa/memory/test_hints.py::test_nothing_changes",
    "prefetch.tensormap": "tests/isa/bulk/test_copies.py::test_prefetches_change_nothing",
    "call.uni": "tests/isa/memory/test_round_trips.py::test_store",
}
"""Opcodes that stand in tests as parts, or among other instructions."""


def opcodes(text: str) -> set[str]:
    """What stands first in the statements of a PTX text, behind a guard."""
    statements = (part.split() for part in re.split(r"[;{}\n]|(?<!:):(?!:)", text))
    return {words[words[0].startswith("@")] for words in statements if words}


@cache
def executed() -> set[tuple[str, str]]:
    """Rows of the catalogue with what their groups match: of the committed kernels, the records and the sweeps."""
    texts = [path.read_text() for folder in ("triton", "triton_sm90") for path in (ROOT / "tests" / "end_to_end" / folder).glob("*.ptx")]
    texts += [kernel.text for topic in suite.TOPICS for kernel in suite.kernels(topic) if not kernel.cuda]
    texts += [scalar_forms.module(list(enumerate(scalar_forms.forms()))), *(mma_cases.module(form, "sm_90a") for form in mma_cases.forms())]
    texts += [warp_matrix_cases.kernel("k", form) for form in warp_matrix_cases.FORMS]
    texts += [warp_matrix_cases.move_kernel("k", move) for move in warp_matrix_cases.MOVES]
    texts += [code for code, _ in KERNELS.values()] + list(FIELDS) + [HEAD]
    found = set().union(*map(opcodes, texts)) | {*round_trips.LOADS, *round_trips.STORES, *tensor_copies.LISTED}
    swept = [catalogue.cover(row) for row in CATALOGUE["tcgen05"]] + [wgmma_forms.some_forms(row) for row in wgmma_forms.ROWS]
    found |= {form.opcode for forms in swept for form in forms}
    return {(row.pattern, str(q)) for opcode in found for row, q in match(opcode)}


@pytest.mark.parametrize("opcode", one_in(3, OPCODES))
def test_every_opcode_is_executed(opcode: str) -> None:
    forms = {(row.pattern, str(q)) for row, q in match(opcode)}
    assert forms <= executed() or any(fnmatchcase(opcode, glob) for glob in ELSEWHERE)


def test_the_tests_elsewhere_are_there() -> None:
    for place in ELSEWHERE.values():
        path, _, function = place.partition("::")
        tree = ast.parse((ROOT / path).read_text())
        assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, place
