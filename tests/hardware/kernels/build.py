"""Compile the kernels of this folder for sm_90a: ``python -m tests.hardware.kernels.build FOLDER [NAME ...]``; into this folder with ``.``.

CUDA C++ needs nvcc 13.0, Triton and Gluon triton 3.9, CuTe DSL nvidia-cutlass-dsl 4.8; what is not there in its version of ``VERSIONS``
is left out. No GPU is needed. Writes NAME.ptx. For the kernels of Triton
and Gluon also ``triton.json``: block, shared memory, scratch memory and tensor maps, as `tests.end_to_end.triton.build` describes them.
For those of CuTe DSL ``cute.json``: the launch that the host function makes; of its arguments the bytes, with the places of addresses as
[place, number of the array], or a tensor map with the number of its array.
"""

from __future__ import annotations

import inspect
import json
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE))

VERSIONS = {"nvcc": "V13.0.88", "triton": "3.9.0", "nvidia-cutlass-dsl": "4.8.1"}
"""The compilers that made the PTX of this folder."""

Spec = tuple[Any, str, dict[str, Any], dict[str, Any]]


def available(compiler: str) -> bool:
    """Whether a compiler is there in its version."""
    if compiler != "nvcc":
        try:
            return version(compiler) == VERSIONS[compiler]
        except PackageNotFoundError:
            return False
    return (
        shutil.which("nvcc") is not None
        and VERSIONS["nvcc"] in subprocess.run(["nvcc", "--version"], capture_output=True, text=True).stdout
    )


def cuda(name: str, out: Path) -> None:
    command = ["nvcc", "-std=c++17", "-arch=sm_90a", "--fmad=false", "-ptx", f"{name}.cu", "-o", str(out / f"{name}.ptx")]
    subprocess.run(command, check=True, cwd=HERE)


def specifications() -> dict[str, Spec]:
    """For each kernel of Triton and Gluon: function, types of the arguments that are no constants, constants, options."""
    import gluon_kernels as g  # type: ignore[import-not-found]
    import triton_kernels as t  # type: ignore[import-not-found]
    from triton.experimental.gluon import language as gl

    def smem(kind: str, inner: int, bits: int, cga: str = "") -> str:
        return repr(gl.NVMMASharedLayout(min(128, inner * bits // 8), bits, 2, cga_layout=[[int(x) for x in cga]] if cga else []))

    def desc(kind: str, rows: int, columns: int, cga: str = "") -> str:
        bits = {"fp16": 16, "bf16": 16, "fp8e4nv": 8, "i32": 32, "fp32": 32}[kind]
        return f"tensordesc<{kind}[{rows},{columns}],{smem(kind, columns, bits, cga)}>".replace(" ", "")

    def tile(m: int, n: int, k: int, **more: Any) -> dict[str, Any]:
        return {"BM": m, "BN": n, "BK": k, **more}

    staged, four, two = {"num_warps": 4, "num_stages": 3}, {"num_warps": 4}, {"num_warps": 4, "num_ctas": 2}
    heads = {"D": 64, "BM": 64, "BN": 64}
    found: dict[str, Spec] = {
        "attention_dkdv": (t.attention_dkdv, "*fp16 *fp16 *fp16 *fp16 *fp32 *fp32 *fp32 *fp32 i32 fp32", heads, staged),
        "attention_dq": (t.attention_dq, "*fp16 *fp16 *fp16 *fp16 *fp32 *fp32 *fp32 i32 fp32", heads, staged),
        "rms_norm": (t.rms_norm, "*bf16 *bf16 *bf16 i32 fp32", {"BLOCK": 512}, four),
        "layer_norm_grad": (t.layer_norm_grad, "*fp16 *fp16 *fp32 *fp32 *fp32 *fp16 *fp32 *fp32 i32 i32", {"BLOCK": 256}, four),
        "rotary": (t.rotary, "*bf16 *fp32 *fp32 *bf16 i32", {"HALF": 32, "BLOCK": 4}, four),
        "dropout_residual": (t.dropout_residual, "*fp16 *fp16 *fp16 i32 fp32 i32", {"BLOCK": 512}, four),
        "random_numbers": (t.random_numbers, "*fp32 *fp32 *i32 i32", {"BLOCK": 512}, four),
        "sort_and_select": (t.sort_and_select, "*fp32 *fp32 *fp32 *fp32", {"COLS": 256}, four),
        "scans": (t.scans, "*fp32 *fp32 *fp32 *fp32 *fp32 *fp32 *i32", {"COLS": 512}, four),
        "statistics": (t.statistics, "*fp32 *fp32 i32", {"BLOCK": 512}, four),
        "cross_entropy": (t.cross_entropy, "*fp32 *i32 *fp32 *fp32 i32", {"BLOCK": 256}, four),
        "mm_fp8_precise": (t.mm_fp8, "*fp8e4nv *fp8e4nv *fp32 i32 i32 i32", tile(64, 128, 128, IMPRECISE=32), staged),
        "mm_fp8_fast": (t.mm_fp8, "*fp8e4nv *fp8e4nv *fp32 i32 i32 i32", tile(64, 128, 128, IMPRECISE=128), staged),
        "mm_scaled_blocks": (t.mm_scaled_blocks, "*fp8e4nv *fp8e4nv *fp32 *fp32 *bf16 i32 i32 i32", tile(64, 64, 128), staged),
        "mm_f32_tf32x3": (t.mm_f32, "*fp32 *fp32 *fp32 i32 i32 i32", tile(64, 64, 32, PRECISION="tf32x3"), staged),
        "mm_f32_ieee": (t.mm_f32, "*fp32 *fp32 *fp32 i32 i32 i32", tile(32, 32, 32, PRECISION="ieee"), four),
        "mm_int4": (t.mm_int4, "*fp16 *u8 *fp16 *fp16 i32 i32 i32", tile(64, 64, 64), staged),
        "mm_f16_sums": (t.mm_f16_sums, "*fp16 *fp16 *fp16 i32 i32 i32", tile(64, 64, 64), staged),
        "mm_mixed_scales": (t.mm_mixed_scales, "*fp8e4nv *u8 *u8 *u8 *fp32 i32 i32", tile(64, 64, 128), four),
        "mm_split_integers": (t.mm_split_integers, "*i8 *i8 *i32 i32 i32 i32", tile(64, 64, 64, SPLIT=3), staged),
        "mm_groups": (t.mm_groups, "*bf16 *bf16 *bf16 *i32 i32 i32", tile(64, 64, 64, GROUPS=4), staged),
        "mlp_swiglu": (t.mlp_swiglu, "*bf16 *bf16 *bf16 *bf16 *bf16", {"K": 64, "H": 128, "BM": 64, "BH": 64}, four),
        "convolution": (t.convolution, "*fp16 *fp16 *fp16 i32 i32 i32 i32", {"C": 64, "R": 3, "BP": 64, "BK": 64}, staged),
        "decode_split": (t.decode_split, "*fp16 *fp16 *fp16 *fp32 *fp32 *fp32 i32 fp32", {"D": 64, "BN": 64, "SPLIT": 2}, four),
        "adam": (t.adam, "*fp32 *bf16 *fp32 *fp32 i32 fp32 fp32 fp32 fp32 fp32 fp32", {"BLOCK": 512}, four),
        "reduce_tiles": (t.reduce_tiles, "*fp32 *fp32", {"M": 32, "N": 64}, four),
        "gather_and_count": (t.gather_and_count, "*fp32 *i32 *fp32 *i32", {"ROWS": 16, "COLS": 64}, four),
        "gl_pipelined": (
            g.gl_pipelined,
            f"{desc('fp16', 64, 64)} {desc('fp16', 128, 64)} {desc('fp16', 64, 128)} i32",
            tile(64, 128, 64, STAGES=3),
            four,
        ),
        "gl_registers": (g.gl_registers, f"*fp16 {desc('fp16', 64, 64)} *fp32 i32 i32", tile(64, 64, 64), four),
        "gl_specialised": (
            g.gl_specialised,
            f"{desc('bf16', 64, 64)} {desc('bf16', 64, 64)} *fp32 i32 i32",
            tile(64, 64, 64, STAGES=2),
            four,
        ),
        "gl_async_copy": (g.gl_async_copy, "*fp16 *fp16 *fp32 i32 i32", tile(64, 64, 32), four),
        "gl_multicast": (
            g.gl_multicast,
            f"{desc('fp8e4nv', 128, 128, '10')} {desc('fp8e4nv', 64, 128, '00')} *fp32 i32 i32",
            tile(128, 64, 128),
            two,
        ),
        "gl_im2col": (
            g.gl_im2col,
            f"{desc('fp16', 64, 64).replace('tensordesc<', 'tensordesc_im2col<')} {desc('fp16', 64, 64)} *fp32 i32 i32 i32",
            {"C": 64, "R": 3, "BM": 64, "BN": 64},
            four,
        ),
        "gl_reductions": (g.gl_reductions, f"*i32 {' '.join([desc('i32', 32, 32)] * 3)}", {"M": 32, "N": 32}, four),
    }
    return found


def triton(name: str, spec: Spec, out: Path) -> dict[str, Any]:
    """Write the PTX of a kernel; what a launch needs to know."""
    from triton import compile as compiler
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.experimental.gluon._runtime import GluonASTSource, GluonJITFunction

    function, types, constants, options = spec
    names = list(inspect.signature(function.fn).parameters)
    given = iter(types.split())
    full = {n: "constexpr" if n in constants else next(given) for n in names}
    assert next(given, None) is None
    aligned = {
        (i,): [["tt.divisibility", 16]]
        for i, n in enumerate(names)
        if full[n].startswith("*") or (full[n] == "i32" and n in ("K", "N", "S"))
    }
    make = GluonASTSource if isinstance(function, GluonJITFunction) else ASTSource
    compiled = compiler(make(function, full, constants, aligned), target=GPUTarget("cuda", 90, 32), options=options)
    (out / f"{name}.ptx").write_text(compiled.asm["ptx"])
    m = compiled.metadata
    return {
        "entry": m.name,
        "block": 32 * m.num_warps,
        "ctas": m.num_ctas,
        "shared_bytes": m.shared,
        "scratch": m.global_scratch_size,
        "tensor_maps": getattr(m, "tensordesc_meta", None) or [],
    }


def host_functions() -> dict[str, tuple[Any, list[Any]]]:
    """For each kernel of CuTe DSL the host function and its arguments: shapes and types count."""
    import cute_kernels as c  # type: ignore[import-not-found]
    import ml_dtypes
    import numpy as np

    from tests.end_to_end.cute.cute_helpers import example

    gemm = example("hopper_gemm").HopperGemm
    half, single, byte = np.float16, np.float32, ml_dtypes.float8_e4m3fn
    return {
        "cute_gemm_f16": (gemm(), [np.zeros((256, 192), half), np.zeros((64, 192), half), np.zeros((256, 64), single)]),
        "cute_gemm_e4m3": (gemm((128, 64, 128)), [np.zeros((256, 384), byte), np.zeros((64, 384), byte), np.zeros((256, 64), single)]),
        "cute_gemm_mn_major": (gemm(cluster=1), [np.zeros((192, 128), half).T, np.zeros((192, 64), half).T, np.zeros((128, 64), single)]),
        "cute_move": (c.Move(), [np.zeros((64, 192), half), np.zeros((64, 192), half)]),
        "cute_reduce_add": (c.Reduce("ADD"), [np.zeros((128, 128), np.int32), np.zeros((32, 128), np.int32)]),
        "cute_reduce_max": (c.Reduce("MAX"), [np.zeros((128, 128), half), np.zeros((32, 128), half)]),
        "cute_transpose": (c.Transpose(), [np.zeros((64, 96), single), np.zeros((96, 64), single)]),
        "cute_normalise": (c.Normalise(), [np.zeros((8, 256), single), np.zeros((8, 256), half), 1e-5]),
        "cute_warp_gemm": (c.WarpGemm(), [np.zeros((64, 160), half), np.zeros((128, 160), half), np.zeros((64, 128), single)]),
    }


def cute(name: str, host: Any, arguments: list[Any], out: Path) -> dict[str, Any]:
    """Write the PTX of a kernel; the launch that its host function makes."""
    from unittest.mock import patch

    import ptxlab
    from ptxlab.interop.cute import compile as compiler
    from ptxlab.machine import Result, Stats

    device = ptxlab.Device("sm_90a")
    buffers = [device.array(value) for value in arguments]
    compiled = compiler(host, *buffers, target="sm_90a")
    seen: dict[str, Any] = {}

    def launch(kernel: Any, *_: Any, **geometry: Any) -> Result:
        seen.update(geometry, entry=kernel.name)
        return Result((), Stats(), completed=True)

    with patch.object(ptxlab.Kernel, "launch", launch):
        compiled.launch(*buffers, device=device)
    addresses = [buffer.address for buffer in buffers]
    text = compiled.ptx.replace("\n.entry", "\n.visible .entry").replace(f"{ROOT}/", "")
    (out / f"{name}.ptx").write_text(text)

    def described(raw: bytes) -> dict[str, Any]:
        if len(raw) == 128:
            made = ptxlab.TensorMap.decode(raw)
            return {"map": made.encode(0).hex(), "array": addresses.index(made.fields.address)}
        places = [i for i in range(0, len(raw) - 7, 8) if int.from_bytes(raw[i : i + 8], "little") in addresses]
        return {"raw": raw.hex(), "places": [[i, addresses.index(int.from_bytes(raw[i : i + 8], "little"))] for i in places]}

    return {
        "entry": seen["entry"],
        "grid": seen["grid"],
        "block": seen["block"][0],
        "cluster": seen["cluster"] or (1, 1, 1),
        "shared_bytes": seen["shared_bytes"],
        "args": [described(raw) for raw in seen["args"]],
    }


def write(listing: Path, made: dict[str, Any]) -> None:
    """Add to a file or replace what has the same name."""
    known = json.loads(listing.read_text()) if listing.exists() else {}
    listing.write_text(json.dumps(dict(sorted({**known, **made}.items())), indent=1) + "\n")


def main(out: Path, names: list[str]) -> None:
    os.environ["TRITON_DISABLE_LINE_INFO"] = "1"

    def chosen(found: dict[str, Any]) -> dict[str, Any]:
        return {name: made for name, made in found.items() if not names or name in names}

    if available("nvcc"):
        for name in chosen({source.stem: source for source in HERE.glob("*.cu")}):
            cuda(name, out)
    if available("triton"):
        with tempfile.TemporaryDirectory() as cache:
            os.environ["TRITON_CACHE_DIR"] = cache
            write(out / "triton.json", {name: triton(name, spec, out) for name, spec in chosen(specifications()).items()})
    if available("nvidia-cutlass-dsl"):
        write(out / "cute.json", {name: cute(name, *function, out) for name, function in chosen(host_functions()).items()})


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve() if sys.argv[1] != "." else HERE, sys.argv[2:])
