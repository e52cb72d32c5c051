"""Every special register against what the launch says of it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

import ptxlab
from ptxlab.engine.lowering.special_registers import _TYPES, CLOCKS

GRID, BLOCK, CLUSTER = (4, 6, 2), (10, 5, 2), (2, 1, 2)
THREADS = 100
STATIC, DYNAMIC = 300, 1000
SMS = 7

Coordinates = dict[str, NDArray[np.int64]]


def values(name: str, **options: object) -> NDArray[np.uint64]:
    """The register in every thread, [CTA z, y, x, thread]."""
    type = _TYPES[name]
    read = f"selp.u64 v, 1, 0, {name};" if type == "pred" else f"cvt.u64.{type.replace('b', 'u')} v, {name};"
    text = f"""
.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out)
{{
.reg .b32 t, c, n, m;
.reg .b64 v, at, o;
.shared .b8 fixed[{STATIC}];
.extern .shared .b8 dynamic[];
ld.param.u64 at, [out];
mov.u32 c, %ctaid.z; mov.u32 n, %nctaid.y; mov.u32 m, %ctaid.y; mad.lo.u32 c, c, n, m;
mov.u32 n, %nctaid.x; mov.u32 m, %ctaid.x; mad.lo.u32 c, c, n, m;
mov.u32 t, %tid.z; mov.u32 n, %ntid.y; mov.u32 m, %tid.y; mad.lo.u32 t, t, n, m;
mov.u32 n, %ntid.x; mov.u32 m, %tid.x; mad.lo.u32 t, t, n, m;
mad.lo.u32 c, c, {THREADS}, t;
mul.wide.u32 o, c, 8; add.u64 at, at, o;
{read}
mov.u32 m, fixed; mov.u32 n, dynamic;
st.global.u64 [at], v;
ret;
}}
"""
    out = np.full((*GRID[::-1], THREADS), 0xDEAD, np.uint64)
    device = options.pop("device", None) or ptxlab.Device("sm_100a", sms=SMS)
    arguments: dict[str, object] = {"grid": GRID, "block": BLOCK, "cluster": CLUSTER, "shared_bytes": DYNAMIC, **options}
    result = ptxlab.loads(text).kernel().launch(args=[out], device=device, **arguments)  # type: ignore[arg-type]
    assert result.diagnostics == ()
    return out


def coordinates() -> Coordinates:
    """Of every thread: CTA x, y, z, thread x, y, z, and its lane and warp."""
    z, y, x, thread = np.indices((*GRID[::-1], THREADS))
    width, height, _ = BLOCK
    return {
        "X": x,
        "Y": y,
        "Z": z,
        "x": thread % width,
        "y": thread // width % height,
        "z": thread // (width * height),
        "lane": thread % 32,
        "warp": thread // 32,
    }


def constant(value: int) -> Callable[[Coordinates], NDArray[np.int64]]:
    return lambda at: np.full_like(at["x"], value)


SHARED = 1408
"""300 static bytes, 4 to align the dynamic ones to 16, 1000 dynamic ones: 1304, in units of 128."""

EXPECTED: dict[str, Callable[[Coordinates], NDArray[np.int64]]] = {
    "%tid.x": lambda at: at["x"],
    "%tid.y": lambda at: at["y"],
    "%tid.z": lambda at: at["z"],
    "%ntid.x": constant(10),
    "%ntid.y": constant(5),
    "%ntid.z": constant(2),
    "%ctaid.x": lambda at: at["X"],
    "%ctaid.y": lambda at: at["Y"],
    "%ctaid.z": lambda at: at["Z"],
    "%nctaid.x": constant(4),
    "%nctaid.y": constant(6),
    "%nctaid.z": constant(2),
    "%clusterid.x": lambda at: at["X"] // 2,
    "%clusterid.y": lambda at: at["Y"],
    "%clusterid.z": lambda at: at["Z"] // 2,
    "%nclusterid.x": constant(2),
    "%nclusterid.y": constant(6),
    "%nclusterid.z": constant(1),
    "%cluster_ctaid.x": lambda at: at["X"] % 2,
    "%cluster_ctaid.y": constant(0),
    "%cluster_ctaid.z": lambda at: at["Z"] % 2,
    "%cluster_nctaid.x": constant(2),
    "%cluster_nctaid.y": constant(1),
    "%cluster_nctaid.z": constant(2),
    "%cluster_ctarank": lambda at: at["X"] % 2 + at["Z"] % 2 * 2,
    "%cluster_nctarank": constant(4),
    "%is_explicit_cluster": constant(1),
    "%laneid": lambda at: at["lane"],
    "%warpid": lambda at: at["warp"],
    "%nwarpid": constant(4),
    "%lanemask_eq": lambda at: 1 << at["lane"],
    "%lanemask_lt": lambda at: (1 << at["lane"]) - 1,
    "%lanemask_le": lambda at: (2 << at["lane"]) - 1,
    "%lanemask_gt": lambda at: 2**32 - (2 << at["lane"]),
    "%lanemask_ge": lambda at: 2**32 - (1 << at["lane"]),
    "%nsmid": constant(SMS),
    "%dynamic_smem_size": constant(DYNAMIC),
    "%total_smem_size": constant(SHARED),
    "%aggr_smem_size": constant(SHARED + 1024),
    "%reserved_smem_offset_begin": constant(0),
    "%reserved_smem_offset_end": constant(1024),
    "%reserved_smem_offset_cap": constant(1024),
    "%reserved_smem_offset_0": constant(0),
    "%reserved_smem_offset_1": constant(0),
    "%current_graph_exec": constant(0),
    "%envreg0": constant(0),
    "%envreg31": constant(0),
    "%pm0": constant(0),
    "%pm7_64": constant(0),
}
OTHERS = {"%smid", "%gridid", *CLOCKS}


@pytest.mark.parametrize("name", EXPECTED)
def test_value(name: str) -> None:
    np.testing.assert_array_equal(values(name), EXPECTED[name](coordinates()).astype(np.uint64))


def test_every_register_that_the_language_knows_stands_here() -> None:
    alike = {f"%envreg{i}" for i in range(1, 31)} | {f"%pm{i}" for i in range(1, 8)} | {f"%pm{i}_64" for i in range(7)}
    assert {*EXPECTED, *OTHERS, *alike} == set(_TYPES)


def test_ctas_of_a_cluster_have_sms_of_their_own() -> None:
    sm = values("%smid")
    assert (sm == sm[..., :1]).all()
    assert int(sm.max()) < SMS
    z, y, x = GRID[::-1]
    clusters = sm[..., 0].reshape(1, z, y, x // 2, 2).transpose(0, 2, 3, 1, 4).reshape(-1, 4)
    assert all(len(set(row)) == 4 for row in clusters.tolist())


def test_launches_of_a_device_are_numbered() -> None:
    device = ptxlab.Device("sm_100a", sms=SMS)
    grids = [values("%gridid", device=device) for _ in range(3)]
    assert [len(np.unique(g)) for g in grids] == [1, 1, 1]
    assert len({int(g.flat[0]) for g in grids}) == 3


@pytest.mark.parametrize("name", ["%clock", "%clock64", "%globaltimer", "%globaltimer_lo"])
def test_clocks_advance(name: str) -> None:
    """In a loop of 20,000 steps, with the warps of two CTAs in between."""
    type = _TYPES[name].replace("u", "b")
    text = f"""
.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out)
{{
.reg .{type} before, after, last;
.reg .pred p, q;
.reg .b32 i, t, c, back;
.reg .b64 at, o, v;
ld.param.u64 at, [out];
mov.u32 t, %tid.x; mov.u32 c, %ctaid.x; mad.lo.u32 t, c, 64, t;
mul.wide.u32 o, t, 16; add.u64 at, at, o;
mov.u32 i, 0; mov.u32 back, 0;
mov.{type} before, {name};
mov.{type} last, before;
L: mov.{type} after, {name};
setp.lt.{type.replace("b", "u")} q, after, last;
@q add.u32 back, back, 1;
mov.{type} last, after;
add.u32 i, i, 1;
setp.lt.u32 p, i, 20000;
@p bra L;
sub.{type.replace("b", "u")} after, after, before;
cvt.u64.{type.replace("b", "u")} v, after;
st.global.u64 [at], v;
cvt.u64.u32 v, back;
st.global.u64 [at+8], v;
ret;
}}
"""
    out = np.zeros((128, 2), np.uint64)
    assert ptxlab.loads(text).kernel().launch(grid=2, block=64, args=[out]).diagnostics == ()
    assert (out[:, 0] >= 20_000).all(), "one tick for each instruction at least"
    assert (out[:, 1] == 0).all(), "it never goes back"


@pytest.mark.parametrize(("name", "low", "bits"), [("%clock_hi", "%clock64", 32), ("%globaltimer_hi", "%globaltimer", 32)])
def test_high_words_are_those_of_the_whole(name: str, low: str, bits: int) -> None:
    options = {"grid": (4, 6, 2), "block": BLOCK}
    np.testing.assert_array_equal(values(name, **options), values(low, **options) >> np.uint64(bits))
