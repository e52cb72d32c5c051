"""CUTLASS GEMMs of the collective builder, compiled on the spot: host and device code as nvcc makes it, exact results.

Each case is compiled once (a minute or so) and then kept by content in the cache folder.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ptxlab.interop import nvcc

from .compile_helpers import assert_clean, call, compiled
from .operand_helpers import TYPES, block_scaled, integers

pytestmark = pytest.mark.timeout(1800)
"""For the compiler on a busy machine."""

HALF, BF16, E4M3 = "cutlass::half_t", "cutlass::bfloat16_t", "cutlass::float_e4m3_t"
STREAM_K = "cutlass::gemm::StreamKScheduler"


@dataclass(frozen=True)
class Dense:
    """A case of dense.cu: tile M, N, K, CTAs of a cluster along M, element types, schedules."""

    arch: str
    tile: tuple[int, int, int]
    cluster: int
    element: str
    output: str
    mainloop: str
    epilogue: str
    scheduler: str = "void"

    def macros(self) -> dict[str, Any]:
        m, n, k = self.tile
        found = {"ARCH": self.arch, "ELEMENT": self.element, "OUTPUT": self.output, "TILE_M": m, "TILE_N": n, "TILE_K": k}
        found |= {"CLUSTER_M": self.cluster, "CLUSTER_N": 1, "MAINLOOP": self.mainloop, "EPILOGUE": self.epilogue}
        found |= {"SCHEDULER": self.scheduler} | ({"STREAM_K": None} if self.scheduler == STREAM_K else {})
        return found


ONE_SM, TWO_SM = (
    ("KernelTmaWarpSpecialized1SmSm100", "TmaWarpSpecialized1Sm"),
    ("KernelTmaWarpSpecialized2SmSm100", "TmaWarpSpecialized2Sm"),
)
PINGPONG = ("KernelTmaWarpSpecializedPingpong", "TmaWarpSpecialized")
COOPERATIVE = ("KernelTmaWarpSpecializedCooperative", "TmaWarpSpecializedCooperative")

DENSE = {
    "sm100_1sm": Dense("Sm100", (128, 128, 64), 1, HALF, "float", *ONE_SM),
    "sm100_2sm": Dense("Sm100", (256, 128, 64), 2, BF16, BF16, *TWO_SM),
    "sm100_stream_k": Dense("Sm100", (128, 128, 64), 1, HALF, "float", *ONE_SM, STREAM_K),
    "sm90_pingpong": Dense("Sm90", (64, 128, 64), 1, HALF, "float", *PINGPONG),
    "sm90_cooperative": Dense("Sm90", (128, 128, 128), 2, E4M3, HALF, *COOPERATIVE),
    "sm90_stream_k": Dense("Sm90", (128, 128, 64), 1, HALF, "float", *COOPERATIVE, STREAM_K),
}
QUICK = ("sm100_1sm", "sm90_pingpong")
"""Compiled in every run of the tests; the others are marked slow."""


def marked(names: Any, quick: tuple[str, ...]) -> list[Any]:
    """The cases as parameters."""
    return [pytest.param(name, marks=[] if name in quick else pytest.mark.slow) for name in names]


def run_dense(case: Dense, sms: int, splits: int = 1, known: frozenset[str] = frozenset(), **options: Any) -> nvcc.Host:
    """D = 2 A B^T - C, exact in the output type; rows, columns and K are no multiples of the tiles'."""
    host = compiled("dense.cu", f"sm_{case.arch[2:].lower()}a", case.macros(), sms=sms)
    host.options = options
    m, n, k = 320, 264, 336
    generator = np.random.default_rng(7)
    element, output = TYPES[case.element], TYPES[case.output]
    most = 4 if case.output == "float" else 1
    a, b = (integers(generator, (rows, k), element, most) for rows in (m, n))
    c = integers(generator, (m, n), output)
    buffers = [host.device.array(x.view(np.uint8)) for x in (a, b, c, np.zeros_like(c))]
    call(host, "gemm", m, n, k, *buffers, 2.0, -1.0, splits, known=known)
    wide = 2 * (a.astype(np.float64) @ b.astype(np.float64).T) - c.astype(np.float64)
    expected = wide.astype(output)
    assert np.array_equal(expected.astype(np.float64), wide) or case.output == BF16, "the case is exact"
    assert np.array_equal(buffers[3].numpy().view(output), expected)
    return host


RANDOM = [pytest.param({"policy": "random", "seed": seed}, id=f"random-{seed}", marks=pytest.mark.slow) for seed in range(1, 10)]
SCHEDULES = [*(pytest.param({"policy": policy}, id=policy) for policy in ("eager", "lazy", "random")), *RANDOM]

UNFENCED = {name: frozenset({"X120"}) for name in ("sm100_2sm", "mxf8_2sm")}
"""Findings in pairs of CTAs, which are right: CUTLASS makes the mbarrier of the deallocation of tensor memory behind the last
fence.mbarrier_init (``tmem_deallocation_result_barrier`` of sm100_gemm_tma_warpspecialized.hpp), and the cluster arrives relaxed."""


def assert_unfenced(host: nvcc.Host) -> None:
    """Where X120 names an initialisation, no fence stands between it and the arrival at the barrier of the cluster."""
    found = [d.message for launch in host.launches for d in launch.result.diagnostics if d.code == "X120"]
    for message in found:
        made = re.search(r"mbarrier\.init at line (\d+) makes", message)
        assert made is not None
        (module,) = host.modules
        rest = "\n".join(module.ast.text.splitlines()[int(made[1]) :])
        assert "fence" not in rest.partition("barrier.cluster.arrive.relaxed")[0]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", marked(DENSE, QUICK))
def test_dense(name: str, schedule: dict[str, Any]) -> None:
    """Few SMs, so that CTAs take several tiles."""
    known = UNFENCED.get(name, frozenset())
    host = run_dense(DENSE[name], sms=4, known=known, **schedule)
    assert_clean(host, known)
    assert_unfenced(host)


STORED_SUMS = {"sm100_stream_k": frozenset({"X107"}), "sm90_stream_k": frozenset()}
"""Findings in the reductions of stream-K, which are right: CUTLASS stores the sums in tensor memory, and its epilogue loads them without
tcgen05.wait::st between (``tmem_fixup`` of sm100_tile_scheduler_stream_k.hpp)."""


@pytest.mark.parametrize("splits", [2, 3])
@pytest.mark.parametrize("name", marked([n for n, c in DENSE.items() if c.scheduler == STREAM_K], ()))
def test_stream_k(name: str, splits: int) -> None:
    """K is divided over CTAs, which add their parts up through global memory."""
    host = run_dense(DENSE[name], sms=148, splits=splits, known=STORED_SUMS[name])
    assert_clean(host, STORED_SUMS[name])


@pytest.mark.parametrize("name", marked([n for n, c in DENSE.items() if c.scheduler == STREAM_K], ()))
def test_stream_k_without_splits(name: str) -> None:
    """Fewer SMs than tiles: CTAs take shares of K that begin and end inside tiles."""
    assert_clean(run_dense(DENSE[name], sms=5, splits=0, known=STORED_SUMS[name]), STORED_SUMS[name])


@dataclass(frozen=True)
class Scaled:
    """A case of block_scaled.cu."""

    pair: str
    element: Any
    scale: Any
    block: int
    tile: tuple[int, int, int]
    cluster: int
    mainloop: str
    epilogue: str

    def macros(self) -> dict[str, Any]:
        m, n, k = self.tile
        macros = {"PAIR": self.pair, "TILE_M": m, "TILE_N": n, "TILE_K": k, "CLUSTER_M": self.cluster}
        return macros | {"MAINLOOP": self.mainloop, "EPILOGUE": self.epilogue}


SCALED = {
    "nvf4": Scaled(
        "cutlass::nv_float4_t<cutlass::float_e2m1_t>",
        ml_dtypes.float4_e2m1fn,
        ml_dtypes.float8_e4m3fn,
        16,
        (128, 128, 256),
        1,
        "KernelTmaWarpSpecialized1SmNvf4Sm100",
        "TmaWarpSpecialized1Sm",
    ),
    "mxf8_2sm": Scaled(
        "cutlass::mx_float8_t<cutlass::float_e4m3_t>",
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e8m0fnu,
        32,
        (256, 128, 128),
        2,
        "KernelTmaWarpSpecialized2SmMxf8f6f4Sm100",
        "TmaWarpSpecialized2Sm",
    ),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", marked(SCALED, ("nvf4",)))
def test_block_scaled(name: str, schedule: dict[str, Any]) -> None:
    case = SCALED[name]
    m_tile, n_tile, k_tile = case.tile
    host = compiled("block_scaled.cu", "sm_100a", case.macros(), sms=4)
    host.options = schedule
    m, n, k = 2 * m_tile, 2 * n_tile, 2 * k_tile
    generator = np.random.default_rng(5)
    a, scale_a, wide_a = block_scaled(generator, m, k, case.element, case.scale, case.block)
    b, scale_b, wide_b = block_scaled(generator, n, k, case.element, case.scale, case.block)
    d = host.device.array(np.zeros((m, n), np.float32))
    operands = [host.device.array(x) for x in (a, scale_a, b, scale_b)]
    call(host, "gemm", m, n, k, *operands, d, known=UNFENCED.get(name, frozenset()))
    assert np.array_equal(d.numpy(), wide_a @ wide_b.T)
    assert_clean(host, UNFENCED.get(name, frozenset()))
    assert_unfenced(host)


GROUPED = {
    "sm100_grouped": ("Sm100", "KernelPtrArrayTmaWarpSpecialized1SmSm100", "PtrArrayTmaWarpSpecialized1Sm"),
    "sm90_grouped": ("Sm90", "KernelPtrArrayTmaWarpSpecializedCooperative", "PtrArrayTmaWarpSpecializedCooperative"),
}


@pytest.mark.parametrize("name", marked(GROUPED, ()))
def test_grouped(name: str) -> None:
    """Problems of different sizes; tensor maps are changed by the kernel."""
    arch, mainloop, epilogue = GROUPED[name]
    macros = {"ARCH": arch, "TILE_M": 128, "TILE_N": 128, "TILE_K": 64, "MAINLOOP": mainloop, "EPILOGUE": epilogue}
    host = compiled("grouped.cu", f"sm_{arch[2:].lower()}a", macros, sms=3)
    sizes = np.array([(128, 128, 64), (256, 136, 200), (72, 264, 328)], np.int32)
    generator = np.random.default_rng(3)
    problems = [(integers(generator, (m, k), np.float16), integers(generator, (n, k), np.float16)) for m, n, k in sizes]
    buffers = [(host.device.array(a), host.device.array(b), host.device.array(np.zeros((len(a), len(b)), np.float32))) for a, b in problems]
    addresses = np.array([[buffer.address for buffer in row] for row in buffers], np.uint64).T.copy()
    assert host["gemm"](len(sizes), sizes, *addresses) == 0
    for (a, b), (_, _, d) in zip(problems, buffers, strict=True):
        assert np.array_equal(d.numpy(), a.astype(np.float64) @ b.astype(np.float64).T)
    assert_clean(host)
