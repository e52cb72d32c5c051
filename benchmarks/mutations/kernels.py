"""The kernels that are mutated, each with launches of it, and where they come from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import ptxlab
from ptxlab.interop import nvcc

from .inputs import fill
from .kept import keep, kept
from .launches import captured

__all__ = ["Kernel", "keep_compiled", "kernels"]

_PERSISTENT = {"m": 1664, "n": 1536, "k": 64}
"""More tiles than there are programs."""
_DEEPER = 3


@dataclass(frozen=True)
class Kernel:
    """A kernel; ``launches`` by size, the smallest first."""

    name: str
    kernel: Any
    launches: dict[str, Any]


Makers = dict[str, Callable[[], Kernel]]


# ------------------------------------------------------------------------------------------------------- Triton and Gluon


@dataclass(frozen=True)
class _First:
    """Only the first CTA of a launch."""

    case: Any

    def launch(self, **options: Any) -> Any:
        return self.case.launch(only=[(0, 0, 0)], **options)


def _from_files() -> Makers:
    """The text that the compilers have written is in the repository."""
    from tests.end_to_end.triton.cases import CASES
    from tests.end_to_end.triton_sm90.cases import CASES as SM90

    return {name: partial(_of_family, name, family) for name, family in {**CASES, **SM90}.items()}


def _of_family(name: str, family: Any) -> Kernel:
    """The smallest size, and one with more iterations of the loops: so many that every stage of a pipeline is used again."""
    from tests.end_to_end.triton.case_helpers import kernel

    first, *others = family.sizes
    small = family.sizes[first]
    launches = {first: family(first)}
    if "persistent" in name:
        launches["x".join(map(str, _PERSISTENT.values()))] = _First(family.make(**_PERSISTENT))
    if "k" in small:
        launches[f"k {_DEEPER * small['k']}"] = family.make(**{**small, "k": _DEEPER * small["k"]})
    elif others:
        launches[others[0]] = family(others[0])
    return Kernel(name, kernel(name), launches)


# --------------------------------------------------------------------------------------------------------------- CuTe DSL


def _of_tests(name: str, owner: type, sizes: dict[str, tuple[Any, ...]]) -> Kernel:
    """Launches that tests make; one whose kernel has other instructions is left out."""
    taken = {size: captured(owner, *call) for size, call in sizes.items()}
    first = next(iter(taken.values()))
    opcodes = [op.opcode for op in first.kernel.program.ops]
    alike = {size: launch for size, launch in taken.items() if [op.opcode for op in launch.kernel.program.ops] == opcodes}
    return Kernel(name, first.kernel, alike)


def _from_cute() -> Makers:
    from ptxlab.interop import cute
    from ptxlab.interop.cute._compile import cutlass

    cutlass()
    import numpy as np
    from tests.end_to_end.cute import test_dense, test_kernels, test_reductions
    from tests.end_to_end.schedule_helpers import in_turn

    def dense(name: str) -> dict[str, tuple[Any, ...]]:
        small = test_dense.CASES[name]
        deep = (*small[:5], _DEEPER * small[5], *small[6:])
        return {f"k {case[5]}": (test_dense.test_dense, case) for case in (small, deep)}

    calls = {
        "cute_dense_f16": dense("f16"),
        "cute_dense_bf16_pairs": dense("bf16 by pairs, MN"),
        "cute_dense_s8": dense("s8"),
        "cute_dense_64_rows": dense("64 rows"),
        "cute_scaled_mxf8": {"as tested": (test_kernels.test_scales_of_32_elements, "sm_100a")},
        "cute_scaled_nvf4": {"as tested": (test_kernels.test_scales_of_16_elements_of_4_bits,)},
        "cute_persistent": {"as tested": (test_kernels.test_persistent_clusters_take_the_tiles_of_others, 1)},
        "cute_persistent_pairs": {"as tested": (test_kernels.test_persistent_clusters_take_the_tiles_of_others, 2)},
        "cute_hopper_f16": {"as tested": (test_kernels.test_hopper, np.float16)},
        "cute_hopper_mn": {"as tested": (test_kernels.test_hopper_with_m_and_n_major_operands,)},
        "cute_attention": {"as tested": (test_kernels.test_fused_attention, False)},
        "cute_attention_causal": {"as tested": (test_kernels.test_fused_attention, True)},
        "cute_reduction": {"as tested": (test_reductions.test_reductions, test_reductions.CASES["ADD f32"])},
    }
    under_one = {name: {size: (*call, in_turn(0)) for size, call in sizes.items()} for name, sizes in calls.items()}
    return {name: partial(_of_tests, name, cute.Compiled, sizes) for name, sizes in under_one.items()}


# -------------------------------------------------------------------------------------------------------------- CUDA C++


def _from_cuda() -> Makers:
    nvcc.find_nvcc()
    from tests.end_to_end.cuda import test_tcgen05_copy as copy
    from tests.end_to_end.cuda import test_tcgen05_mma as mma
    from tests.end_to_end.cuda import test_tcgen05_transfer as transfer
    from tests.end_to_end.cuda import test_wgmma as wgmma
    from tests.end_to_end.schedule_helpers import in_turn

    def problem(*given: Any, **options: Any) -> dict[str, tuple[Any, ...]]:
        return {f"{steps} steps": (mma.solve, mma.Problem(*given, **options, steps=steps)) for steps in (2, 3)}

    def products(name: str) -> dict[str, tuple[Any, ...]]:
        return {"as tested": (wgmma.test_gemm, 0, next(g for g in wgmma.gemms() if g.name == name), in_turn)}

    calls = {
        "cuda_mma_f16": problem("f16", 128, 96, "f16", "f16"),
        "cuda_mma_tf32_pair": problem("tf32", 256, 96, "tf32", "tf32", group=2),
        "cuda_mma_s8_ws": problem("i8", 64, 128, "s8", "s8", "s32", ws=True),
        "cuda_mma_sparse_pair": problem("f8f6f4", 256, 96, "e4m3", "e5m2", group=2, sparse=True, tensor_a=True),
        "cuda_mma_scaled": problem("mxf8f6f4", 128, 96, "e4m3", "e5m2", vector="scale_vec::1X"),
        "cuda_mma_scaled_pair": problem("mxf4nvf4", 256, 96, "e2m1", "e2m1", group=2, vector="block16"),
        "cuda_copy": {"as tested": (copy.test_copy, "128x256b", 1, 1, in_turn)},
        "cuda_copy_pair": {"as tested": (copy.test_copy, "64x128b.warpx2::02_13", 2, 0, in_turn)},
        "cuda_shift": {"as tested": (copy.test_shift, 1, in_turn), "a copy": (copy.test_copy, "128x256b", 1, 0, in_turn)},
        "cuda_load": {"as tested": (transfer.test_moves, "LOAD", "16x256b", in_turn)},
        "cuda_store": {"as tested": (transfer.test_moves, "STORE", "16x64b", in_turn)},
        "cuda_wgmma": products("f32_f16_KMajor_KMajor"),
        "cuda_wgmma_registers": products("s32_s8_u8_Registers_KMajor"),
    }
    return {name: partial(_of_tests, name, ptxlab.Kernel, sizes) for name, sizes in calls.items()}


_COMPILED: dict[str, Callable[[], Makers]] = {"CuTe DSL": _from_cute, "CUDA C++": _from_cuda}


def kernels(folder: Path | None = None) -> tuple[Makers, dict[str, str]]:
    """All kernels by name, with random inputs; and the sources that need a compiler which is not there, with what is missing.

    ``folder``: where `keep_compiled` has written the kernels of these sources.
    """
    found = {name: partial(_with_random_inputs, make) for name, make in _from_files().items()}
    if folder is not None:
        return found | {name: partial(_of_folder, name, read) for name, read in kept(folder).items()}, {}
    compiled, skipped = _compiled()
    return found | compiled, skipped


def keep_compiled(folder: Path) -> dict[str, str]:
    """Write the launches of the kernels that need a compiler; the sources whose compiler is not there, with what is missing."""
    compiled, skipped = _compiled()
    for name, make in compiled.items():
        keep(folder, name, make().launches)
    return skipped


def _compiled() -> tuple[Makers, dict[str, str]]:
    found: Makers = {}
    skipped = {}
    for source, makers in _COMPILED.items():
        try:
            found |= {name: partial(_with_random_inputs, make) for name, make in makers().items()}
        except ptxlab.PtxlabError as error:
            skipped[source] = error.diagnostic.message
    return found, skipped


def _of_folder(name: str, read: Callable[[], dict[str, Any]]) -> Kernel:
    launches = read()
    return Kernel(name, next(iter(launches.values())).kernel, launches)


def _with_random_inputs(make: Callable[[], Kernel]) -> Kernel:
    made = make()
    for launch in made.launches.values():
        fill(made.name, launch)
    return made
