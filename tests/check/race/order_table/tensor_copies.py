"""Copies through tensor maps, and what changes tensor maps."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np

import ptxlab
from tests.check.race.order_table.copies import (
    BULK,
    COMPLETION,
    CONFLICT,
    FENCE_GLOBAL,
    FENCE_SHARED,
    FINISH,
    GROUPS,
    LAST_WAIT,
    LOAD,
    LOAD_THEN_READ,
    LOAD_THEN_WRITE_SOURCE,
    MULTICAST_THEN_READ,
    OTHER_WRITES_THEN_SAVE,
    PROXY,
    READ_THEN_LOAD,
    READ_THEN_SAVE,
    REMOTE_THEN_READ,
    SAVE,
    SAVE_THEN_READ,
    SAVE_THEN_WRITE_SOURCE,
    WAIT,
    WAIT_GROUP,
    WAIT_READ,
    WRITE_SOURCE_THEN_LOAD,
    WRITE_SOURCE_THEN_SAVE,
    WRITE_THEN_LOAD,
    WRITE_THEN_SAVE,
    of,
)
from tests.check.race.order_table.frames import BAR, FILL, PAIR_OF_CTAS, READ_THEN_SHARED, SHARED_THEN_READ, WRITE_THEN_GLOBAL
from tests.check.race.order_table.pair import Pair

REPLACE = "Data Movement and Conversion Instructions: tensormap.replace"
FENCEPROXY = "Parallel Synchronization and Communication Instructions: tensormap.cp_fenceproxy"
FENCE = "Parallel Synchronization and Communication Instructions: membar / fence"
ACQUIRE = "fence.proxy.tensormap::generic.acquire.gpu [%map], 128;"
Map = Callable[[Any], Any]


def tiles(*box: int) -> Map:
    """A map of words, 16 along each dimension but two of the first five, copied in such boxes."""
    dims = (16, 16, 8, 2, 2)[: len(box)]
    return lambda array: ptxlab.TensorMap(array, box=box, dims=dims, dtype=np.uint32)


def columns(channels: int = 8, pixels: int = 20) -> Map:
    """A map of images."""
    corner = (0, 0)
    return lambda array: ptxlab.TensorMap.im2col(array, corner, corner, channels, pixels, swizzle="32B", dims=(8, 8, 8, 4), dtype=np.uint32)


def loads(forms: tuple[str, ...], bytes_: int, tensor_map: Map, mask: bool = False) -> tuple[Pair, ...]:
    """A copy to shared memory completes on an mbarrier object."""
    if mask:
        return (
            Pair(
                forms,
                "writes shared memory of several CTAs",
                of(bytes_, MULTICAST_THEN_READ),
                WAIT,
                COMPLETION,
                "X103",
                options=PAIR_OF_CTAS,
                tensor_map=tensor_map,
            ),
        )
    found = []
    for accesses, kernel, order, section, code in (
        ("writes shared memory, async proxy", LOAD_THEN_READ, WAIT, COMPLETION, "X103"),
        ("writes shared memory, async proxy", READ_THEN_LOAD, BAR, CONFLICT, "X112 X103"),
        ("writes shared memory, async proxy", WRITE_THEN_LOAD, FENCE_SHARED, PROXY, "X102"),
        ("reads global memory, async proxy", LOAD_THEN_WRITE_SOURCE, WAIT, COMPLETION, "X104"),
        ("reads global memory, async proxy", WRITE_SOURCE_THEN_LOAD, FENCE_GLOBAL, PROXY, "X102"),
        ("reads the tensor map", CHANGE_THEN_LOAD, FENCE_MAP, FENCE, "X117"),
        ("reads the tensor map", LOAD_THEN_CHANGE, WAIT, COMPLETION, "X118"),
    ):
        used = tuple(form.replace("%tensormap", "%map") for form in forms) if "%map" in kernel else forms
        found.append(Pair(used, accesses, of(bytes_, kernel), order, section, code, tensor_map=tensor_map))
    return tuple(found)


def saves(forms: tuple[str, ...], tensor_map: Map) -> tuple[Pair, ...]:
    """A copy to global memory completes with its bulk group."""
    found = []
    for accesses, kernel, order, section, code in (
        ("writes global memory, async proxy", SAVE_THEN_READ, WAIT_GROUP, GROUPS, "X103"),
        ("writes global memory, async proxy", READ_THEN_SAVE, BAR, CONFLICT, "X112 X103"),
        ("writes global memory, async proxy", WRITE_THEN_SAVE, FENCE_GLOBAL, PROXY, "X102"),
        ("reads shared memory, async proxy", SAVE_THEN_WRITE_SOURCE, WAIT_READ, GROUPS, "X104"),
        ("reads shared memory, async proxy", WRITE_SOURCE_THEN_SAVE, FENCE_SHARED, PROXY, "X102"),
        ("reads shared memory, async proxy", OTHER_WRITES_THEN_SAVE, BAR, CONFLICT, "X112"),
        ("reads the tensor map", CHANGE_THEN_SAVE, FENCE_MAP, FENCE, "X117"),
        ("reads the tensor map", SAVE_THEN_CHANGE, WAIT_GROUP, GROUPS, "X118"),
    ):
        used = tuple(form.replace("%tensormap", "%map") for form in forms) if "%map" in kernel else forms
        found.append(Pair(used, accesses, kernel, order, section, code, tensor_map=tensor_map))
    return tuple(found)


CHANGE = "tensormap.replace.tile.element_stride.global.b1024.b32 [%map], 0, 1;"
FENCE_MAP = "@%first fence.proxy.tensormap::generic.release.gpu;\n@%first " + ACQUIRE
CHANGE_THEN_LOAD = LOAD + "@%first " + CHANGE + "\nORDER\n@%first FORM" + LAST_WAIT
LOAD_THEN_CHANGE = LOAD + "@%first FORM\nORDER\n@%second " + CHANGE + LAST_WAIT
CHANGE_THEN_SAVE = SAVE + "@%first " + CHANGE + "\nORDER\n@%first FORM" + FINISH
SAVE_THEN_CHANGE = SAVE + "@%first FORM\n@%first cp.async.bulk.commit_group;\nORDER\nbar.sync 0;\n@%second " + CHANGE + FINISH

C1, C2, C3, C4, C5 = ("{" + ", ".join(["%zero"] * count) + "}" for count in range(1, 6))
ROWS = "{%zero, %zero, %one, %two, %three}"
COPY = "cp.async.bulk.tensor"
DONE, ALL, HINT = "mbarrier::complete_tx::bytes", "multicast::cluster", "L2::cache_hint"
LOADS = (
    *loads((f"{COPY}.1d.shared::cta.global.{DONE} [%smem], [%tensormap, {C1}], [%mbar];",), 64, tiles(16)),
    *loads(
        (
            f"{COPY}.2d.shared::cta.global.tile.{DONE} [%smem], [%tensormap, {C2}], [%mbar];",
            f"{COPY}.2d.shared::cluster.global.{DONE}.cta_group::1 [%smem], [%tensormap, {C2}], [%mbar];",
            f"{COPY}.2d.shared::cta.global.tile.{DONE}.{HINT} [%smem], [%tensormap, {C2}], [%mbar], %policy;",
        ),
        64,
        tiles(4, 4),
    ),
    *loads((f"{COPY}.5d.shared::cta.global.{DONE} [%smem], [%tensormap, {C5}], [%mbar];",), 64, tiles(4, 2, 2, 1, 1)),
    *loads(
        (
            f"{COPY}.2d.shared::cta.global.tile::gather4.{DONE} [%smem], [%tensormap, {ROWS}], [%mbar];",
            f"{COPY}.2d.shared::cta.global.tile::gather4.{DONE}.{HINT} [%smem], [%tensormap, {ROWS}], [%mbar], %policy;",
        ),
        256,
        tiles(16, 1),
    ),
    *loads(
        (
            f"{COPY}.4d.shared::cta.global.im2col.{DONE} [%smem], [%tensormap, {C4}], [%mbar], {{0, 0}};",
            f"{COPY}.4d.shared::cta.global.im2col.{DONE}.{HINT} [%smem], [%tensormap, {C4}], [%mbar], {{0, 0}}, %policy;",
            f"{COPY}.4d.shared::cta.global.im2col::w.{DONE} [%smem], [%tensormap, {C4}], [%mbar], {{0, 0}};",
            f"{COPY}.4d.shared::cta.global.im2col::w.{DONE}.{HINT} [%smem], [%tensormap, {C4}], [%mbar], {{0, 0}}, %policy;",
        ),
        640,
        columns(),
    ),
    *loads((f"{COPY}.4d.shared::cta.global.im2col::w::128.{DONE} [%smem], [%tensormap, {C4}], [%mbar], {{0, 0}};",), 4096, columns()),
)
PAIR_LOADS = (
    *loads(
        (
            f"{COPY}.2d.shared::cluster.global.tile.{DONE}.{ALL} [%smem], [%tensormap, {C2}], [%mbar], %h0;",
            f"{COPY}.2d.shared::cluster.global.tile.{DONE}.{ALL}.{HINT} [%smem], [%tensormap, {C2}], [%mbar], %h0, %policy;",
        ),
        64,
        tiles(4, 4),
        mask=True,
    ),
    *loads(
        (
            f"{COPY}.2d.shared::cluster.global.tile::gather4.{DONE}.{ALL} [%smem], [%tensormap, {ROWS}], [%mbar], %h0;",
            f"{COPY}.2d.shared::cluster.global.tile::gather4.{DONE}.{ALL}.{HINT} [%smem], [%tensormap, {ROWS}], [%mbar], %h0, %policy;",
        ),
        256,
        tiles(16, 1),
        mask=True,
    ),
    *loads(
        (
            f"{COPY}.4d.shared::cluster.global.im2col.{DONE}.{ALL} [%smem], [%tensormap, {C4}], [%mbar], {{0, 0}}, %h0;",
            f"{COPY}.4d.shared::cluster.global.im2col.{DONE}.{ALL}.{HINT} [%smem], [%tensormap, {C4}], [%mbar], {{0, 0}}, %h0, %policy;",
            f"{COPY}.4d.shared::cluster.global.im2col::w.{DONE}.{ALL} [%smem], [%tensormap, {C4}], [%mbar], {{0, 0}}, %h0;",
            f"{COPY}.4d.shared::cluster.global.im2col::w.{DONE}.{ALL}.{HINT} [%smem], [%tensormap, {C4}], [%mbar], {{0, 0}}, %h0, %policy;",
        ),
        640,
        columns(),
        mask=True,
    ),
    Pair(
        (f"{COPY}.2d.shared::cluster.global.tile.{DONE} [%peer], [%tensormap, {C2}], [%peer_mbar];",),
        "writes shared memory of another CTA",
        of(64, REMOTE_THEN_READ),
        WAIT,
        COMPLETION,
        "X103",
        options=PAIR_OF_CTAS,
        tensor_map=tiles(4, 4),
    ),
    Pair(
        (f"{COPY}.2d.shared::cta.global.tile.{DONE}.cta_group::2 [%smem], [%tensormap, {C2}], [%peer_mbar];",),
        "writes shared memory and tells the peer CTA",
        of(64, REMOTE_THEN_READ).replace("@%second ld.shared.b32 %r8, [%smem]", "@%second ld.shared::cluster.b32 %r8, [%peer]"),
        WAIT,
        COMPLETION,
        "X103",
        options=PAIR_OF_CTAS,
        tensor_map=tiles(4, 4),
    ),
)
SAVES = (
    *saves(
        (
            f"{COPY}.2d.global.shared::cta.tile.bulk_group [%tensormap, {C2}], [%smem];",
            f"{COPY}.2d.global.shared::cta.bulk_group.{HINT} [%tensormap, {C2}], [%smem], %policy;",
            f"cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%tensormap, {C2}], [%smem];",
            f"cp.reduce.async.bulk.tensor.2d.global.shared::cta.xor.bulk_group.{HINT} [%tensormap, {C2}], [%smem], %policy;",
        ),
        tiles(4, 4),
    ),
    *saves(
        (
            f"{COPY}.2d.global.shared::cta.tile::scatter4.bulk_group [%tensormap, {ROWS}], [%smem];",
            f"{COPY}.2d.global.shared::cta.tile::scatter4.bulk_group.{HINT} [%tensormap, {ROWS}], [%smem], %policy;",
        ),
        tiles(16, 1),
    ),
    *saves(
        (
            f"{COPY}.4d.global.shared::cta.im2col_no_offs.bulk_group [%tensormap, {C4}], [%smem];",
            f"{COPY}.4d.global.shared::cta.im2col_no_offs.bulk_group.{HINT} [%tensormap, {C4}], [%smem], %policy;",
            f"cp.reduce.async.bulk.tensor.4d.global.shared::cta.max.im2col_no_offs.bulk_group [%tensormap, {C4}], [%smem];",
            f"cp.reduce.async.bulk.tensor.4d.global.shared::cta.min.im2col_no_offs.bulk_group.{HINT} [%tensormap, {C4}], [%smem], %policy;",
        ),
        columns(),
    ),
)
PREFETCH = "cp.async.bulk.prefetch.tensor"
HINTS = tuple(
    Pair(forms, "a hint: no access of the memory model", WRITE_THEN_GLOBAL, "", BULK + ".prefetch.tensor", tensor_map=tensor_map)
    for forms, tensor_map in (
        (
            (f"{PREFETCH}.2d.L2.global.tile [%tensormap, {C2}];", f"{PREFETCH}.2d.L2.global.{HINT} [%tensormap, {C2}], %policy;"),
            tiles(4, 4),
        ),
        (
            (
                f"{PREFETCH}.2d.L2.global.tile::gather4 [%tensormap, {ROWS}];",
                f"{PREFETCH}.2d.L2.global.tile::gather4.{HINT} [%tensormap, {ROWS}], %policy;",
            ),
            tiles(16, 1),
        ),
        (
            (
                f"{PREFETCH}.4d.L2.global.im2col [%tensormap, {C4}], {{0, 0}};",
                f"{PREFETCH}.4d.L2.global.im2col.{HINT} [%tensormap, {C4}], {{0, 0}}, %policy;",
                f"{PREFETCH}.4d.L2.global.im2col::w [%tensormap, {C4}], {{0, 0}};",
                f"{PREFETCH}.4d.L2.global.im2col::w.{HINT} [%tensormap, {C4}], {{0, 0}}, %policy;",
            ),
            columns(),
        ),
    )
)

# ---------------------------------------------------------------------------------------------------------- tensor maps as data
FIELDS = (
    "global_address.{space}.b1024.b64 {place}, %d0;",
    "rank.{space}.b1024.b32 {place}, 1;",
    "swizzle_mode.{space}.b1024.b32 {place}, 0;",
    "elemtype.{space}.b1024.b32 {place}, 6;",
    "interleave_layout.{space}.b1024.b32 {place}, 0;",
    "swizzle_atomicity.{space}.b1024.b32 {place}, 0;",
    "fill_mode.{space}.b1024.b32 {place}, 0;",
    "box_dim.{space}.b1024.b32 {place}, 0, 4;",
    "global_stride.{space}.b1024.b64 {place}, 0, 64;",
)
SHARED_FIELDS = tuple(f"tensormap.replace.tile.{f.format(space='shared::cta', place='[%smem]')}" for f in FIELDS)
GLOBAL_FIELDS = tuple(f"tensormap.replace.tile.{f.format(space='global', place='[%map]')}" for f in FIELDS)
READ_MAP = "ld.global.b32 %r8, [%map];\nst.global.b32 [%out+64], %r8;"
USE = f"{COPY}.2d.shared::cta.global.tile.{DONE} [%smem], [%map, {C2}], [%mbar];"
TO_GLOBAL = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%map], [%smem], 128;"
SAME_MAP = (
    "and.b32 %t, %tid, 31;\nmul.wide.u32 %d1, %t, 4;\nadd.u64 %d1, %tensormap, %d1;\nld.b32 %r9, [%d1];\n"
    "mad.lo.u32 %t, %t, 4, %smem;\n@%warp0 st.shared.b32 [%t], %r9;\nbar.warp.sync -1;\n"
)
CHANGES = (
    Pair(SHARED_FIELDS, "reads and writes the map in shared memory, weakly", READ_THEN_SHARED, BAR, REPLACE, "X101"),
    Pair(SHARED_FIELDS, "reads and writes the map in shared memory, weakly", SHARED_THEN_READ, BAR, REPLACE, "X101"),
    Pair(
        GLOBAL_FIELDS,
        "reads and writes the map in global memory, weakly",
        "@%first FORM\nORDER\n@%second " + READ_MAP,
        BAR,
        REPLACE,
        "X114",
    ),
    Pair(
        GLOBAL_FIELDS,
        "reads and writes the map in global memory, weakly",
        "@%first " + READ_MAP + "\nORDER\n@%second FORM",
        BAR,
        REPLACE,
        "X114",
    ),
    Pair((TO_GLOBAL,), "reads shared memory", FILL + "@%second st.shared.b32 [%smem], %tid;\nORDER\n@%warp0 FORM", BAR, FENCEPROXY, "X101"),
    Pair((TO_GLOBAL,), "reads shared memory", FILL + "@%warp0 FORM\nORDER\n@%second st.shared.b32 [%smem], %tid;", BAR, FENCEPROXY, "X101"),
    Pair((TO_GLOBAL,), "writes global memory", FILL + "@%warp0 FORM\nORDER\n@%second " + READ_MAP, BAR, FENCEPROXY, "X114"),
    Pair(
        (TO_GLOBAL,),
        "writes global memory, and releases to the tensormap proxy",
        of(64, LOAD) + SAME_MAP + "@%warp0 FORM\nORDER\n@%first " + USE.replace("%smem", "%smem+1024") + LAST_WAIT,
        "@%first " + ACQUIRE,
        FENCEPROXY,
        "X117",
        tensor_map=tiles(4, 4),
    ),
    Pair(
        (ACQUIRE, "fence.proxy.tensormap::generic.acquire.sys [%map], 128;"),
        "acquires for the tensormap proxy",
        of(64, LOAD) + "@%first " + CHANGE + "\n@%first fence.proxy.tensormap::generic.release.gpu;\nORDER\n@%first " + USE + LAST_WAIT,
        "@%first FORM",
        FENCE,
        "X117",
        tensor_map=tiles(4, 4),
    ),
    Pair(
        ("fence.proxy.tensormap::generic.release.gpu;",),
        "releases to the tensormap proxy",
        of(64, LOAD) + "@%first " + CHANGE + "\nORDER\n@%first " + ACQUIRE + "\n@%first " + USE + LAST_WAIT,
        "@%first FORM",
        FENCE,
        "X117",
        tensor_map=tiles(4, 4),
    ),
)

TABLE: tuple[Pair, ...] = tuple(chain(LOADS, PAIR_LOADS, SAVES, HINTS, CHANGES))
