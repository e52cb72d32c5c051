"""The tensor maps that host code of CuTe DSL writes are those of the driver, bit for bit, but for two bits that it may set besides.

It writes the first 64 bytes; what the driver has after them follows from those.
"""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute_dsl
import ml_dtypes
import numpy as np
import pytest
from cutlass.cute.nvgpu import cpasync
from cutlass.experimental.cuda import tensor_map as maps

import ptxlab
from ptxlab.descriptors import encode_tensor_map
from ptxlab.interop import cute
from ptxlab.machine import Result, Stats

WRITTEN = 64
OWN_BITS = 1 << 65 | 1 << 85
"""The second one stands in the maps of tensors of 128 KiB or more."""
L2_128B = 2


class OneMap:
    """A host function whose kernel takes a tensor map for a box of ``shape`` elements, [rows, elements]."""

    def __init__(self, shape: tuple[int, int], swizzle: tuple[int, int, int], element: Any, inner: Any) -> None:
        self.shape, self.swizzle, self.element, self.inner = shape, swizzle, element, inner

    @cute_dsl.jit
    def __call__(self, a: cute_dsl.Tensor):  # type: ignore[no-untyped-def]
        if cutlass.const_expr(self.element is not None):
            a = cute_dsl.recast_tensor(a, self.element)
        plain = cute_dsl.make_layout(self.shape, stride=(self.shape[1], 1))
        layout = cute_dsl.make_composed_layout(cute_dsl.make_swizzle(*self.swizzle), 0, plain)
        atom, _ = cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileG2SOp(), a, layout, self.shape, internal_type=self.inner)
        self.kernel(atom).launch(grid=(1, 1, 1), block=(32, 1, 1))

    @cute_dsl.kernel
    def kernel(self, atom: cute_dsl.CopyAtom):  # type: ignore[no-untyped-def]
        cpasync.prefetch_descriptor(atom)


def arguments_of(host: Any, array: np.ndarray[Any, Any], target: str) -> tuple[bytes, int]:
    """The only argument of the kernel, a map, and the address of the array."""
    device = ptxlab.Device(target)
    buffer = device.array(array)
    compiled = cute.compile(host, buffer, target=target)
    seen: list[bytes] = []

    def launch(kernel: Any, *_: Any, **geometry: Any) -> Result:
        seen.extend(geometry["args"])
        return Result((), Stats(), completed=True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ptxlab.Kernel, "launch", launch)
        compiled.launch(buffer, device=device)
    (raw,) = seen
    assert len(raw) == 128
    return raw, buffer.address


NONE, B128 = (0, 4, 3), (3, 4, 3)
FP4, FP6, BYTE = "Float4E2M1FN", "Float6E2M3FN", "Uint8"
CASES = {
    #                NumPy type                box        swizzle    number data type, as, and copied as
    "u8":           (np.uint8,                 (64, 16),  NONE,      0, 0,  None, None),
    "e4m3":         (ml_dtypes.float8_e4m3fn,  (64, 128), B128,      3, 0,  None, None),
    "u16":          (np.uint16,                (64, 8),   NONE,      0, 1,  None, None),
    "u32":          (np.uint32,                (64, 32),  B128,      3, 2,  None, None),
    "f16":          (np.float16,               (64, 64),  B128,      3, 6,  None, None),
    "f16, none":    (np.float16,               (64, 8),   NONE,      0, 6,  None, None),
    "f16, 32B":     (np.float16,               (64, 16),  (1, 4, 3), 1, 6,  None, None),
    "f16, 64B":     (np.float16,               (32, 32),  (2, 4, 3), 2, 6,  None, None),
    "f16, 128B_32B": (np.float16,              (64, 64),  (2, 5, 2), 4, 6,  None, None),
    "f16, 128B_64B": (np.float16,              (64, 64),  (1, 6, 1), 6, 6,  None, None),
    "f32":          (np.float32,               (64, 32),  B128,      3, 7,  None, None),
    "tf32":         (np.float32,               (64, 32),  B128,      3, 11, None, "TFloat32"),
    "f64":          (np.float64,               (64, 16),  B128,      3, 8,  None, None),
    "bf16":         (ml_dtypes.bfloat16,       (64, 64),  B128,      3, 9,  None, None),
    "b4x16":        (np.uint8,                 (64, 256), B128,      3, 13, FP4,  None),
    "b4x16_p64":    (np.uint8,                 (64, 128), B128,      3, 14, FP4,  BYTE),
    "b6x16_p32":    (np.uint8,                 (64, 128), B128,      3, 15, FP6,  BYTE),
}  # fmt: skip


SM_100 = {name for name, case in CASES.items() if case[3] > 3 or case[4] > 12}


PAIRS = [(name, "sm_100a") for name in CASES] + [(name, "sm_90a") for name in CASES if name not in SM_100]


@pytest.mark.parametrize(("name", "target"), PAIRS)
def test_host_code_writes_the_drivers_map(name: str, target: str) -> None:
    dtype, shape, swizzle, number, data_type, element, inner = CASES[name]
    rows, width = 256, 384
    array = np.zeros((rows, width), dtype)
    kinds = [None if kind is None else getattr(cutlass, kind) for kind in (element, inner)]
    raw, address = arguments_of(OneMap(shape, swizzle, *kinds), array, target)
    found = int.from_bytes(raw[:WRITTEN], "little")
    bits = {13: 4, 14: 4, 15: 6}.get(data_type, 8 * array.itemsize)
    expected = encode_tensor_map(
        data_type=data_type, rank=2, address=address, dims=(8 * array.itemsize * width // bits, rows), strides=(array.itemsize * width,),
        box=shape[::-1], element_strides=(1, 1), swizzle=number, l2_promotion=L2_128B, target=target,
    )  # fmt: skip
    assert found & OWN_BITS == (OWN_BITS if array.nbytes >= 128 << 10 else 1 << 65)
    assert found & ~OWN_BITS == int.from_bytes(expected[:WRITTEN], "little")


class DriversMap:
    """A host function that asks the driver for its tensor map."""

    def __init__(self, box: tuple[int, int], swizzle: str) -> None:
        self.box, self.swizzle = box, swizzle

    @cute_dsl.jit
    def __call__(self, a: cute_dsl.Tensor):  # type: ignore[no-untyped-def]
        made = maps.create_tensor_map_tiled_from_view(a, self.box, swizzle=maps.TensorMapSwizzle[self.swizzle])
        self.kernel(made).launch(grid=(1, 1, 1), block=(32, 1, 1))

    @cute_dsl.kernel
    def kernel(self, tensor_map: cutlass.GridConstant[maps.TensorMap]):  # type: ignore[no-untyped-def]
        cute_dsl.arch.prefetch(tensor_map.get_ptr(), tensormap=True)


@pytest.mark.parametrize(("swizzle", "number"), [("none", 0), ("s64b", 2), ("s128b_atom_32b", 4)])
def test_the_drivers_encoder_is_ptxlabs(swizzle: str, number: int) -> None:
    array = np.zeros((128, 96), np.float16)
    raw, address = arguments_of(DriversMap((64, 32), swizzle), array, "sm_100a")
    assert raw == encode_tensor_map(
        data_type=6, rank=2, address=address, dims=(96, 128), strides=(192,), box=(32, 64), element_strides=(1, 1), swizzle=number,
        target="sm_100a",
    )  # fmt: skip


def test_what_the_driver_refuses() -> None:
    array = np.zeros((256, 256), np.float32)
    compiled = cute.compile(DriversMap((256, 256), "none"), array)
    with pytest.raises(ptxlab.PtxlabError) as caught:
        compiled.launch(array)
    assert caught.value.diagnostic.code == "D732"
    assert caught.value.diagnostic.message == "box: one copy has 262144 bytes; shared memory has 233472"
