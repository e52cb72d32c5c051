"""What ptxas says of a kernel."""

from __future__ import annotations

import pytest

from ptxlab.interop import nvcc

HEAD = ".version 8.0\n.target sm_90a\n.address_size 64\n"
COPY = """.visible .entry NAME(.param .u64 to)
{
  .reg .b32 %r<2>; .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [to];
  mov.u32 %r1, %tid.x;
  st.global.u32 [%rd1], %r1;
  ret;
}
"""


def many_values(count: int) -> str:
    """A kernel that loads so many words before it stores the first one, and may use 32 registers."""
    loads = "".join(f"ld.volatile.global.u32 %r{i}, [%rd1+{4 * i}];\n" for i in range(count))
    stores = "".join(f"st.volatile.global.u32 [%rd1+{4 * i}], %r{i};\n" for i in range(count))
    head = f".visible .entry many(.param .u64 to)\n.maxnreg 32\n{{\n.reg .b32 %r<{count}>; .reg .b64 %rd<2>;\nld.param.u64 %rd1, [to];\n"
    return f"{head}{loads}{stores}ret;\n}}\n"


@pytest.mark.compiler
def test_registers_and_spills_of_each_kernel() -> None:
    if nvcc.find_ptxas() is None:
        pytest.skip("ptxas is not installed")
    text = HEAD + COPY.replace("NAME", "one") + many_values(60)
    one, many = (nvcc.assembled(text, "sm_90a", name) for name in ("one", "many"))
    assert one is not None
    assert many is not None
    assert 4 <= one.registers < many.registers <= 32
    assert (one.spill_stores, one.spill_loads) == (0, 0)
    # At least the values that do not fit 32 registers, each of 4 bytes.
    assert many.spill_stores >= 4 * (60 - 32)
    assert many.spill_loads >= 4 * (60 - 32)
    assert nvcc.assembled(text, "sm_90a", "other") is None
    assert nvcc.assembled("not PTX", "sm_90a", "one") is None


def test_without_ptxas_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ptxlab.interop.toolkit.find_ptxas", lambda: None)
    assert nvcc.assembled(HEAD + COPY.replace("NAME", "one"), "sm_90a", "one") is None
