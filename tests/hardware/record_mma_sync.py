"""Record mma.sync on an sm_90 GPU: ``python -m tests.hardware record mma_sync`` (needs cupy and ptxas)."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.hardware.suite._tools import ASSEMBLE, tools
from tests.hardware.wgmma_cases import BITS, _codes

TILES = 16
FORMS = [("f32", "f16", "f16"), ("f16", "f16", "f16"), ("f32", "bf16", "bf16"), ("f32", "tf32", "tf32")]
FORMS += [("s32", a, b) for a in ("s8", "u8") for b in ("s8", "u8")]
U32 = NDArray[np.uint32]


def ptx(name: str, k: int, d: str, a: str, b: str, satfinite: bool) -> str:
    """One warp for each tile; every thread brings its registers."""
    size = k * BITS[a] // 128
    counts = {"a": 2 * size, "b": size, "c": 2 if d == "f16" else 4}
    lists = {r: "{" + ", ".join(f"%{r}{i}" for i in range(n)) + "}" for r, n in {**counts, "d": counts["c"]}.items()}
    operands = ", ".join(lists[r] for r in "dabc")
    loads = "\n".join(
        f"  ld.param.u64 %p, [{r}]; mad.wide.u32 %p, %t, {4 * n}, %p;\n"
        + "\n".join(f"  ld.global.b32 %{r}{i}, [%p+{4 * i}];" for i in range(n))
        for r, n in counts.items()
    )
    stores = "\n".join(f"  st.global.b32 [%p+{4 * i}], %d{i};" for i in range(counts["c"]))
    return f"""
.visible .entry {name}(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d)
{{
  .reg .b32 %a<4>, %b<4>, %c<4>, %d<4>, %t; .reg .b64 %p;
  mov.u32 %t, %ctaid.x; mul.lo.u32 %t, %t, 32; mov.u32 %d0, %tid.x; add.u32 %t, %t, %d0;
{loads}
  mma.sync.aligned.m16n8k{k}.row.col{".satfinite" if satfinite else ""}.{d}.{a}.{b}.{d} {operands};
  ld.param.u64 %p, [d]; mad.wide.u32 %p, %t, {4 * counts["c"]}, %p;
{stores}
  ret;
}}
"""


def words(matrix: NDArray[Any]) -> U32:
    return np.ascontiguousarray(matrix).view(np.uint32)


def a_registers(A: NDArray[Any]) -> U32:
    """Section "Matrix Fragments for mma": words of rows g and g + 8."""
    w, lane = words(A), np.arange(32)[:, None]
    register = np.arange(w.shape[2] // 2)[None]
    return w[:, lane // 4 + 8 * (register & 1), lane % 4 + 4 * (register >> 1)]


def b_registers(B: NDArray[Any]) -> U32:
    w, lane = words(B), np.arange(32)[:, None]
    return w[:, lane // 4, lane % 4 + 4 * np.arange(w.shape[2] // 4)[None]]


def accumulator(C: NDArray[Any]) -> U32:
    w, lane = words(C), np.arange(32)[:, None]
    register = np.arange(w.shape[2] // 2)[None]
    columns = w.shape[2] // 4
    return w[:, lane // 4 + 8 * (register // columns), columns * (lane % 4) + register % columns]


def matrix(registers: U32, dtype: Any) -> NDArray[Any]:
    columns = registers.shape[2] // 2
    out = np.empty((registers.shape[0], 16, 4 * columns), np.uint32)
    lane, register = np.arange(32)[:, None], np.arange(2 * columns)[None]
    out[:, lane // 4 + 8 * (register // columns), columns * (lane % 4) + register % columns] = registers
    return out.view(dtype)


def main(out: str) -> None:
    import cupy

    found: dict[str, Any] = {}
    rng = np.random.default_rng(30)
    listed = [
        (types, bytes_ * 8 // BITS[types[1]], satfinite)
        for types in FORMS
        for bytes_ in (16, 32)
        for satfinite in ((False, True) if types[0] == "s32" else (False,))
    ]
    with tempfile.TemporaryDirectory() as folder:
        source, binary = Path(folder, "x.ptx"), Path(folder, "x.cubin")
        text = "".join(ptx(f"k{i}", k, *types, satfinite) for i, (types, k, satfinite) in enumerate(listed))
        source.write_text(".version 8.4\n.target sm_90\n.address_size 64\n" + text)
        subprocess.run([*ASSEMBLE, str(source), "-o", str(binary)], check=True)
        module = cupy.RawModule(path=str(binary))
        for i, ((d, a, b), k, satfinite) in enumerate(listed):
            A, B, C = (
                np.stack([_codes(rng, fmt, shape, tile % 4) for tile in range(TILES)])
                for fmt, shape in ((a, (16, k)), (b, (8, k)), (("f32" if d == "s32" else d), (16, 8)))
            )
            C = C.astype(np.uint16 if d == "f16" else np.uint32)
            if d == "s32":
                C = (rng.choice([0, 1 << 31, (1 << 31) - 1], C.shape) + rng.integers(-90000, 90000, C.shape)).astype(np.uint32)
            inputs = [cupy.asarray(np.ascontiguousarray(x)) for x in (a_registers(A), b_registers(B), accumulator(C))]
            result = cupy.zeros(inputs[2].shape, cupy.uint32)
            module.get_function(f"k{i}")((TILES,), (32,), (*inputs, result))
            name = f"{d}.{a}.{b}.k{k}" + (".satfinite" if satfinite else "")
            found |= {f"{name}/{label}": x for label, x in zip("ABCD", (A, B, C, matrix(result.get(), C.dtype)), strict=True)}
    found["tools"] = np.array(tools())
    np.savez_compressed(out, **found)
    print(len(listed), "forms", *tools(), Path(out).stat().st_size, "bytes")


if __name__ == "__main__":
    main(sys.argv[1])
