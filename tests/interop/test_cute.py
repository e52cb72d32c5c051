"""`ptxlab.interop.cute`: arguments of every kind, several launches, refusals."""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ptxlab
from ptxlab import cuda
from ptxlab.cuda.building import DRIVER, build
from ptxlab.cuda.calls import host_call
from ptxlab.cuda.libraries import CUTE
from ptxlab.diagnostics import PtxlabError
from ptxlab.interop import cute
from ptxlab.interop.cute._compile import check_functions
from tests.cuda.driver_helpers import needs_compiler

pytest.importorskip("cutlass.cute")
pytestmark = [pytest.mark.compiler, needs_compiler]
PROGRAMS = Path(__file__).resolve().parents[1] / "end_to_end" / "cute"


@pytest.fixture(scope="module")
def programs() -> ModuleType:
    import importlib.util

    spec = importlib.util.spec_from_file_location("cute_programs", PROGRAMS / "programs.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def arrays(dtype: Any = np.float32, count: int = 300) -> tuple[Any, Any]:
    return np.arange(count).astype(dtype), np.zeros(count, dtype)


class OnlyDlpack:
    """An object of a library of which nothing but DLPack is known."""

    def __init__(self, owner: Any) -> None:
        self.owner = owner

    def __dlpack__(self, **options: Any) -> Any:
        return self.owner.__dlpack__(**options)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, np.int32, np.uint8])
def test_numpy_arrays_come_back(programs: ModuleType, dtype: Any) -> None:
    a, b = arrays(dtype, 100)
    result = cute.compile(programs.scale, a, b, 1.0).launch(a, b, 2.0)
    assert result.ok
    np.testing.assert_array_equal(b.astype(np.float64), (a.astype(np.float32) * 2).astype(dtype).astype(np.float64))


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float8_e4m3fn", "int16"])
@pytest.mark.parametrize("wrap", [lambda t: t, OnlyDlpack], ids=["torch", "dlpack"])
def test_torch_tensors_come_back(programs: ModuleType, name: str, wrap: Any) -> None:
    torch = pytest.importorskip("torch")
    a = torch.arange(100).to(getattr(torch, name))
    b = torch.zeros(100).to(a.dtype)
    assert cute.compile(programs.scale, wrap(a), wrap(b), 1.0).launch(wrap(a), wrap(b), 2.0).ok
    assert torch.equal(b.float(), (a.float() * 2).to(a.dtype).float())


def test_who_wrote_an_element(programs: ModuleType, tmp_path: Path) -> None:
    import cutlass
    from cutlass.cute.runtime import from_dlpack

    a, b = arrays(np.float32, 100)
    compiled = cute.compile(programs.scale, a, b, 1.0)
    result = compiled.launch(a, b, 2.0, keep_inputs=True, trace=tmp_path / "t.json")
    found = result.provenance(b, 42)
    assert (found.before, found.after, found.count) == (0.0, 84.0, 1)
    assert found.writers[0].opcode.startswith("st.global")
    assert result.provenance(a, 42).writers == ()
    assert any(e.get("cat") == "run" for e in json.loads((tmp_path / "t.json").read_text())["traceEvents"])
    given = from_dlpack(a), from_dlpack(b)
    with cute.device("sm_100a", keep_inputs=True) as session:
        cutlass.cute.compile(programs.scale, *given, 1.0)(*given, 3.0)
    assert session.launches[-1].result.provenance(b, 42).writers[0].value == 126.0


def test_strides_are_kept(programs: ModuleType) -> None:
    base = np.arange(4 * 64, dtype=np.float32).reshape(4, 64)
    source, target = base[::2, ::4], np.zeros((16, 2), np.float32).T
    compiled = cute.compile(programs.rows, source, target)
    assert compiled.launch(source, target).ok
    np.testing.assert_array_equal(target, base[::2, ::4] + [[0], [1]])


def test_views_of_one_array_share_memory(programs: ModuleType) -> None:
    whole = np.arange(64, dtype=np.float32)
    compiled = cute.compile(programs.scale, whole[:32], whole[32:], 1.0)
    assert compiled.launch(whole[:32], whole[32:], 3.0).ok
    np.testing.assert_array_equal(whole, np.concatenate([np.arange(32), 3 * np.arange(32)]))


def test_device_buffers_keep_what_kernels_write(programs: ModuleType) -> None:
    device = ptxlab.Device("sm_100a")
    a, b = arrays()
    source, target = device.array(a), device.array(b)
    compiled = cute.compile(programs.scale, source, target, 1.0)
    assert compiled.launch(source, target, 2.0, device=device).ok
    assert compiled.launch(target, source, 2.0, device=device).ok
    np.testing.assert_array_equal(source.numpy(), 4 * a)
    np.testing.assert_array_equal(b, 0)


def test_tensors_of_the_dsl_with_dynamic_layouts(programs: ModuleType) -> None:
    from cutlass.cute.runtime import from_dlpack

    def dynamic(array: Any) -> Any:
        return from_dlpack(array).mark_layout_dynamic()

    compiled = cute.compile(programs.scale, *map(dynamic, arrays()), 1.0)
    for count in (1, 128, 500):
        a, b = arrays(count=count)
        assert compiled.launch(dynamic(a), dynamic(b), 2.0).ok
        np.testing.assert_array_equal(b, 2 * a)


def test_tensors_in_a_dataclass(programs: ModuleType) -> None:
    from cutlass.cute.runtime import from_dlpack

    a, b = arrays()
    ends = programs.Ends(from_dlpack(a), from_dlpack(b))
    assert cute.compile(programs.scale_ends, ends, 1.0).launch(ends, 2.0).ok
    np.testing.assert_array_equal(b, 2 * a)


def test_tensors_in_an_object_of_the_program(programs: ModuleType) -> None:
    """CuTe DSL asks the object for its pointers; nothing else tells which memory it has."""
    from cutlass.cute.runtime import from_dlpack

    a, b = arrays()
    pair = programs.Pair(from_dlpack(a), from_dlpack(b))
    result = cute.compile(programs.scale_pair, pair, 1.0).launch(pair, 2.0)
    assert result.ok, result.diagnostics
    np.testing.assert_array_equal(b, 2 * a)


def test_pointers_are_device_addresses(programs: ModuleType) -> None:
    import cutlass
    from cutlass.cute.runtime import make_ptr

    device = ptxlab.Device("sm_100a")
    a, b = arrays()
    source, target = device.array(a), device.array(b)
    pointers = [make_ptr(cutlass.Float32, buffer.address, cutlass.cute.AddressSpace.gmem) for buffer in (source, target)]
    compiled = cute.compile(programs.scale_at, *pointers, 1, 1.0)
    assert compiled.launch(*pointers, 300, 2.0, device=device).ok
    np.testing.assert_array_equal(target.numpy(), 2 * a)


def test_several_launches_are_one_result(programs: ModuleType) -> None:
    a, b = arrays()
    result = cute.compile(programs.scale_twice, a, b, 1.0, 2).launch(a, b, 2.0)
    assert result.ok
    assert result.stats.ctas == 4 * 3
    np.testing.assert_array_equal(a, 16 * np.arange(300))


def test_a_launch_with_errors_is_the_last(programs: ModuleType) -> None:
    from cutlass.cute.runtime import from_dlpack

    a = np.zeros(100, np.float32)
    compiled = cute.compile(programs.past_the_end, from_dlpack(a).mark_layout_dynamic())
    result = compiled.launch(from_dlpack(a).mark_layout_dynamic())
    assert not result.ok
    (finding,) = result.diagnostics
    assert finding.code == "M402"
    assert finding.source is not None
    source = Path(programs.__file__).read_text().splitlines()[finding.source.line - 1]
    assert source.strip() == "target[thread] = cutlass.Float32(1)"


def test_launch_options_reach_the_launch(programs: ModuleType) -> None:
    a, b = arrays()
    compiled = cute.compile(programs.scale, a, b, 1.0)
    result = compiled.launch(a, b, 2.0, only=[(1, 0, 0)], policy="random", seed=3, check="none")
    assert result.ok
    np.testing.assert_array_equal(b[128:256], 2 * a[128:256])
    assert not b[:128].any()
    assert not b[256:].any()


def scale_with(*values: Any, **options: Any) -> Callable[[Any], Any]:
    def launch(programs: Any) -> Any:
        return cute.compile(programs.scale, *arrays(), 1.0).launch(*values, **options)

    return launch


A, B = arrays()
WHOLE = np.zeros(301, np.float32)
FOREIGN = ptxlab.Device("sm_100a").array(A)
REFUSALS: dict[str, tuple[Callable[[Any], Any], str, str]] = {
    "too few arguments": (
        scale_with(A, B), "A302", "the host function takes (source, target, factor), but 2 arguments were given",
    ),
    "another shape": (
        scale_with(A[:100], B, 1.0), "I104",
        "argument source: the host function was compiled for Float32 (300):(1) in gmem memory, aligned to 16 bytes, "
        "this is Float32 (100):(1) in gmem memory, aligned to 16 bytes",
    ),
    "another type": (
        scale_with(A, B.astype(np.int32), 1.0), "I104",
        "argument target: the host function was compiled for Float32 (300):(1) in gmem memory, aligned to 16 bytes, "
        "this is Int32 (300):(1) in gmem memory, aligned to 16 bytes",
    ),
    "no tensor": (
        scale_with(A, 3, 1.0), "I104", "argument target: the host function was compiled for a tensor, this is a value of type int",
    ),
    "None": (scale_with(None, B, 1.0), "I104", "argument source: the host function was compiled for a tensor, this is None"),
    "no number": (
        scale_with(A, B, "x"), "I106", "the host function ended with DSLUserCodeError: Argument `factor` expects a numeric value, "
        "but you passed a `str`.",
    ),
    "a buffer of another device": (scale_with(FOREIGN, B, 1.0), "A307", "argument 0 (source): the buffer belongs to another device"),
    "an unknown option": (scale_with(A, B, 1.0, grid=3), "A310", "there is no option named 'grid'"),
    "an unknown policy": (scale_with(A, B, 1.0, policy="late"), "A310", "policy must be one of 'eager', 'lazy', 'random', not 'late'"),
    "another architecture": (
        scale_with(A, B, 1.0, device=ptxlab.Device("sm_90a")), "A312", "the module is for sm_100a, the device is sm_90a",
    ),
    "an address that is not aligned": (
        scale_with(WHOLE[:300], WHOLE[1:301], 1.0), "I103", "argument target: the array starts 4 bytes after a multiple of 16",
    ),
    "an element type that the DSL lacks": (
        lambda programs: cute.compile(programs.scale, A.astype(np.complex64), B, 1.0), "I103",
        "argument 0: CuTe DSL has no element type for complex64",
    ),
    "strides of half elements": (
        lambda programs: cute.compile(programs.scale, np.ndarray((9,), np.float32, bytearray(64), 0, (6,)), B, 1.0), "I103",
        "argument 0: the strides (6,) are no multiples of the 4 bytes of an element",
    ),
    "an unknown target": (
        lambda programs: cute.compile(programs.scale, A, B, 1.0, target="sm_55"), "I102", "CuTe DSL does not compile for sm_55",
    ),
    "no kernel": (lambda programs: cute.compile(programs.nothing, A), "I107", "CuTe DSL has written no PTX for the host function"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS.values(), ids=REFUSALS)
def test_refusals(programs: ModuleType, case: tuple[Callable[[Any], Any], str, str]) -> None:
    launch, code, message = case
    with pytest.raises(PtxlabError) as caught:
        launch(programs)
    assert (caught.value.diagnostic.code, caught.value.diagnostic.message) == (code, message)


def test_a_cuda_function_that_ptxlab_does_not_have(programs: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ptxlab.LaunchError) as caught:
        check_functions(["_cudaLaunchKernelEx", "_cudaMallocArray"])
    assert caught.value.diagnostic.code == "I105"
    assert caught.value.diagnostic.message == "the host function calls cudaMallocArray, which ptxlab does not have"
    monkeypatch.setattr("ptxlab.interop.cute._compile.CUTE", DRIVER)  # it has none of the names
    with pytest.raises(ptxlab.LaunchError, match=r"I105.*the host function calls cuda\w+, which ptxlab does not have"):
        cute.compile(programs.scale, A, B, 1.0)


@pytest.mark.parametrize(("attribute", "value"), [(16, 148), (75, 10), (76, 3), (97, 227 * 1024)])
def test_device_attributes(attribute: int, value: int) -> None:
    found = ctypes.c_int32()
    library = ctypes.CDLL(str(build(CUTE)))
    with host_call(cuda.install(), ptxlab.Device("sm_103a"), ptxlab.Kernel.launch):
        assert library._cudaDeviceGetAttribute(ctypes.byref(found), attribute, 0) == 0
    assert found.value == value


def test_the_switch_is_undone(programs: ModuleType) -> None:
    from cutlass.cute.runtime import _Tensor, from_dlpack

    before = _Tensor.__c_pointers__
    a, b = arrays()
    with cute.device("sm_100a", policy="lazy") as session:
        programs.scale(from_dlpack(a), from_dlpack(b), 2.0)
    np.testing.assert_array_equal(b, 2 * a)
    assert session.ok
    assert len(session.launches) == 1
    assert _Tensor.__c_pointers__ is before
