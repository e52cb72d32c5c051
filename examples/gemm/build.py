"""Compile matmul.py for sm_100a into matmul.ptx: `python examples/gemm/build.py`. Needs triton; no GPU."""

from __future__ import annotations

import os
import sys
import tempfile
import types
from pathlib import Path

HERE = Path(__file__).resolve().parent
POINTERS = dict.fromkeys(("a", "b", "c"), "*fp16")
INTEGERS = dict.fromkeys(("M", "N", "K", "stride_a", "stride_b", "stride_c"), "i32")
TILE = {"BM": 128, "BN": 128, "BK": 64}


def compile_matmul() -> str:
    """The PTX text; the source is compiled under its bare name, so that no absolute path enters the debug sections."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    os.chdir(HERE)
    module = types.ModuleType("matmul")
    module.__file__ = "matmul.py"
    sys.modules["matmul"] = module
    exec(compile(Path("matmul.py").read_text(), "matmul.py", "exec"), module.__dict__)
    arguments = POINTERS | INTEGERS
    aligned = {(i,): [["tt.divisibility", 16]] for i in range(len(arguments))}
    source = ASTSource(module.matmul, arguments | dict.fromkeys(TILE, "constexpr"), TILE, aligned)
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TRITON_CACHE_DIR"] = cache
        compiled = triton.compile(source, target=GPUTarget("cuda", 100, 32), options={"num_warps": 4, "num_stages": 3})
    print(f"{compiled.metadata.shared} bytes of dynamic shared memory")
    root = str(Path(triton.__file__).resolve().parent)
    text: str = compiled.asm["ptx"]
    return text.replace(root + "/", "").replace(root, "")


if __name__ == "__main__":
    (HERE / "matmul.ptx").write_text(compile_matmul())
