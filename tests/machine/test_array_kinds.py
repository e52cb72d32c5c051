"""Every entry point takes arrays of every library in place: what a kernel writes stands in the object that was given."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import ptxlab
from ptxlab.descriptors import TensorMapError
from ptxlab.formats import ArrayError, array_of

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

needs_torch = pytest.mark.skipif(torch is None, reason="needs torch")
COUNT = 64
"""Elements of every array."""

NUMPY = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "complex64", "complex128"]  # fmt: skip  # noqa: E501
FLOAT8 = ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"]
ML_DTYPES = [name for name in dir(ml_dtypes) if name.startswith(("bfloat", "float", "int", "uint"))]
"""Of the installed version."""
WORDS = {"complex32": "uint32", "float4_e2m1fn_x2": "uint8"}
"""Types of torch that are taken for words."""
TORCH = [*NUMPY, "bfloat16", *FLOAT8, *WORDS]


class OnlyDlpack:
    """An object of a library of which nothing but DLPack is known."""

    def __init__(self, owner: Any) -> None:
        self.owner = owner

    def __dlpack__(self, **options: Any) -> Any:
        return self.owner.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.owner.__dlpack_device__()


class OldDlpack(OnlyDlpack):
    """From before DLPack had versions."""

    def __dlpack__(self, stream: Any = None) -> Any:  # type: ignore[override]
        return self.owner.__dlpack__()


class OnlyArray:
    """What shares its memory through NumPy's protocol."""

    def __init__(self, owner: NDArray[Any]) -> None:
        self.owner = owner

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self.owner


@dataclass(frozen=True)
class Kind:
    """A kind of array: makes one, and reads the bytes of what it made in the library that it comes from."""

    make: Callable[[], tuple[Any, Callable[[], bytes]]]
    dtype: np.dtype[Any]


def of_numpy(dtype: Any, wrap: Callable[[Any], Any] = lambda owner: owner) -> Kind:
    def make() -> tuple[Any, Callable[[], bytes]]:
        owner = np.zeros(COUNT, dtype)
        return wrap(owner), owner.tobytes

    return Kind(make, np.dtype(dtype))


def of_torch(name: str, wrap: Callable[[Any], Any] = lambda owner: owner) -> Kind:
    def make() -> tuple[Any, Callable[[], bytes]]:
        owner = torch.zeros(COUNT * named(name).itemsize, dtype=torch.uint8)
        return wrap(owner.view(getattr(torch, name))), lambda: bytes(owner.tolist())

    return Kind(make, named(name))


def named(name: str) -> np.dtype[Any]:
    name = WORDS.get(name, name)
    return np.dtype(getattr(ml_dtypes, name, name))


KINDS = {f"numpy-{name}": of_numpy(name) for name in NUMPY}
KINDS |= {f"ml_dtypes-{name}": of_numpy(getattr(ml_dtypes, name)) for name in ML_DTYPES}
KINDS |= {f"dlpack-numpy-{name}": of_numpy(name, OnlyDlpack) for name in NUMPY}
KINDS |= {"old-dlpack-numpy": of_numpy("int32", OldDlpack), "array": of_numpy("float32", OnlyArray)}
TORCH_KINDS = {f"torch-{name}": of_torch(name) for name in TORCH} | {f"dlpack-torch-{name}": of_torch(name, OnlyDlpack) for name in TORCH}
TORCH_KINDS |= {"old-dlpack-torch": of_torch("bfloat16", OldDlpack), "parameter": of_torch("float32", lambda t: t.requires_grad_())}

every_kind = pytest.mark.parametrize(
    "kind",
    [*(pytest.param(k, id=i) for i, k in KINDS.items()), *(pytest.param(k, id=i, marks=needs_torch) for i, k in TORCH_KINDS.items())],
)

HEAD = ".version 8.7\n.target sm_100a\n.address_size 64\n"
NUMBERED = ptxlab.loads(
    HEAD
    + """
.visible .entry numbered(.param .u64 x)
{
    .reg .b32 %r<2>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [x];
    mov.u32 %r1, %tid.x;
    cvt.u64.u32 %rd2, %r1;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u8 [%rd3], %r1;
    ret;
}"""
)["numbered"]
STORED = ptxlab.loads(
    HEAD
    + """
.visible .entry stored(.param .align 64 .b8 map[128])
{
    .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %rd<2>;
    .shared .align 128 .b8 tile[1024];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, tile;
    add.u32 %r3, %r2, %r1;
    st.shared.u8 [%r3], %r1;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    setp.ne.u32 %p, %r1, 0;
    @%p ret;
    mov.b64 %rd1, map;
    cvta.param.u64 %rd1, %rd1;
    cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%rd1, {0}], [tile];
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
    ret;
}"""
)["stored"]


def numbers(kind: Kind) -> bytes:
    """The numbers of the threads, one for each byte of an array."""
    return bytes(i % 256 for i in range(COUNT * kind.dtype.itemsize))


@every_kind
def test_launch(kind: Kind) -> None:
    value, contents = kind.make()
    NUMBERED.launch(block=len(numbers(kind)), args=[value]).raise_for_errors()
    assert contents() == numbers(kind)


@every_kind
def test_device_array_and_write(kind: Kind) -> None:
    value, contents = kind.make()
    device = ptxlab.Device("sm_100a")
    buffer = device.array(value)
    assert (buffer.shape, buffer.dtype) == ((COUNT,), kind.dtype)
    NUMBERED.launch(block=buffer.nbytes, args=[buffer], device=device).raise_for_errors()
    assert buffer.numpy().tobytes() == numbers(kind)
    assert not any(contents()), "a buffer is a copy"
    buffer.write(value)
    assert not any(buffer.numpy().tobytes())


@every_kind
def test_tensor_map(kind: Kind) -> None:
    value, contents = kind.make()
    name = kind.dtype.name
    if re.match(r"complex|float[46]_|u?int[124]$", name):
        with pytest.raises(TensorMapError, match=f"D732.: dtype: {name} is not an element type of tensor maps"):
            ptxlab.TensorMap(value, box=(COUNT,))
        return
    STORED.launch(block=len(numbers(kind)), args=[ptxlab.TensorMap(value, box=(COUNT,))]).raise_for_errors()
    assert contents() == numbers(kind)


@needs_torch
@pytest.mark.parametrize("wrap", [lambda t: t, OnlyDlpack], ids=["torch", "dlpack"])
def test_strides(wrap: Callable[[Any], Any]) -> None:
    owner = torch.arange(24, dtype=torch.bfloat16).reshape(4, 6)
    value = wrap(owner[1::2, :4].t())
    shared = array_of(value)
    assert shared is not None
    assert (shared.shape, shared.strides, shared.dtype) == ((4, 2), (2, 24), ml_dtypes.bfloat16)
    assert shared.astype(int).tolist() == [[6, 18], [7, 19], [8, 20], [9, 21]]
    assert ptxlab.Device().array(value).numpy().astype(int).tolist() == shared.astype(int).tolist()
    rows = ptxlab.TensorMap(wrap(torch.zeros(4, 24, dtype=torch.bfloat16)[1:, :8]), box=(8, 1))
    assert (rows.dtype, rows.dims, rows.strides) == ("bf16", (8, 3), (48,))
    words = ptxlab.TensorMap(wrap(torch.zeros(4, 8, dtype=torch.int16)), box=(8, 1), dtype=torch.bfloat16)
    assert (words.dtype, words.dims) == ("bf16", (8, 4))


def test_reversed_and_empty_and_without_dimensions() -> None:
    owner = np.arange(6)
    assert array_of(OnlyDlpack(owner[::-1])).tolist() == [5, 4, 3, 2, 1, 0]  # type: ignore[union-attr]
    assert array_of(OnlyDlpack(owner[6:])).shape == (0,)  # type: ignore[union-attr]
    assert array_of(OnlyDlpack(np.array(7))).item() == 7  # type: ignore[union-attr]
    assert ptxlab.Device().array(7).shape == ()


def test_the_memory_lives_as_long_as_the_array() -> None:
    shared = array_of(OnlyDlpack(np.arange(1000)))
    assert shared is not None
    assert shared.sum() == 499500


@pytest.mark.parametrize("kind", [KINDS["dlpack-numpy-uint8"], pytest.param(TORCH_KINDS["torch-uint8"], marks=needs_torch)])
def test_provenance_knows_the_object(kind: Kind) -> None:
    value, _ = kind.make()
    result = NUMBERED.launch(block=COUNT, args=[value], keep_inputs=True)
    (writer,) = result.provenance(value, 35).writers
    assert (writer.warp, writer.lanes, writer.value) == (1, (3,), 35)


def test_read_only_memory_is_not_written() -> None:
    owner = np.zeros(COUNT, np.uint8)
    owner.flags.writeable = False
    for value in (owner, OnlyDlpack(owner)):
        (found,) = NUMBERED.launch(block=1, args=[value]).diagnostics
        assert found.code == "M404"


class Copies(OnlyDlpack):
    def __dlpack__(self, **options: Any) -> Any:
        return self.owner.copy().__dlpack__(**options)


class Elsewhere(OnlyDlpack):
    def __dlpack_device__(self) -> Any:
        return (2, 0)


REFUSED: dict[str, tuple[Callable[[], Any], str, str]] = {
    "copies": (
        lambda: Copies(np.zeros(4)),
        "Copies gives copies of its data, so that results could not be written back",
        "pass a NumPy array",
    ),
    "elsewhere": (lambda: Elsewhere(np.zeros(4)), "Elsewhere does not give a NumPy array: its memory is not the computer's", ""),
}
TORCH_REFUSED: dict[str, tuple[Callable[[], Any], str, str]] = {
    "conjugated": (
        lambda: torch.zeros(4, dtype=torch.complex64).conj(),
        "a torch tensor whose memory holds other values than it shows",
        "call .resolve_conj() first",
    ),
    "negated": (
        lambda: torch.zeros(4, dtype=torch.complex64).conj().imag,
        "a torch tensor whose memory holds other values than it shows",
        "call .resolve_neg() first",
    ),
    "meta": (lambda: torch.zeros(4, device="meta"), "a torch tensor on meta; only CPU tensors can be used", "call .cpu() first"),
    "sparse": (
        lambda: torch.zeros(4).to_sparse(),
        "a torch tensor of torch.float32 and layout torch.sparse_coo cannot be used",
        "",
    ),
}


@pytest.mark.parametrize(
    ("make", "message", "fix"),
    [*(pytest.param(*r, id=i) for i, r in REFUSED.items()), *(pytest.param(*r, id=i, marks=needs_torch) for i, r in TORCH_REFUSED.items())],
)
def test_refusals(make: Callable[[], Any], message: str, fix: str) -> None:
    value, device = make(), ptxlab.Device("sm_100a")
    with pytest.raises(ArrayError) as caught:
        array_of(value)
    assert (str(caught.value), caught.value.fix) == (message, fix)
    attempts: list[tuple[str, str, Callable[[], Any]]] = [
        ("A306", "argument 0 (x): ", lambda: NUMBERED.launch(block=1, args=[value])),
        ("D732", "base: ", lambda: ptxlab.TensorMap(value, box=(4,))),
    ]
    if not isinstance(value, Copies):  # which a buffer may be made of
        attempts += [
            ("A306", "", lambda: device.array(value)),
            ("A306", "", lambda: device.array(np.zeros(4)).write(value)),
        ]
    for code, before, attempt in attempts:
        with pytest.raises((ptxlab.LaunchError, TensorMapError)) as refused:
            attempt()
        found = refused.value.diagnostic
        assert (found.code, found.message, found.fix) == (code, before + message, fix)


def test_what_is_no_array_is_refused_by_a_device() -> None:
    with pytest.raises(ptxlab.LaunchError, match=r"error\[A306\]: list does not give a NumPy array: "):
        ptxlab.Device().array([[1], [2, 3]])
    with pytest.raises(ptxlab.LaunchError, match=r"error\[A306\]: an array of object holds Python objects"):
        ptxlab.Device().array(object())
    assert ptxlab.Device().array([[1, 2], [3, 4]]).numpy().tolist() == [[1, 2], [3, 4]]
