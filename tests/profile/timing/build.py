"""Compile the timed kernels for sm_90a: ``python -m tests.profile.timing.build``. Needs Triton, and no GPU.

Writes ``data/kernels.zip``: NAME.ptx of each kernel, and ``launch.json`` with entry, threads, shared memory and tensor maps of each.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import types
import zipfile
from pathlib import Path
from typing import Any

from tests.profile.timing.problems import PROBLEMS, Configuration, Problem

HERE = Path(__file__).parent
ARCHIVE = HERE.parent / "data" / "kernels.zip"


def _source() -> types.ModuleType:
    """The kernels under a bare file name, so that no path of this machine enters their lines."""
    module = types.ModuleType("triton_sources")
    module.__file__ = "triton_sources.py"
    sys.modules[module.__name__] = module
    exec(compile((HERE / module.__file__).read_text(), module.__file__, "exec"), module.__dict__)
    return module


def _compiled(kernels: types.ModuleType, problem: Problem, configuration: Configuration) -> tuple[str, dict[str, Any]]:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    function = getattr(kernels, problem.kernel)
    constants = configuration.constants | problem.fixed
    signature, given = {}, iter(problem.types)
    tiles = {"ad": ("BM", "BK"), "bd": ("BN", "BK"), "cd": ("BM", "BN")}
    for name in function.arg_names:
        if name in constants:
            signature[name] = "constexpr"
        elif name in problem.sizes:
            signature[name] = "i32"
        elif name == "scale":
            signature[name] = "fp32"
        elif name in tiles:
            rows, columns = (constants[side] for side in tiles[name])
            signature[name] = f"tensordesc<{next(given)}[{rows}, {columns}]>"
        else:
            signature[name] = f"*{next(given)}"
    even = {(i,): [["tt.divisibility", 16]] for i, name in enumerate(function.arg_names) if signature[name][0] in "*i"}
    where = {(function.arg_names.index(name),): value for name, value in constants.items()}
    source = ASTSource(function, signature, where, even)
    options = {"num_warps": configuration.warps, "num_stages": configuration.stages}
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    text = re.sub(r'^\t\.file\t(\d+) "[^"]*/', r'\t.file\t\1 "', made.asm["ptx"], flags=re.MULTILINE)
    text = text[: text.find("\t.section\t.debug")] if "\t.section\t.debug" in text else text
    text = re.sub(r", function_name \$L__info_string\d+, inlined_at[^\n]*", "", text)  # it names the sections that are cut off
    meta = made.metadata
    return text, {
        "entry": meta.name,
        "block": 32 * meta.num_warps,
        "shared_bytes": meta.shared,
        "tensor_maps": getattr(meta, "tensordesc_meta", None) or [],
    }


def main() -> None:
    os.chdir(HERE)
    kernels = _source()
    texts: dict[str, str] = {}
    launch: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TRITON_CACHE_DIR"] = cache
        for problem in PROBLEMS:
            for configuration in problem.configurations:
                name = problem.binary(configuration)
                if name not in texts:
                    texts[name], launch[name] = _compiled(kernels, problem, configuration)
                    print(name, launch[name]["shared_bytes"], flush=True)
    with zipfile.ZipFile(ARCHIVE, "w", zipfile.ZIP_DEFLATED) as archive:
        files = {f"{name}.ptx": text for name, text in texts.items()} | {"launch.json": json.dumps(launch, indent=1)}
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    main()
