"""Launches of compiled kernels, of one cluster of CTAs each, for tests of the debugger."""

from __future__ import annotations

from typing import Any

from ptxlab.machine import Replay
from tests.end_to_end.triton.case_helpers import kernel
from tests.end_to_end.triton.cases import CASES
from tests.end_to_end.triton_sm90.cases import CASES as CASES_SM90

__all__ = ["NAMES", "PART", "compiled"]

ALL = {**CASES, **CASES_SM90}
NAMES = tuple(name for name in ALL if "elementary" not in name and "convert" not in name)
"""Kernels that take less than a second in the NumPy back end."""
PART = (
    *("mm_ptr_fp16", "mm_bt_e4m3", "mm_weights_int8", "mm_persistent_ws_fp16", "mm_split_k_fp16", "mm_split_k_ordered_fp16"),
    *("flash_fp16", "layer_norm_fp16", "ordered_floats_fp32", "integers_i32", "gl_mm_2cta_fp16", "gl_packed_fp16", "gl_packed_fp32"),
    *("gl_reduce_store_fp32", "gl_smem_to_tmem", "gl_tmem_16x128b_16x256b_fp16", "sm90_mm_ptr_tf32", "sm90_mm_bt_e4m3", "sm90_mm_bt_int8"),
    *("sm90_mm_device_desc_fp16", "sm90_mm_gelu_bf16", "sm90_flash_ws_fp16", "sm90_softmax_fp32"),
)
"""Some of them that have every instruction of all of them."""


def compiled(name: str, **options: Any) -> Replay:
    """The launch of the smallest case of a kernel, but only its first cluster."""
    family = ALL[name]
    case = family(next(iter(family.sizes)))
    replay: Replay = kernel(name).prepare(**case.geometry(), args=[*case.args, *case.scratch()], only=[(0, 0, 0)], **options)
    return replay
