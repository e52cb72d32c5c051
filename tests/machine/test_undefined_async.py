"""Undefined bits of registers and of memory that asynchronous operations move: findings where they are used, and no others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ptxlab
from ptxlab.descriptors import InstructionDescriptor, SharedMemoryDescriptor
from tests.machine.launch_helpers import details, kernel, store

SHARED = (
    ".shared .align 1024 .b8 s[2048]; .shared .align 1024 .b8 u[2048]; .shared .align 8 .b64 mbar; .shared .align 4 .b32 slot;"
    ".reg .b64 descriptor; .reg .b32 column;"
)
MASKED = """setp.eq.u32 q, tid, 0;
setp.lt.u32 p, lane, 16;
@p ld.global.u32 r1, [at];
"""
"""Lanes 16 to 31 have no value."""
KEEP = """mad.lo.u32 r4, tid, 4, s;
st.shared.u32 [r4], r1;
@q mbarrier.init.shared::cta.b64 [mbar], 1;
fence.proxy.async.shared::cta;
bar.sync 0;
"""
WAIT = """W: mbarrier.try_wait.parity.shared::cta.b64 t, [mbar], 0;
@!t bra W;
"""
BULK_GROUP = "@q cp.async.bulk.commit_group; @q cp.async.bulk.wait_group 0;"
POLICIES: list[dict[str, Any]] = [{"policy": "eager"}, {"policy": "lazy"}, {"policy": "random", "seed": 3}]


def launch(body: str, cluster: int = 1, **options: Any) -> tuple[ptxlab.Diagnostic, ...]:
    out = np.full(1024 * cluster, 7, np.uint32)
    directives = f".reqnctapercluster {cluster}" if cluster > 1 else ""
    loaded = kernel(body, shared=SHARED, directives=directives, params=", .param .align 64 .b8 map[128]")
    tensor = ptxlab.TensorMap(out[512:1024].reshape(16, 32), box=(4, 4)) if "map" in body else bytes(128)
    result = loaded.launch(grid=cluster, block=32, cluster=cluster, args=[out, tensor], **options)
    return result.diagnostics


def is_masked_load(found: ptxlab.Diagnostic) -> bool:
    return "`@p ld.global.u32 r1, [at];`: its guard is false" in details(found)["origin"]


APART = "and.b32 r4, tid, 15; @p mad.lo.u32 r4, r4, 4, s; @!p mad.lo.u32 r4, r4, 4, u;"
"""The values of lanes 0 to 15 go to s, those without value to u."""
TO_GLOBAL = {
    "a bulk copy": "@q cp.async.bulk.global.shared::cta.bulk_group [out+256], [{}], 64;",
    "a bulk reduction": "@q cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [out+256], [{}], 64;",
    "a masked bulk copy": "@q cp.async.bulk.global.shared::cta.bulk_group.cp_mask [out+256], [{}], 64, h;",
    "a tensor store": "@q cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [map, {{r6, r6}}], [{}];",
    "a tensor reduction": "@q cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [map, {{r6, r6}}], [{}];",
}


@pytest.mark.parametrize("options", POLICIES, ids=str)
@pytest.mark.parametrize("way", TO_GLOBAL)
def test_a_masked_load_that_a_copy_stores(way: str, options: dict[str, Any]) -> None:
    body = f"mov.u32 r6, 0; mov.b16 h, 0xfff; {MASKED}{KEEP.replace('mad.lo.u32 r4, tid, 4, s;', APART)}"
    assert launch(f"{body}\n{TO_GLOBAL[way].format('s')}\n{BULK_GROUP}", **options) == ()
    found = launch(f"{body}\n{TO_GLOBAL[way].format('u')}\n{BULK_GROUP}", **options)
    assert [each.code for each in found] == ["R808"]
    assert found[0].message.startswith("cp.")
    assert found[0].message.endswith(" stores undefined bits to global memory")
    assert found[0].excerpt.strip().startswith("@q cp.")
    assert is_masked_load(found[0])


MOVES = {
    "a copy in the cluster": (
        "@q mbarrier.arrive.expect_tx.shared::cta.b64 _, [mbar], 128;"
        "@q cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [u], [s], 128, [mbar];"
    ),
    "a reduction in the cluster": (
        "@q mbarrier.arrive.expect_tx.shared::cta.b64 _, [mbar], 128;"
        "@q cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.and.b32 [u], [s], 128, [mbar];"
    ),
    "st.async": (
        "@q mbarrier.arrive.expect_tx.shared::cta.b64 _, [mbar], 128;"
        "mad.lo.u32 r4, tid, 4, u; st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [r4], r1, [mbar];"
    ),
    "red.async": (
        "@q mbarrier.arrive.expect_tx.shared::cta.b64 _, [mbar], 128;"
        "mad.lo.u32 r4, tid, 4, u; red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.or.b32 [r4], r1, [mbar];"
    ),
}
CLEAR = "mad.lo.u32 r4, tid, 4, u; st.shared.u32 [r4], 0; fence.proxy.async.shared::cta; bar.sync 0;"
LOADED = "mad.lo.u32 r4, tid, 4, u; ld.shared.u32 r3, [r4];"


@pytest.mark.parametrize("options", POLICIES, ids=str)
@pytest.mark.parametrize("way", MOVES)
def test_a_masked_load_by_way_of_a_copy(way: str, options: dict[str, Any]) -> None:
    body = f"{MASKED}{KEEP}{CLEAR}{MOVES[way]}\n{WAIT}{LOADED}\n"
    assert launch(body + "@p " + store("r3"), **options) == ()
    (found,) = launch(body + store("r3"), **options)
    assert (found.code, found.message) == ("R808", "st.global.u32 stores r3, which is undefined")
    assert details(found)["lanes"] == "16-31"
    assert is_masked_load(found)
    decides = launch(body + "setp.eq.u32 p, r3, 5;\n@p bra L; L:", **options)
    assert [each.code for each in decides] == ["R802"]


def test_the_cta_of_another_rank() -> None:
    """Distributed shared memory keeps the undefined bits of what is stored there."""
    body = f"""{MASKED}
mad.lo.u32 r4, tid, 4, u;
mapa.shared::cluster.u32 r5, r4, 1;
setp.eq.u32 t, cta, 0;
@t st.shared::cluster.u32 [r5], r1;
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
@!t ld.shared.u32 r3, [r4];
setp.eq.and.u32 q, cta, 1, p;
"""
    assert launch(body + "@q " + store("r3"), 2) == ()
    stored = launch(body + "@!t " + store("r3"), 2)
    assert [each.code for each in stored] == ["R808"]
    assert is_masked_load(stored[0])


# ------------------------------------------------------------------------------------------------------------ tensor memory
DESCRIPTOR = int(SharedMemoryDescriptor(start=0, leading=128, stride=256))
IDESC = int(InstructionDescriptor(kind="f16", m=128, n=16, a="f16", b="f16", d="f32"))
TENSOR = """.shared .align 1024 .b8 s[8192]; .shared .align 8 .b64 mbar; .shared .align 4 .b32 slot; .reg .b64 da, db; .reg .b32 ta, d<16>;
.reg .pred first, none;"""
PLACE = "shr.u32 r4, tid, 3; shl.b32 r4, r4, 8; and.b32 r5, tid, 7; mad.lo.u32 r4, r5, 16, r4; add.u32 r4, r4, s;"
"""Where the thread's row of A is, and its row of B, 4096 bytes after it."""
ALLOCATE = """setp.eq.u32 first, tid, 0;
setp.eq.u32 q, warp, 0;
@q tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;
@first mbarrier.init.shared::cta.b64 [mbar], 1;
setp.lt.u32 t, tid, 16;
setp.ne.u32 none, tid, tid;
"""
BEGIN = """fence.proxy.async.shared::cta;
tcgen05.fence::before_thread_sync;
bar.sync 0;
tcgen05.fence::after_thread_sync;
ld.shared.u32 ta, [slot];
mov.u32 r6, s;
shr.u32 r6, r6, 4;
cvt.u64.u32 da, r6;
"""
END = """@first tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [mbar];
W: mbarrier.try_wait.parity.shared::cta.b64 q, [mbar], 0;
@!q bra W;
tcgen05.fence::after_thread_sync;
shl.b32 r7, warp, 21;
add.u32 r7, r7, ta;
"""
COLUMNS = ", ".join(f"d{i}" for i in range(16))
MULTIPLY = f"""or.b64 da, da, {DESCRIPTOR:#x};
add.u64 db, da, 256;
@first tcgen05.mma.cta_group::1.kind::f16 [ta], da, db, {IDESC:#x}, {{enable}};
"""
READ = f"""tcgen05.ld.sync.aligned.32x32b.x16.b32 {{{{{COLUMNS}}}}}, [r7];
tcgen05.wait::ld.sync.aligned;
"""
FREE = """tcgen05.fence::before_thread_sync;
bar.sync 0;
setp.eq.u32 q, warp, 0;
@q tcgen05.dealloc.cta_group::1.sync.aligned.b32 ta, 32;
"""


def matrix(fill: str, instruction: str, use: str, **options: Any) -> tuple[ptxlab.Diagnostic, ...]:
    """A kernel of 128 threads around an instruction that writes 16 columns of tensor memory."""
    text = f"{ALLOCATE}{PLACE}{fill}\n{BEGIN}{instruction}{END}{READ.format()}{use}\n{FREE}"
    loaded = kernel(text, shared=TENSOR)
    return loaded.launch(block=128, args=[np.zeros(128, np.uint32)], **options).diagnostics


def rows(a: str = "tid", b: str = "tid") -> str:
    """Each thread stores its row of A, and one of the first 16 also that of B."""
    parts = [f"st.shared.v4.b32 [r4+{place}], {{{a}, {a}, {a}, {a}}};" for place in (0, 128)]
    parts += [f"@t st.shared.v4.b32 [r4+{place}], {{{b}, {b}, {b}, {b}}};" for place in (4096, 4224)]
    return "\n".join(parts)


LOAD = "setp.lt.u32 p, lane, {};\n@p ld.global.u32 r1, [at];\n"


@pytest.mark.parametrize("options", POLICIES, ids=str)
def test_masked_rows_of_a(options: dict[str, Any]) -> None:
    fill, multiply = LOAD.format(16) + rows(a="r1"), MULTIPLY.format(enable="none")
    assert matrix(fill, multiply, "@p " + store("d0"), **options) == ()
    (found,) = matrix(fill, multiply, store("d0"), **options)
    assert (found.code, found.message) == ("R808", "st.global.u32 stores d0, which is undefined")
    assert details(found)["lanes"] == "16-31"
    assert is_masked_load(found)


@pytest.mark.parametrize("options", POLICIES, ids=str)
def test_masked_columns_of_b(options: dict[str, Any]) -> None:
    fill, multiply = LOAD.format(8) + rows(b="r1"), MULTIPLY.format(enable="none")
    assert matrix(fill, multiply, store("d7"), **options) == ()
    (found,) = matrix(fill, multiply, store("d8"), **options)
    assert (found.code, found.message) == ("R808", "st.global.u32 stores d8, which is undefined")
    assert is_masked_load(found)


def test_rows_that_nothing_has_written() -> None:
    """The finding of the first run is at the product; it stays if a row is stored that depends on it."""
    fill, multiply = "setp.lt.u32 p, lane, 16;\n" + rows().replace("st.shared.v4.b32 [r4+128]", "@p st.shared.v4.b32 [r4+128]"), MULTIPLY
    assert matrix(fill, multiply.format(enable="none"), "@p " + store("d3")) == ()
    (found,) = matrix(fill, multiply.format(enable="none"), store("d3"))
    assert (found.code, found.message.partition(" ")[0]) == ("M411", "tcgen05.mma")
    assert "st.global.u32 [at], d3;" in details(found)["used by"]


def test_an_accumulator_that_nothing_has_written() -> None:
    multiply = MULTIPLY.format(enable="first")
    assert matrix(rows(), multiply, store("tid")) == ()
    (found,) = matrix(rows(), multiply, store("d0"))
    assert (found.code, found.message.partition(" ")[0]) == ("T614", "tcgen05.mma")


@pytest.mark.parametrize("options", POLICIES, ids=str)
def test_a_copy_to_tensor_memory(options: dict[str, Any]) -> None:
    """tcgen05.cp.128x256b takes row i to lane i, as the product takes it."""
    copy = f"or.b64 da, da, {DESCRIPTOR:#x};\n@first tcgen05.cp.cta_group::1.128x256b [ta], da;\n"
    fill = LOAD.format(16) + rows(a="r1")
    read = READ.replace("x16", "x8").replace(COLUMNS, ", ".join(f"d{i}" for i in range(8)))
    text = f"{ALLOCATE}{PLACE}{fill}\n{BEGIN}{copy}{END}{read.format()}{{}}\n{FREE}"
    found = []
    for use in ("@p " + store("d5"), store("d5")):
        loaded = kernel(text.replace("{}", use), shared=TENSOR)
        found.append(loaded.launch(block=128, args=[np.zeros(128, np.uint32)], **options).diagnostics)
    assert found[0] == ()
    assert [each.code for each in found[1]] == ["R808"]
    assert is_masked_load(found[1][0])
