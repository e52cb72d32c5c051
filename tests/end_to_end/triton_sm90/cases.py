"""Every kernel of this folder with its cases."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.end_to_end.triton.case_helpers import Case, Family
from tests.end_to_end.triton.cases_gemm import batched, family, mm_bt, mm_device_desc, mm_host_desc, mm_ptr, split_k, tiled, weights
from tests.end_to_end.triton.cases_neural import HEADS, attention, layer_norm, mm_gelu, softmax

WILD = {"wild": True}


def sizes(*listed: tuple[int, int, int], **named: tuple[int, int, int]) -> dict[str, dict[str, Any]]:
    """M, N and K; those named ``wild`` with wild values."""
    found: dict[str, dict[str, Any]] = {"x".join(map(str, size)): dict(zip("mnk", size, strict=True)) for size in listed}
    for name, size in named.items():
        found[name] = dict(zip("mnk", size, strict=True)) | (WILD if name == "wild" else {})
    return found


def neural(make: Any, name: str, listed: dict[str, dict[str, Any]], **more: Any) -> dict[str, Family]:
    return {name: Family(partial(make, name, **more), listed)}


def attention_64(name: str, heads: int, s: int) -> Case:
    """Warp-specialised: tiles of 64 rows."""
    case = attention(name, heads, s, maps=True)
    case.programs = (s // 64, heads)
    return case


ODD = (144, 208, 176)
CASES: dict[str, Family] = {
    **family(mm_ptr, "sm90_mm_ptr_fp16", "f16", "f16", 64, sizes=sizes((128, 128, 192), (256, 256, 128), ragged=ODD, wild=(128, 128, 128))),
    **family(mm_ptr, "sm90_mm_ptr_tf32", "tf32", "f32", 32, sizes=sizes((128, 128, 96), ragged=ODD, wild=(128, 128, 64))),
    **family(mm_bt, "sm90_mm_bt_e4m3", "e4m3", sizes=sizes((128, 128, 256), (256, 128, 384), wild=(128, 128, 256))),
    **family(mm_bt, "sm90_mm_bt_int8", "int8", sizes=sizes((128, 128, 256), (256, 256, 128))),
    **family(mm_device_desc, "sm90_mm_device_desc_fp16", sizes=sizes((128, 128, 192), ragged=ODD, wild=(128, 128, 128))),
    **family(mm_host_desc, "sm90_mm_host_desc_fp16_cta2", (256, 128), 1 << 30, sizes=sizes((256, 128, 192), ragged=(272, 144, 80))),
    **family(
        mm_host_desc, "sm90_mm_persistent_ws_fp16", (128, 128), 148, sizes=sizes((128, 128, 192), (256, 256, 128), wild=(128, 128, 128))
    ),
    **family(mm_host_desc, "sm90_mm_ws_fp16", (64, 128), 1 << 30, sizes=sizes((64, 128, 256), (128, 256, 192), wild=(64, 128, 128))),
    **family(
        tiled,
        "sm90_mm_tile_128x256_bf16",
        "bf16",
        "bf16",
        (128, 256, 64),
        sizes=sizes((128, 256, 128), ragged=(144, 272, 80), wild=(128, 256, 64)),
    ),
    **family(
        tiled,
        "sm90_mm_tile_64x64_fp16",
        "f16",
        "f16",
        (64, 64, 32),
        sizes=sizes((64, 64, 96), ragged=(80, 112, 48), wild=(64, 64, 64)),
    ),
    **family(
        tiled,
        "sm90_mm_tile_64x128_e5m2",
        "e5m2",
        "f32",
        (64, 128, 64),
        sizes=sizes((64, 128, 192), ragged=(80, 144, 176), wild=(64, 128, 128)),
    ),
    **family(
        batched,
        "sm90_mm_batched_fp16",
        sizes={
            "2x128x128x128": {"batch": 2, "m": 128, "n": 128, "k": 128},
            "ragged": {"batch": 3, "m": 144, "n": 80, "k": 112},
        },
    ),
    **family(weights, "sm90_mm_weights_int8", sizes=sizes((128, 128, 192), (256, 128, 128), wild=(128, 128, 64))),
    **family(weights, "sm90_mm_desc_weights_int8", sizes=sizes((128, 128, 192), (128, 256, 128), wild=(128, 128, 64))),
    **family(split_k, "sm90_mm_split_k_fp16", sizes=sizes((128, 64, 512), (256, 128, 256))),
    **neural(mm_gelu, "sm90_mm_gelu_bf16", sizes((128, 128, 64), ragged=(144, 208, 128))),
    **neural(attention, "sm90_flash_fp16", HEADS),
    **neural(attention, "sm90_flash_causal_fp16", HEADS, causal=True),
    **neural(attention_64, "sm90_flash_ws_fp16", HEADS),
    **neural(
        softmax,
        "sm90_softmax_fp32",
        {"4x512": {"rows": 4, "cols": 512, "programs": 4}, "ragged": {"rows": 7, "cols": 333, "programs": 3}},
    ),
    **neural(layer_norm, "sm90_layer_norm_fp16", {"2x512": {"rows": 2, "cols": 512}, "ragged": {"rows": 3, "cols": 611}}),
}
