"""Compile the kernels of this folder for sm_100a: `python tests/end_to_end/triton/build.py [OUTDIR] [NAME...]`.

``--sm90`` in front compiles those of `hopper` for sm_90a, into tests/end_to_end/triton_sm90.

Needs triton 3.9 (extra `oracles`); no GPU. Writes NAME.ptx and launch.json: for each kernel its entry, block,
cluster, dynamic shared memory, global scratch per program, and the Python-level arguments in order. Triton's PTX
parameters after those are two pointers: global scratch, profile scratch. A `tensordesc` argument becomes a 128-byte
tensor map, then its dims (i32 each, outermost first), then its strides (i64 each, in elements). `tensor_maps` gives
for each descriptor, in order: `block_size`, outermost first (it may be narrower than the block: one swizzle width,
one CTA's share), swizzle (0 none, 1 32B, 2 64B, 3 128B) and the element type by its number in `tensormap.replace`.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import tempfile
import types
import warnings
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RAGGED = {"n", "rows", "cols", "R", "C"}  # integers that the compiler must not take for multiples of 16

HOPPER = (
    "mm_ptr_fp16", "mm_ptr_tf32", "mm_bt_e4m3", "mm_bt_int8", "mm_device_desc_fp16", "mm_host_desc_fp16_cta2", "mm_persistent_ws_fp16",
    "mm_tile_128x256_bf16", "mm_tile_64x64_fp16", "mm_tile_64x128_e5m2", "mm_batched_fp16", "mm_gelu_bf16", "mm_split_k_fp16", "flash_fp16",
    "flash_causal_fp16", "softmax_fp32", "layer_norm_fp16", "mm_weights_int8", "mm_desc_weights_int8",
)  # fmt: skip


def source(name: str) -> types.ModuleType:
    """Import a kernel source under its bare file name, so that no absolute path enters the debug sections."""
    module = types.ModuleType(name)
    module.__file__ = f"{name}.py"
    sys.modules[name] = module
    exec(compile((HERE / module.__file__).read_text(), module.__file__, "exec"), module.__dict__)
    return module


def kernels() -> dict[str, tuple[Any, dict[str, str], dict[str, Any], dict[str, Any]]]:
    """For each PTX file: function, signature, constants, compiler options."""
    import triton.language as tl
    from triton.experimental.gluon import language as gl

    basic, gluon = source("triton_kernels"), source("gluon_kernels")
    gemm, neural, scalar, extra = map(source, ("gemm_kernels", "neural_kernels", "scalar_kernels", "gluon_extra"))
    bits = {"fp16": 16, "bf16": 16, "fp32": 32, "fp8e4nv": 8, "fp8e5": 8, "u8": 8, "i8": 8, "i32": 32}
    f16, f32, i32 = tl.float16, tl.float32, tl.int32

    def smem(t: str, inner: int, cga: tuple[tuple[int, int], ...] = ()) -> Any:
        return gl.NVMMASharedLayout(
            swizzle_byte_width=min(128, inner * bits[t] // 8),
            element_bitwidth=bits[t],
            rank=2,
            cga_layout=[list(x) for x in cga],
        )

    def desc(t: str, *shape: int) -> str:
        return f"tensordesc<{t}[{', '.join(map(str, shape))}]>"

    def gdesc(t: str, rows: int, cols: int, *cga: tuple[int, int]) -> str:
        return f"tensordesc<{t}[{rows},{cols}],{smem(t, cols, cga)!r}>"

    def tile(bm: int, bn: int, bk: int, **more: Any) -> dict[str, Any]:
        return {"BM": bm, "BN": bn, "BK": bk, **more}

    def signature(names: str, **more: str) -> dict[str, str]:
        """`a:*fp16 K` -> {"a": "*fp16", "K": "i32"}."""
        pairs = (item.partition(":") for item in names.split())
        return {name: kind or "i32" for name, _, kind in pairs} | more

    def pointers(a: str, c: str) -> dict[str, str]:
        return signature("M N K sa sb sc", a=f"*{a}", b=f"*{a}", c=f"*{c}")

    def host(t: str, bm: int, bn: int, bk: int, out: str | None = None, more: str = "M N K") -> dict[str, str]:
        return signature(more, ad=desc(t, bm, bk), bd=desc(t, bn, bk), cd=desc(out or t, bm, bn))

    def gl_mm(t: str, bm: int, bn: int, bk: int, bt: bool, out: str = "fp16", acc: Any = gl.float32) -> Any:
        b = (bn, bk) if bt else (bk, bn)
        sig = signature("K", ad=gdesc(t, bm, bk), bd=gdesc(t, *b), cd=gdesc(out, bm, bn))
        return gluon.gl_mm, sig, tile(bm, bn, bk, BT=bt, nw=4, ACC=acc), {"num_warps": 4}

    four, eight = {"num_warps": 4}, {"num_warps": 8}
    staged = {"num_warps": 4, "num_stages": 3}
    pair = {"num_warps": 4, "num_ctas": 2}
    matrix_a, matrix_c = (1, 0), (1, 0)
    flash = signature("q:*fp16 k:*fp16 v:*fp16 o:*fp16 lse:*fp32 S scale:fp32")
    split = signature("a:*fp16 b:*fp16 c:*fp32 M N K")
    table = {
        "mm_ptr_fp16": (
            basic.mm_ptr,
            pointers("fp16", "fp16"),
            tile(128, 128, 64, ACC=f32, OUT=f16, TF="tf32"),
            staged,
        ),
        "mm_ptr_tf32": (
            basic.mm_ptr,
            pointers("fp32", "fp32"),
            tile(128, 128, 32, ACC=f32, OUT=f32, TF="tf32"),
            staged,
        ),
        "mm_bt_e4m3": (basic.mm_ptr_bt, pointers("fp8e4nv", "fp16"), tile(128, 128, 128, ACC=f32, OUT=f16), staged),
        "mm_bt_int8": (basic.mm_ptr_bt, pointers("i8", "i32"), tile(128, 128, 128, ACC=i32, OUT=i32), staged),
        "mm_device_desc_fp16": (
            basic.mm_desc,
            signature("a:*fp16 b:*fp16 c:*fp16 M N K"),
            tile(128, 128, 64, OUT=f16),
            staged,
        ),
        "mm_host_desc_fp16_cta2": (
            basic.mm_hdesc,
            host("fp16", 256, 128, 64),
            tile(256, 128, 64, OUT=f16, WS=False),
            staged | {"num_ctas": 2},
        ),
        "mm_persistent_ws_fp16": (
            basic.mm_persist,
            host("fp16", 128, 128, 64),
            tile(128, 128, 64, OUT=f16, WS=True, NSM=148, SUB=False, FLAT=True),
            staged,
        ),
        "gl_mm_fp16": gl_mm("fp16", 128, 128, 64, False),
        "gl_mm_fp16_m64": gl_mm("fp16", 64, 64, 64, True),
        "gl_mm_i8": gl_mm("i8", 128, 64, 64, True, "i32", gl.int32),
        "gl_mm_a_in_tmem_fp16": (
            gluon.gl_mm_ts,
            signature("K", ap="*fp16", bd=gdesc("fp16", 64, 128), cp="*fp32"),
            tile(128, 128, 64, nw=4),
            four,
        ),
        "gl_mm_2cta_fp16": (
            gluon.gl_mm_2cta,
            signature(
                "K",
                ad=gdesc("fp16", 256, 64, matrix_a),
                bd=gdesc("fp16", 64, 128, (0, 1)),
                cd=gdesc("fp16", 256, 128, matrix_c),
            ),
            tile(256, 128, 64, MC=False),
            pair,
        ),
        "gl_smem_to_tmem": (
            gluon.gl_copy,
            signature("ip:*fp32 op:*fp32"),
            {"M": 128, "N": 64, "nw": 4, "SW": 128},
            four,
        ),
        "flash_fp16": (neural.attention, flash, {"D": 64, "BM": 128, "BN": 128, "CAUSAL": False}, staged),
        "flash_causal_fp16": (neural.attention, flash, {"D": 64, "BM": 128, "BN": 64, "CAUSAL": True}, staged),
        "flash_ws_fp16": (
            neural.attention_ws,
            signature("S scale:fp32", **{n: desc("fp16", 128, 64) for n in ("qd", "kd", "vd", "od")}),
            {"D": 64, "BM": 128, "BN": 128},
            staged,
        ),
        "softmax_fp32": (neural.softmax, signature("x:*fp32 y:*fp32 rows cols stride"), {"BLOCK": 512}, four),
        "layer_norm_fp16": (
            neural.layer_norm,
            signature("x:*fp16 w:*fp16 b:*fp16 y:*fp16 mean:*fp32 rstd:*fp32 cols eps:fp32"),
            {"BLOCK": 256},
            four,
        ),
        "mm_gelu_bf16": (
            neural.mm_gelu,
            signature("a:*bf16 b:*bf16 bias:*fp32 c:*bf16 M N K"),
            tile(128, 128, 64),
            eight,
        ),
        "mm_split_k_fp16": (gemm.mm_split_k, split, tile(128, 64, 64, SPLIT=4), staged),
        "mm_split_k_ordered_fp16": (
            gemm.mm_split_k_ordered,
            split | {"locks": "*i32"},
            tile(64, 128, 64, SPLIT=4),
            staged,
        ),
        "mm_weights_int8": (gemm.mm_weights, signature("a:*fp16 b:*i8 c:*fp16 M N K"), tile(128, 128, 64), staged),
        "mm_desc_weights_int8": (
            gemm.mm_desc_weights,
            signature("K", ad=desc("fp16", 128, 64), bd=desc("i8", 64, 128), cd=desc("fp16", 128, 128)),
            tile(128, 128, 64),
            staged,
        ),
        "mm_tile_128x256_bf16": (
            gemm.mm_tile,
            host("bf16", 128, 256, 64, more="K"),
            tile(128, 256, 64, OUT=tl.bfloat16),
            eight,
        ),
        "mm_tile_64x64_fp16": (gemm.mm_tile, host("fp16", 64, 64, 32, more="K"), tile(64, 64, 32, OUT=f16), four),
        "mm_tile_64x128_e5m2": (
            gemm.mm_tile,
            host("fp8e5", 64, 128, 64, "fp32", more="K"),
            tile(64, 128, 64, OUT=f32),
            four,
        ),
        "mm_tile_cta4_fp16": (
            gemm.mm_tile,
            host("fp16", 256, 256, 64, more="K"),
            tile(256, 256, 64, OUT=f16),
            four | {"num_ctas": 4},
        ),
        "mm_batched_fp16": (
            gemm.mm_batched,
            signature("K", ad=desc("fp16", 1, 128, 64), bd=desc("fp16", 1, 64, 128), cd=desc("fp16", 1, 128, 128)),
            tile(128, 128, 64),
            four,
        ),
        "vector_add_fp32": (scalar.vector_add, signature("x:*fp32 y:*fp32 z:*fp32 n"), {"BLOCK": 512}, four),
        "histogram_i32": (scalar.histogram, signature("x:*i32 counts:*i32 n"), {"BLOCK": 512, "BINS": 64}, four),
        "scan_rows_i32": (
            scalar.scan_rows,
            signature("x:*i32 sums:*i32 best:*i32 where:*i32 cols"),
            {"BLOCK": 512},
            four,
        ),
        "convert_fp32": (
            scalar.convert,
            signature("x:*fp32 f16:*fp16 bf16:*bf16 e4m3:*fp8e4nv e5m2:*fp8e5 back:*fp32 i32:*i32 u8:*u8 n"),
            {"BLOCK": 512},
            four,
        ),
        "integers_i32": (scalar.integers, signature("x:*i32 y:*i32 out:*i32 wide:*i64 n"), {"BLOCK": 256}, four),
        "sort_rows_fp32": (scalar.sort_rows, signature("x:*fp32 y:*fp32"), {"COLS": 256}, four),
        "transpose_fp16": (scalar.transpose, signature("x:*fp16 y:*fp16 R C"), {"BLOCK": 64}, four),
        "elementary_fp32": (scalar.elementary, signature("x:*fp32 out:*fp32 n"), {"BLOCK": 256}, four),
        "ordered_floats_fp32": (
            scalar.ordered_floats,
            signature("x:*fp32 least:*fp32 most:*fp32 total:*i64 n"),
            {"BLOCK": 512},
            four,
        ),
        "gl_packed_fp32": (extra.gl_packed, signature("xp:*fp32 yp:*fp32 op:*fp32 n"), {"BLOCK": 512}, four),
        "gl_packed_fp16": (extra.gl_packed_half, signature("xp:*fp16 yp:*fp16 op:*fp16 n"), {"BLOCK": 1024}, four),
        "gl_mm_fp16_acc16": (
            extra.gl_mm_acc16,
            signature("N K", ad=gdesc("fp16", 128, 64), bd=gdesc("fp16", 64, 64), cp="*fp16"),
            tile(128, 64, 64),
            four,
        ),
        "gl_mm_e5m2": gl_mm("fp8e5", 128, 128, 128, True),
        "gl_mm_multicast_bf16": (
            extra.gl_mm_multicast,
            signature("N K", ad=gdesc("bf16", 256, 64, (1, 0)), bd=gdesc("bf16", 128, 64, (0, 0)), cp="*fp32"),
            tile(256, 128, 64),
            pair,
        ),
        "gl_reduce_store_fp32": (
            extra.gl_reduce_store,
            signature("xp:*fp32", yd=gdesc("fp32", 64, 32)),
            {"M": 64, "N": 32},
            four,
        ),
    }
    shapes = (("32x32b", "16x64b"), ("16x128b", "16x256b"), ("16x64b", "16x128b"), ("16x256b", "32x32b"))
    for m, t, (there, back) in zip((128, 128, 64, 64), ("fp32", "fp16", "fp32", "fp32"), shapes, strict=True):
        table[f"gl_tmem_{there}_{back}_{t}"] = (
            extra.gl_tmem_shapes,
            signature(f"ip:*{t} op:*{t}"),
            {"M": m, "N": 64, "VARIANT": there, "BACK": back},
            four,
        )
    return table


def hopper() -> dict[str, tuple[Any, dict[str, str], dict[str, Any], dict[str, Any]]]:
    """The kernels for sm_90a: those that use no tensor memory, and warp specialisation, whose tiles have 64 rows there."""
    table = kernels()
    found = {f"sm90_{name}": table[name] for name in HOPPER}
    basic, neural = sys.modules["triton_kernels"], sys.modules["neural_kernels"]
    import triton.language as tl

    def desc(*shape: int) -> str:
        return f"tensordesc<fp16[{', '.join(map(str, shape))}]>"

    tile = {"BM": 64, "BN": 128, "BK": 64, "OUT": tl.float16, "WS": True}
    staged = {"num_warps": 4, "num_stages": 3}
    maps = {"ad": desc(64, 64), "bd": desc(128, 64), "cd": desc(64, 128), "M": "i32", "N": "i32", "K": "i32"}
    found["sm90_mm_ws_fp16"] = (basic.mm_hdesc, maps, tile, staged)
    heads = {"S": "i32", "scale": "fp32", **{n: desc(64 if n in ("qd", "od") else 128, 64) for n in ("qd", "kd", "vd", "od")}}
    found["sm90_flash_ws_fp16"] = (neural.attention_ws, heads, {"D": 64, "BM": 64, "BN": 128}, staged)
    return found


def build(name: str) -> tuple[str, dict[str, Any]]:
    """The PTX text of one kernel and what a launch needs to know."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.experimental.gluon._runtime import GluonASTSource, GluonJITFunction

    sm90 = name.startswith("sm90_")
    function, types_, constants, options = (hopper() if sm90 else kernels())[name]
    names = list(inspect.signature(function.fn).parameters)
    full = {n: "constexpr" if n in constants else types_[n] for n in names}
    aligned = {
        (i,): [["tt.divisibility", 16]] for i, n in enumerate(names) if full[n].startswith("*") or (full[n] == "i32" and n not in RAGGED)
    }
    make = GluonASTSource if isinstance(function, GluonJITFunction) else ASTSource
    compiled = triton.compile(make(function, full, constants, aligned), target=GPUTarget("cuda", 90 if sm90 else 100, 32), options=options)
    text = compiled.asm["ptx"]
    triton_root = str(Path(triton.__file__).resolve().parent)
    text = text.replace(triton_root + "/", "").replace(triton_root, "")
    m = compiled.metadata
    return text, {
        "entry": m.name,
        "block": [32 * m.num_warps, 1, 1],
        "cluster": [m.num_ctas, 1, 1],
        "shared_bytes": m.shared,
        "global_scratch_bytes_per_program": m.global_scratch_size,
        "tensor_maps": getattr(m, "tensordesc_meta", None) or [],
        "arguments": {n: full[n] for n in names if n not in constants},
        "constants": {n: str(v) for n, v in constants.items()},
        "options": options,
    }


def main(out: Path, names: list[str], sm90: bool = False) -> int:
    out.mkdir(parents=True, exist_ok=True)
    os.chdir(HERE)
    warnings.simplefilter("ignore", UserWarning)
    info, failed = {}, 0
    with tempfile.TemporaryDirectory() as cache:  # a cached kernel would keep the path that it was first compiled under
        os.environ["TRITON_CACHE_DIR"] = cache
        for name in names or (hopper() if sm90 else kernels()):
            try:
                text, info[name] = build(name)
            except Exception as error:  # a kernel that this compiler version refuses
                failed += 1
                print("ERR", name, str(error).splitlines()[-1][:160])
                continue
            (out / f"{name}.ptx").write_text(text)
            print("ok ", name)
    if not names:
        (out / "launch.json").write_text(json.dumps(info, indent=1) + "\n")
    return failed


if __name__ == "__main__":
    sm90 = "--sm90" in sys.argv
    arguments = [a for a in sys.argv[1:] if a != "--sm90"] or [str(HERE.parent / "triton_sm90" if sm90 else HERE)]
    sys.exit(main(Path(arguments[0]).resolve(), arguments[1:], sm90))
