from __future__ import annotations

import re
import struct
from typing import Any

import numpy as np
import pytest

import ptxlab
from ptxlab.engine.program import Parameter
from ptxlab.machine import Device, LaunchError
from ptxlab.machine.launch.arguments import Arguments, bind_arguments


def parameter(i: int, type: str, size: int = 0, array: bool = False) -> Parameter:
    bits = int(re.sub(r"\D", "", type))
    return Parameter(f"p{i}", type, 8 * i if not array else 64, size or bits // 8, 8, type == "u64", array)


def bind(types: str, *args: Any, device: Device | None = None) -> Arguments:
    parameters = [parameter(i, t) for i, t in enumerate(types.split())]
    return bind_arguments(parameters, 8 * len(parameters), args, device or Device(), "k")


def words(arguments: Arguments) -> list[int]:
    return [w for (w,) in struct.iter_unpack("<Q", arguments.packed)]


def test_arrays_are_copied_in_and_back() -> None:
    device = Device()
    a = np.arange(10, dtype=np.int32)
    arguments = bind("u64", a, device=device)
    view = device.memory.view(words(arguments)[0], 40)
    assert view.view(np.int32).tolist() == list(range(10))
    view.view(np.int32)[3] = -1
    assert a[3] == 3
    arguments.write_back()
    assert a[3] == -1
    arguments.release()
    assert device.memory.live() == []


def test_arrays_that_share_memory_share_an_allocation() -> None:
    whole = np.arange(64, dtype=np.float32).reshape(8, 8)
    top, right, other = whole[:4], whole[:, 4:], np.zeros(3)
    arguments = bind("u64 u64 u64 u64", whole, right, top, other)
    w = words(arguments)
    assert w[1] - w[0] == 16
    assert w[2] == w[0]
    assert len(arguments.groups) == 2


def test_device_addresses_follow_the_order_of_the_arguments_not_of_host_memory() -> None:
    host = np.zeros((3, 1000), np.uint8)
    device = Device()
    rows = [host[2, :8], host[0, :8], host[1, :8]]
    addresses = words(bind("u64 u64 u64", *rows, device=device))
    assert addresses == sorted(addresses)


def test_strides_are_kept_and_gaps_left_alone() -> None:
    device = Device()
    whole = np.arange(20, dtype=np.uint8)
    every_other = whole[2:12:2]
    arguments = bind("u64", every_other, device=device)
    address = words(arguments)[0]
    view = device.memory.view(address, 9)
    assert view.tolist()[::2] == [2, 4, 6, 8, 10]
    view[:] = 99
    arguments.write_back()
    assert whole.tolist() == [0, 1, 99, 3, 99, 5, 99, 7, 99, 9, 99, *range(11, 20)]


def test_reversed_arrays_point_at_their_first_element() -> None:
    device = Device()
    arguments = bind("u64", np.arange(4, dtype=np.uint8)[::-1], device=device)
    address = words(arguments)[0]
    assert device.memory.view(address, 1).tolist() == [3]
    assert device.memory.view(address - 3, 4).tolist() == [0, 1, 2, 3]


def test_read_only_arrays_stay_read_only() -> None:
    device = Device()
    a = np.zeros(4, np.uint8)
    a.flags.writeable = False
    arguments = bind("u64", a, device=device)
    assert device.memory.rows[0, 3] == 1
    arguments.write_back()


def test_torch_tensors_of_every_kind_share_their_memory() -> None:
    torch = pytest.importorskip("torch")
    device = Device()
    a, b = torch.zeros(4, dtype=torch.bfloat16), torch.zeros(4, dtype=torch.float32, requires_grad=True)
    arguments = bind("u64 u64", a, b, device=device)
    first, second = words(arguments)
    device.memory.view(first, 8).view(np.uint16)[:] = 0x3F80
    device.memory.view(second, 16).view(np.float32)[:] = 2
    arguments.write_back()
    assert a.tolist() == [1] * 4
    assert b.tolist() == [2] * 4


def test_numbers() -> None:
    arguments = bind("u32 s32 u64 f32 f64 f16 u8 u64", -1, 7, 1 << 63, 1.5, 2.5, 0.5, True, None)
    w = words(arguments)
    assert w[:3] == [0xFFFF_FFFF, 7, 1 << 63]
    assert w[3] == struct.unpack("<I", struct.pack("<f", 1.5))[0]
    assert w[4] == struct.unpack("<Q", struct.pack("<d", 2.5))[0]
    assert w[5] == 0x3800
    assert w[6:] == [1, 0]
    assert words(bind("u32", np.int32(-5))) == [0xFFFF_FFFB]


def test_bytes_fill_structs() -> None:
    struct_parameter = parameter(0, "b8", 12, True)
    arguments = bind_arguments([struct_parameter], 76, [b"abcdefghijkl"], Device(), "k")
    assert arguments.packed[64:] == b"abcdefghijkl"


def test_buffers() -> None:
    device = Device()
    buffer = device.array(np.arange(3))
    assert words(bind("u64", buffer, device=device)) == [buffer.address]
    assert buffer.numpy().tolist() == [0, 1, 2]


REFUSALS = [
    ("u64 u32", (1,), "A302", "kernel k has 2 parameters, but 1 argument was given"),
    ("u64", (1, 2), "A302", "kernel k has 1 parameter, but 2 arguments were given"),
    ("u32", (np.zeros(1),), "A303", "argument 0 (p0): an array of float64 for a parameter of type .u32, which is no pointer"),
    ("u32", (None,), "A303", "argument 0 (p0): None for a parameter of type .u32, which is no pointer"),
    ("u32", (1.5,), "A303", "argument 0 (p0): 1.5 for a parameter of type .u32"),
    ("f32", ("x",), "A303", "argument 0 (p0): 'x' for a parameter of type .f32"),
    ("u32", ([1],), "A303", "argument 0 (p0): a list for a parameter of type .u32"),
    ("u32", (1 << 32,), "A304", "argument 0 (p0): 4294967296 does not fit into .u32 (-2147483648 to 4294967295)"),
    ("f32", (1e300,), "A304", "argument 0 (p0): 1e+300 is beyond the range of .f32"),
    ("u32", (b"123",), "A305", "argument 0 (p0): 3 bytes for a parameter of 4 bytes"),
    ("u64", (np.array([None]),), "A306", "argument 0 (p0): an array of object holds Python objects and cannot be in device memory"),
]


@pytest.mark.parametrize(("types", "args", "code", "message"), REFUSALS)
def test_refusals(types: str, args: tuple[Any, ...], code: str, message: str) -> None:
    with pytest.raises(LaunchError) as caught:
        bind(types, *args)
    assert (caught.value.diagnostic.code, caught.value.diagnostic.message) == (code, message)


def test_buffers_of_others_and_freed_ones_are_refused() -> None:
    device = Device()
    buffer = device.array(np.zeros(3))
    with pytest.raises(LaunchError, match="the buffer belongs to another device"):
        bind("u64", buffer)
    buffer.free()
    with pytest.raises(LaunchError, match=f"argument 0 \\(p0\\): the buffer at {buffer.address:#x} was freed"):
        bind("u64", buffer, device=device)


def test_copies_that_could_not_be_written_back_are_refused() -> None:
    class Copies:
        def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
            return np.zeros(4)

    with pytest.raises(LaunchError, match="Copies gives copies of its data"):
        bind("u64", Copies())


def test_an_array_in_place_of_its_tensor_map() -> None:
    parameters = [Parameter("map", "b8", 0, 128, 64, False, True)]
    with pytest.raises(LaunchError) as caught:
        bind_arguments(parameters, 128, [np.zeros((8, 8), np.float16)], Device(), "k")
    assert caught.value.diagnostic.message == "argument 0 (map): an array of float16 for a parameter of type 128 bytes, which is no pointer"
    assert caught.value.diagnostic.fix == "pass a ptxlab.TensorMap of the array, with its box"


def test_tensor_maps_get_the_address_of_their_array() -> None:
    tensor = np.arange(64 * 64, dtype=np.float16).reshape(64, 64)
    device = Device()
    parameters = [Parameter("map", "b8", 0, 128, 64, False, True), parameter(16, "u64"), parameter(17, "u64")]
    tensor_map = ptxlab.TensorMap(tensor[8:], box=(64, 8), swizzle="128B")
    arguments = bind_arguments(parameters, 144, [tensor_map, tensor, tensor_map], device, "k")
    raw, base, held = arguments.packed[:128], *struct.unpack("<QQ", arguments.packed[128:])
    decoded = ptxlab.TensorMap.decode(raw)
    assert decoded.fields.address == base + 8 * 128
    assert (decoded.dims, decoded.box) == ((64, 56), (64, 8))
    assert device.memory.view(held, 128).tobytes() == raw
    buffer = device.array(tensor)
    mapped = ptxlab.TensorMap(buffer, box=(64, 8))
    assert bind_arguments(parameters[:1], 128, [mapped], device, "k").packed == bytes(mapped)
    assert ptxlab.TensorMap.decode(bytes(mapped)).fields.address == buffer.address


def test_tensor_maps_fit_only_maps_and_pointers() -> None:
    tensor_map = ptxlab.TensorMap(np.zeros((8, 64), np.float16), box=(64, 8))
    with pytest.raises(LaunchError, match="a TensorMap of 128 bytes for a parameter of 64 bytes"):
        bind_arguments([Parameter("map", "b8", 0, 64, 64, False, True)], 64, [tensor_map], Device(), "k")
    with pytest.raises(LaunchError, match=r"a TensorMap for a parameter of type .u32, which is no pointer"):
        bind("u32", tensor_map)
