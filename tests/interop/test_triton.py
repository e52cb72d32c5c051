"""The Triton driver: arguments, memory, launches, hooks, and the way back."""

from __future__ import annotations

import os
import runpy
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ptxlab

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")

from triton import testing  # noqa: E402
from triton.compiler import CompiledKernel  # noqa: E402
from triton.runtime._allocation import NullAllocator, has_profile_allocator  # noqa: E402
from triton.runtime.jit import JITCallable, JITFunction  # noqa: E402
from triton.tools.tensor_descriptor import TensorDescriptor  # noqa: E402

import ptxlab.interop.triton  # noqa: E402
from ptxlab.interop.session import Session, Settings  # noqa: E402
from tests.cuda.driver_helpers import needs_compiler  # noqa: E402
from tests.interop import triton_kernels as kernels  # noqa: E402

pytestmark = [
    pytest.mark.compiler,
    needs_compiler,
    pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION"),
    pytest.mark.usefixtures("triton_cache"),
]
TARGETS = ("sm_90a", "sm_100a", "sm_103a")


@pytest.mark.parametrize("target", TARGETS)
def test_torch_tensors(target: str) -> None:
    x, y, out = torch.rand(1000), torch.rand(1000), torch.zeros(1000)
    with ptxlab.interop.triton.device(target) as session:
        assert triton.runtime.driver.active.get_active_torch_device() == torch.device("cpu")
        kernels.add[(4,)](x, y, out, 1000, BLOCK=256)
    assert session.ok
    assert not session.diagnostics
    assert torch.equal(out, x + y)
    (launch,) = session.launches
    assert (launch.kernel, launch.grid, launch.result.stats.ctas) == ("add", (4, 1, 1), 4)
    assert launch.site is not None
    assert launch.site.file == __file__
    assert launch.site.line == test_torch_tensors.__code__.co_firstlineno + 5


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.int32, np.int64, np.uint8])
def test_numpy_arrays(session: Session, dtype: Any) -> None:
    x, y = (np.arange(200) % 50).astype(dtype), (np.arange(200) % 7).astype(dtype)
    out = np.zeros(200, dtype)
    kernels.add[(2,)](x, y, out=out, n=200, BLOCK=128)
    np.testing.assert_array_equal(out, x + y)


class OnlyDlpack:
    """An object of a library of which nothing but DLPack is known."""

    def __init__(self, owner: Any) -> None:
        self.owner = owner

    def __dlpack__(self, **options: Any) -> Any:
        return self.owner.__dlpack__(**options)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8"])
@pytest.mark.parametrize("wrap", [lambda t: t, OnlyDlpack], ids=["torch", "dlpack"])
def test_tensors_of_every_type_in_place(session: Session, wrap: Any, dtype: str) -> None:
    x, y = (torch.arange(200) % 50).to(getattr(torch, dtype)), (torch.arange(200) % 7).to(getattr(torch, dtype))
    out = torch.zeros(200, dtype=x.dtype)
    kernels.add[(2,)](wrap(x), wrap(y), out=wrap(out), n=200, BLOCK=128)
    assert torch.equal(out, x + y)


def test_an_array_that_is_elsewhere(session: Session) -> None:
    x = np.ones(4, np.float32)
    with pytest.raises(ptxlab.LaunchError) as caught:
        kernels.add[(1,)](x, OnlyDlpack(torch.ones(4, device="meta")), x, 4, BLOCK=16)
    assert caught.value.diagnostic.code == "I302"
    assert caught.value.diagnostic.message.startswith("an argument of type OnlyDlpack: OnlyDlpack does not give a NumPy array: ")


def test_views_and_aliases_are_the_memory_they_are(session: Session) -> None:
    whole = torch.arange(300, dtype=torch.float32)
    kernels.add[(1,)](whole[:100], whole[100:], whole[200:], 100, BLOCK=128)
    assert torch.equal(whole[200:], 2 * torch.arange(100) + 100.0)
    array = np.arange(300, dtype=np.float32)
    kernels.add[(1,)](array[::2], array[1:], array[200:], 100, BLOCK=128)
    np.testing.assert_array_equal(array[200:], 2 * np.arange(100) + 1.0)


def test_memory_that_a_kernel_must_not_touch(session: Session) -> None:
    x, out = np.ones(64, np.float32), np.zeros(64, np.float32)
    out.flags.writeable = False
    with pytest.raises(ptxlab.KernelError) as caught:
        kernels.add[(1,)](x, x, out, 64, BLOCK=64)
    found = caught.value.diagnostic
    assert found.code == "M404"
    assert "in read-only memory: argument out (float32[64])" in found.message
    assert found.source is not None
    assert (found.source.file, found.source.line) == (kernels.__file__, kernels.add.starting_line_number + 3)
    with pytest.raises(ptxlab.KernelError) as caught:
        kernels.add[(1,)](torch.ones(60), x, np.zeros(64, np.float32), 64, BLOCK=64)
    assert caught.value.diagnostic.code == "M402"
    assert "0 bytes past the end of argument x (float32[60])" in caught.value.diagnostic.message
    assert not session.ok
    assert [d.code for d in session.diagnostics] == ["M404", "M402"]
    assert dict(session.diagnostics[0].details)["launched at"].startswith(f"{__file__}:")


def test_scalars(session: Session) -> None:
    out = torch.zeros(5, dtype=torch.int64)
    kernels.scalars[(1,)](out, -3, 1 << 40, True, 2.5, None)
    assert out.tolist() == [-3, 1 << 40, 1, 10, 1]
    kernels.scalars[(1,)](out, np.int32(7), np.int64(-(1 << 41)), False, np.float32(-0.5), 3)
    assert out.tolist() == [7, -(1 << 41), 0, -2, 0]


def test_scalars_with_a_type(session: Session) -> None:
    out = torch.zeros(4, dtype=torch.float64)
    kernels.typed_scalars[(1,)](out, 1.0009765625, 1.015625 - 2**-20, 1 / 3, -5)
    assert out.tolist() == [1.0009765625, 1.0078125, 1 / 3, -5.0], "bf16 is cut off, not rounded, as Triton's launcher does"


def test_tuples(session: Session) -> None:
    x, out = torch.tensor([4.0]), torch.zeros(1)
    kernels.pairs[(1,)]((x, 2.5), out)
    assert out.item() == 6.5
    array = np.zeros(1, np.float32)
    kernels.pairs[(1,)]((x.numpy(), np.float32(1.5)), array)
    assert array[0] == 5.5


def test_pointers_in_memory_and_in_integers(session: Session) -> None:
    a, b = torch.tensor([3.0]), torch.tensor([1.0, 5.0])
    out = torch.zeros(2)
    kernels.through_table[(1,)](torch.tensor([a.data_ptr(), b[1:].data_ptr()]), out)
    assert out.tolist() == [3.0, 5.0]
    kernels.at_address[(1,)](b.data_ptr() + 4, out)
    assert out[0].item() == 5.0
    with pytest.raises(ptxlab.KernelError, match="past the end of tensor behind a pointer"):
        kernels.at_address[(1,)](b.data_ptr() + 8, torch.tensor([b.data_ptr()]))


@pytest.mark.parametrize("target", TARGETS)
def test_host_descriptors(target: str) -> None:
    x = torch.arange(100 * 64, dtype=torch.float16).reshape(100, 64)
    out = torch.zeros(128, 64, dtype=torch.float16)
    with ptxlab.interop.triton.device(target):
        kernels.copy_tile[(2,)](TensorDescriptor.from_tensor(x, [64, 64]), out, M=64, N=64)
        assert torch.equal(out[:100], x)
        assert not out[100:].any()
        nan = TensorDescriptor.from_tensor(x, [64, 64], padding="nan")
        kernels.copy_tile[(2,)](nan, out, M=64, N=64)
    assert out[100:].isnan().all()


def test_a_descriptor_that_says_more_than_there_is(session: Session) -> None:
    x, out = torch.zeros(100, 64, dtype=torch.float16), torch.zeros(128, 64, dtype=torch.float16)
    with pytest.raises(ptxlab.KernelError) as caught:
        kernels.copy_tile[(2,)](TensorDescriptor(x, [128, 64], [64, 1], [64, 64]), out, M=64, N=64)
    found = caught.value.diagnostic
    assert found.code == "M402"
    assert found.source is not None
    assert found.source.line == kernels.copy_tile.starting_line_number + 2


def test_scratch_comes_from_the_allocator_of_the_program(session: Session) -> None:
    x, out = torch.rand(64, 64), torch.zeros(64, 64)
    asked = []

    def allocate(size: int, alignment: int, stream: Any) -> Any:
        asked.append((size, alignment, stream))
        return torch.empty(size + 8, dtype=torch.int8)[8:]

    triton.set_allocator(NullAllocator())  # other tests of this process may have set one
    with pytest.raises(RuntimeError, match="no allocator was set"):
        kernels.device_descriptor[(2,)](x, out, 64, M=32, N=64)
    triton.set_allocator(allocate)
    kernels.device_descriptor[(2,)](x, out, 64, M=32, N=64)
    assert torch.equal(out, x)
    size, alignment, _ = asked[0]
    assert size % 2 == 0
    assert alignment == 128
    assert asked[1] == (size + alignment - 1, alignment, 0), "memory that is not aligned is asked for again, larger"


def test_clusters(session: Session) -> None:
    a, b = (torch.randint(-3, 4, (256, 64)).to(torch.float16) for _ in range(2))
    c = torch.zeros(256, 256, dtype=torch.float16)
    blocks = ((a, [256, 64]), (b, [256, 64]), (c, [256, 256]))
    kernels.matmul_tile[(1, 1)](*(TensorDescriptor.from_tensor(t, s) for t, s in blocks), 64, BM=256, BN=256, BK=64, num_ctas=2)
    assert torch.equal(c, (a.double() @ b.double().T).half())
    assert session.launches[0].grid == (2, 1, 1)
    assert not session.diagnostics


def test_launch_hooks_and_metadata(session: Session) -> None:
    x, out = torch.ones(100), torch.zeros(100)
    seen: list[tuple[str, Any]] = []
    hooks = triton.knobs.runtime
    with triton.knobs.runtime.scope():
        hooks.launch_enter_hook.add(lambda data: seen.append(("enter", data.get(), out.sum().item())))
        hooks.launch_exit_hook.add(lambda data: seen.append(("exit", data.get(), out.sum().item())))
        kernels.add_described[(1,)](x, x, out, 100, BLOCK=128)
    assert [(when, data["name"], data["bytes"], total) for when, data, total in seen] == [
        ("enter", "add_100", 1200, 0.0),
        ("exit", "add_100", 1200, 200.0),
    ]


def test_a_hook_sees_what_the_kernel_has_written(session: Session) -> None:
    x, seen = torch.zeros(64 * 256), []
    with triton.knobs.runtime.scope():
        triton.knobs.runtime.launch_exit_hook.add(lambda _: seen.append(x.sum().item()))
        kernels.count_slowly[(64,)](x, 2000, BLOCK=256)
    assert seen == [2000 * 64 * 256]


def test_print(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    kernels.prints[(1,)](42, num_warps=1)
    lines = capsys.readouterr().out.splitlines()
    assert lines == session.launches[0].result.stdout.splitlines()
    assert len(lines) == 32
    assert lines[0] == "pid (0, 0, 0) idx () n is: 42"


@pytest.mark.parametrize(
    ("settings", "expected"), [({}, [1, 2, 3, 4, 11, 12, 13, 14]), ({"only": ((1, 0), (2, 1))}, [0, 2, 0, 0, 0, 0, 13, 0])]
)
def test_settings(settings: dict[str, Any], expected: list[int]) -> None:
    out = torch.zeros(8, dtype=torch.int32)
    with ptxlab.interop.triton.device("sm_100a", policy="random", seed=3, model="spec", check="none", sms=2, **settings):
        kernels.whoami[(4, 2)](out)
        assert triton.runtime.driver.active.utils.get_device_properties(0)["multiprocessor_count"] == 2
    assert out.tolist() == expected


def test_the_site_of_a_launch_in_a_folder_that_is_called_like_the_package(session: Session, tmp_path: Path) -> None:
    script = tmp_path / "triton" / "script.py"
    script.parent.mkdir()
    script.write_text("\n\ndef launch(kernel, x):\n    kernel[(1,)](x)\n")
    runpy.run_path(str(script))["launch"](kernels.whoami, torch.zeros(1, dtype=torch.int32))
    assert str(session.launches[0].site) == f"{script}:4"


STORE = """
import triton
import triton.language as tl


@triton.jit
def store(x, value):
    tl.store(x, value)
"""
KERNEL = """
import triton


@triton.jit
def kernel(x):
    store(x, 1.0)
"""


def test_findings_are_in_the_file_of_a_function_where_another_file_has_an_equal_one(session: Session, tmp_path: Path) -> None:
    x = np.zeros(1, np.float32)
    x.flags.writeable = False
    (tmp_path / "kernel.py").write_text(KERNEL)
    for script in (tmp_path / "first.py", tmp_path / "second.py"):
        script.write_text(STORE)
        kernel = runpy.run_path(str(tmp_path / "kernel.py"), {"store": runpy.run_path(str(script))["store"]})["kernel"]
        with pytest.raises(ptxlab.KernelError) as caught:
            kernel[(1,)](x)
        found = caught.value.diagnostic
        assert found.source is not None
        assert (found.source.file, found.source.line) == (str(script), 8)


def test_an_empty_grid_launches_nothing(session: Session) -> None:
    x = torch.ones(4)
    kernels.add[(0,)](x, x, x, 0, BLOCK=16)
    assert not session.launches


def test_warmup_compiles_and_launches_nothing(session: Session) -> None:
    kernel = kernels.add.warmup(torch.float32, torch.float32, torch.float32, 100, BLOCK=64, grid=(1,))
    assert ".target sm_100a" in kernel.asm["ptx"]
    assert not session.launches


def test_a_compiled_kernel_can_be_launched_itself(session: Session) -> None:
    x, out = torch.ones(64), torch.zeros(64)
    kernel = kernels.add.warmup(x, x, out, 64, BLOCK=64, grid=(1,))
    kernel[(1, 1, 1)](x, x, out, 64, 64)
    assert out.sum().item() == 128


def test_the_way_back() -> None:
    def state() -> list[Any]:
        replaced = [JITFunction.run, JITCallable.cache_key, CompiledKernel._init_handles, testing.do_bench, testing.Mark._run]
        return [*replaced, has_profile_allocator(), triton.runtime.driver._active, os.environ.get("TRITON_PTXAS_PATH")]

    before = state()
    with ptxlab.interop.triton.device("sm_90a"):
        inner = triton.runtime.driver.active
        assert inner.get_current_target().arch == 90
        with ptxlab.interop.triton.device("sm_100a"):
            assert triton.runtime.driver.active.get_current_target().arch == 100
        assert triton.runtime.driver.active is inner
        assert inner.get_current_target().arch == 90
        assert [now is then for now, then in zip(state(), before, strict=True)] == [False] * len(before)
    assert state() == before


def test_kernels_may_outlive_the_device() -> None:
    with ptxlab.interop.triton.device("sm_100a"):
        kernel = kernels.whoami.warmup(torch.int32, grid=(1,))
        kernel._init_handles()
        triton.runtime.driver.set_active(None)  # a kernel may end where no driver is active
        kernel.__del__()


def test_settings_from_the_environment() -> None:
    found = Settings.from_environment(
        {"PTXLAB_TARGET": "sm_90a", "PTXLAB_CHECK": "memory,barrier", "PTXLAB_SEED": "7", "PTXLAB_ONLY": "1,2;3", "PTXLAB_SMS": "4"}
    )
    assert found == Settings(target="sm_90a", check=frozenset({"memory", "barrier"}), seed=7, only=((1, 2), (3,)), sms=4)
    assert (found.policy, found.model) == ("eager", "practice")
    with pytest.raises(ptxlab.LaunchError, match=r"only takes CTA coordinates .*, not 'x'"):
        Settings.from_environment({"PTXLAB_ONLY": "x"})
