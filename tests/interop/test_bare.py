"""The package without its extras runs PTX, and says what to install for the rest."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = ("triton", "torch", "cutlass", "pytest", "mmasim")
PROGRAM = f"""
import sys
for name in {EXTRAS}:
    sys.modules[name] = None

import numpy as np
import ptxlab

PTX = '''
.version 9.0
.target sm_100a
.address_size 64
.visible .entry twice(.param .u64 x)
{{
    .reg .b32 %r<3>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [x];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.u32 %r2, [%rd3];
    add.s32 %r2, %r2, %r2;
    st.global.u32 [%rd3], %r2;
    ret;
}}
'''
x = np.arange(32, dtype=np.uint32)
assert ptxlab.loads(PTX)["twice"].launch(block=32, args=[x]).ok
assert (x == 2 * np.arange(32)).all()
assert not ptxlab.lint(PTX)
try:
    import ptxlab.interop.triton
    with ptxlab.interop.triton.device("sm_100a"):
        pass
except ptxlab.LaunchError as error:
    print(error)
"""


def test_bare() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "error[I301]: Triton is not installed: pip install 'ptxlab[triton]'\n"


def test_the_extras_that_messages_name_exist() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {"triton", "torch", "cute"} <= set(extras)
