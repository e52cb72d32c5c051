"""The Triton driver: what it refuses, kernels that were compiled before, and versions of Triton."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import ptxlab

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")

from triton.backends.compiler import GPUTarget  # noqa: E402

import ptxlab.interop.triton  # noqa: E402
from ptxlab.interop.session import Session  # noqa: E402
from tests.cuda.driver_helpers import needs_compiler  # noqa: E402
from tests.interop import triton_kernels as kernels  # noqa: E402

pytestmark = [
    pytest.mark.compiler,
    needs_compiler,
    pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION"),
    pytest.mark.usefixtures("triton_cache"),
]


def refusal(**settings: Any) -> str:
    with pytest.raises(ptxlab.LaunchError) as caught, ptxlab.interop.triton.device(**settings):
        kernels.add[(1,)](*[torch.ones(4)] * 3, 4, BLOCK=16)
    return f"{caught.value.diagnostic.code}: {caught.value.diagnostic.message} ({caught.value.diagnostic.fix})"


def test_refusals_of_settings() -> None:
    assert refusal(target="sm_80") == "I303: no device has the target 'sm_80' (take one of sm_90a, sm_100a, sm_103a)"
    assert refusal(policy="late") == "A310: policy must be one of 'eager', 'lazy', 'random', not 'late' ()"
    assert refusal(check={"weather"}).startswith("A310: there is no check named 'weather'")


def test_refusals_of_arguments(session: Session) -> None:
    x = torch.ones(4)
    with pytest.raises(ptxlab.LaunchError) as caught:
        kernels.add[(1,)](x, torch.ones(4, device="meta"), x, 4, BLOCK=16)
    assert str(caught.value.diagnostic.message) == "argument y: a torch tensor on meta; ptxlab runs on CPU tensors"

    class Pointer:
        dtype = torch.float32

        def data_ptr(self) -> int:
            return 4096

    with pytest.raises(ptxlab.LaunchError) as caught:
        kernels.add[(1,)](x, Pointer(), x, 4, BLOCK=16)
    assert caught.value.diagnostic.code == "I302"
    assert caught.value.diagnostic.message == "argument y: a Pointer has an address, but the size of its memory is not known"


def compiled() -> Any:
    """A kernel, compiled for a target and not for the device of a driver."""
    return triton.compile(triton.compiler.ASTSource(kernels.whoami, {"out": "*i32"}), target=GPUTarget("cuda", 100, 32))


def test_a_kernel_that_was_compiled_before_runs_from_the_text_that_its_machine_code_keeps() -> None:
    kernel, out = compiled(), torch.zeros(1, dtype=torch.int32)
    with ptxlab.interop.triton.device("sm_100a") as session:
        kernel[(1, 1, 1)](out)
    assert out.item() == 1
    assert session.ok


def test_a_kernel_that_was_compiled_before_without_line_numbers_is_refused() -> None:
    with triton.knobs.compilation.scope():
        triton.knobs.compilation.disable_line_info = True
        kernel = compiled()
    with pytest.raises(ptxlab.PtxlabError) as caught, ptxlab.interop.triton.device("sm_100a"):
        kernel[(1, 1, 1)](torch.zeros(1, dtype=torch.int32))
    found = caught.value.diagnostic
    assert found.code == "I401"
    assert found.message == "whoami is machine code for sm_100a without PTX, and ptxlab executes PTX"
    assert found.fix.startswith("compile the kernel under `ptxlab exec` or inside `with ptxlab.interop.triton.device(...)`, ")


def test_the_cache_of_triton_keeps_machine_code_and_text_apart() -> None:
    def is_machine_code() -> bool:
        return compiled().asm["cubin"].startswith(b"\x7fELF")

    found = [is_machine_code()]
    with ptxlab.interop.triton.device("sm_100a"):
        found.append(is_machine_code())
    assert [*found, is_machine_code()] == [True, False, True]


def test_without_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    with pytest.raises(ptxlab.LaunchError) as caught, ptxlab.interop.triton.device():
        pass
    assert str(caught.value) == "error[I301]: Triton is not installed: pip install 'ptxlab[triton]'"


@pytest.mark.parametrize("version", ["3.4.1", "3.8.0", "4.0.0"])
def test_a_triton_that_may_have_another_driver_interface(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(triton, "__version__", version)
    with pytest.raises(ptxlab.LaunchError) as caught, ptxlab.interop.triton.device():
        pass
    assert str(caught.value) == (f"error[I301]: the driver needs Triton 3.9 or later, below 4, not {version}: pip install 'ptxlab[triton]'")


@pytest.mark.parametrize("version", ["3.9.0", "3.10.1+git1234"])
def test_a_triton_that_will_do(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(triton, "__version__", version)
    with ptxlab.interop.triton.device("sm_100a") as session:
        assert session.ok
