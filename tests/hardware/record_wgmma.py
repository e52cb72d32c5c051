"""Record more of wgmma on a GPU: every N, A from registers, sparse A, satfinite.

``python -m tests.hardware record wgmma`` needs an sm_90a device, cupy and ptxas; `wgmma_cases` says what is run.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from tests.hardware import wgmma_cases as cases
from tests.hardware.suite._tools import ASSEMBLE, tools
from tests.hardware.wgmma_cases import A_BYTES, Instruction

THREADS = 128


def ptx(number: int, i: Instruction) -> str:
    """One kernel: copy the image to shared memory, load C, multiply once, store D."""
    count = i.d_registers
    ds = ", ".join(f"%d{j}" for j in range(count))
    a = "{%a0, %a1, %a2, %a3}" if i.registers else "%adesc"
    tail = ["p"] if i.d == "s32" else ["p", "1", "1"]
    if i.a in ("f16", "bf16"):
        tail += ["0"] if i.registers else ["0", "0"]
    sparse = ["%meta", "0"] if i.sparse else []
    operands = ", ".join([f"{{{ds}}}", a, "%bdesc", *sparse, *tail])
    load = "\n".join(f"  ld.global.b32 %d{j}, [%c+{4 * j}];" for j in range(count))
    store = "\n".join(f"  st.global.b32 [%o+{4 * j}], %d{j};" for j in range(count))
    return f"""
.visible .entry k{number}(.param .u64 image, .param .u64 c, .param .u64 o, .param .u64 a, .param .u64 meta)
{{
  .reg .pred p, more; .reg .b32 %d<128>, %a<4>, %meta, %t, %s, %x, %i; .reg .b64 %c, %o, %g, %r, %w, %adesc, %bdesc, %w2;
  .shared .align 1024 .b8 mem[{cases.IMAGE}];
  mov.u32 %t, %tid.x; mov.u32 %s, mem;
  ld.param.u64 %g, [image]; ld.param.u64 %c, [c]; ld.param.u64 %o, [o]; ld.param.u64 %r, [a]; ld.param.u64 %w, [meta];
  mul.lo.u32 %i, %t, 4;
again:
  cvt.u64.u32 %w2, %i; add.u64 %w2, %w2, %g; ld.global.b32 %x, [%w2]; add.u32 %meta, %s, %i; st.shared.b32 [%meta], %x;
  add.u32 %i, %i, {4 * THREADS}; setp.lt.u32 more, %i, {cases.IMAGE}; @more bra again;
  mad.wide.u32 %c, %t, {4 * count}, %c; mad.wide.u32 %o, %t, {4 * count}, %o;
  mad.wide.u32 %r, %t, 16, %r; mad.wide.u32 %w, %t, 4, %w;
  ld.global.b32 %meta, [%w]; ld.global.v4.b32 {{%a0, %a1, %a2, %a3}}, [%r];
{load}
  shr.u32 %x, %s, 4; cvt.u64.u32 %adesc, %x;
  add.u64 %bdesc, %adesc, {A_BYTES >> 4};
  add.u64 %adesc, %adesc, {cases.descriptor(32)}; add.u64 %bdesc, %bdesc, {cases.descriptor(i.b_bytes)};
  bar.sync 0; fence.proxy.async.shared::cta;
  setp.eq.u32 p, 0, 0;
  wgmma.fence.sync.aligned;
  wgmma.mma_async{".sp" if i.sparse else ""}.sync.aligned.m64n{i.n}k{i.logical_k}.{i.d}.{i.a}.{i.b}{".satfinite" if i.satfinite else ""}
    {operands};
  wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
{store}
  ret;
}}
"""


def assemble(folder: Path, numbered: list[tuple[int, Instruction]]) -> Path:
    source = folder / f"part{numbered[0][0]}.ptx"
    binary = source.with_suffix(".cubin")
    source.write_text(".version 8.4\n.target sm_90a\n.address_size 64\n" + "".join(ptx(n, i) for n, i in numbered))
    subprocess.run([*ASSEMBLE, str(source), "-o", str(binary)], check=True)
    return binary


def main(out: str) -> None:
    import cupy

    listed = list(enumerate(cases.instructions()))
    parts = [listed[start::16] for start in range(16)]
    pools = cases.inputs()
    found: dict[str, Any] = dict(pools)
    with tempfile.TemporaryDirectory() as folder:
        with ThreadPoolExecutor(16) as pool:
            binaries = list(pool.map(lambda part: assemble(Path(folder), part), parts))
        for part, binary in zip(parts, binaries, strict=True):
            module = cupy.RawModule(path=str(binary))
            for number, i in part:
                kernel = module.get_function(f"k{number}")
                digests, rows = [], []
                for case in range(i.cases):
                    data = cases.Case.of(i, case, pools)
                    inputs = [cupy.asarray(x) for x in (data.image(), data.c_registers(), data.a_registers(), data.meta_registers())]
                    result = cupy.zeros((THREADS, i.d_registers), cupy.uint32)
                    kernel((1,), (THREADS,), (inputs[0], inputs[1], result, inputs[2], inputs[3]))
                    d = cases.from_registers(i, result.get())
                    digests.append(np.frombuffer(hashlib.sha256(d.tobytes()).digest(), np.uint8))
                    rows.append(d if i.whole else d[cases.KEPT])
                found[f"{i}/sha256"], found[f"{i}/rows"] = np.array(digests), np.array(rows)
    found["tools"] = np.array(tools())
    np.savez_compressed(out, **found)
    print(len(listed), "instructions", *tools(), Path(out).stat().st_size, "bytes")


if __name__ == "__main__":
    main(sys.argv[1])
