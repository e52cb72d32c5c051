"""Tables against what else is known of the same things."""

from __future__ import annotations

import numpy as np

from ptxlab.tables import DATA_PATHS, ELEMENT_TYPES, KINDS, REPLACE_ELEMENT_TYPES, SHAPES, SWIZZLES, TENSOR_MAP_SWIZZLES, TYPE_BITS


def test_tcgen05_codes_are_twice_those_of_wgmma() -> None:
    assert {m.name: m.tcgen05 for m in SWIZZLES.values() if m.wgmma is not None} == {
        m.name: 2 * m.wgmma for m in SWIZZLES.values() if m.wgmma is not None
    }
    assert {m.name: m.repeat for m in SWIZZLES.values()} == {"none": 16, "32B": 256, "64B": 512, "128B": 1024, "128B_32B": 512}


def test_an_instruction_takes_256_bits_of_each_row() -> None:
    assert {kind.name: kind.k * kind.container for kind in KINDS.values()} == dict.fromkeys(KINDS, 256)
    assert all(TYPE_BITS[name] <= kind.container for kind in KINDS.values() for name in kind.ab)


def test_every_shape_has_a_data_path_that_its_parts_fit() -> None:
    for (_, ws, group, sparse), shapes in SHAPES.items():
        for m in shapes.m:
            path = DATA_PATHS[m, group, ws, sparse]
            assert path.rows * group == m
            assert all(n % path.banks == 0 for n in shapes.n)
            assert path.rows * path.banks == (64 if path.half else 128)


def test_shapes_of_the_table() -> None:
    assert list(SHAPES["i8", False, 1, False].n) == [8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256]
    assert {len(SHAPES["f16", False, group, False].n) for group in (1, 2)} == {32, 16}
    assert ("f16", True, 2, False) not in SHAPES


def test_element_types_of_tensor_maps() -> None:
    # tensormap.replace numbers four types otherwise than the driver does.
    differing = {t.name: (t.driver, t.replace) for t in ELEMENT_TYPES.values() if t.driver != t.replace}
    assert differing == {"f64": (8, 9), "bf16": (9, 10), "f32.ftz": (10, 8)}
    assert sorted(REPLACE_ELEMENT_TYPES) == sorted(ELEMENT_TYPES) == list(range(16))
    assert len({(t.code, t.rounds) for t in ELEMENT_TYPES.values()}) == 16
    for element in ELEMENT_TYPES.values():
        if element.nan is not None and element.name != "bf16":
            raw = np.array([element.nan], f"u{element.bits // 8}")
            assert np.isnan(raw.view(f"f{element.bits // 8}")).all()


def test_swizzles_of_tensor_maps_are_those_of_operands() -> None:
    for mode in TENSOR_MAP_SWIZZLES.values():
        operand = SWIZZLES.get(mode.name)
        if operand is not None and operand.bits:
            assert (mode.bits, mode.base, mode.width) == (operand.bits, operand.base, operand.width)
