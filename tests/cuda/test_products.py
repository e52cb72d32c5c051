"""The attributes of devices."""

from __future__ import annotations

import pytest

from ptxlab.cuda.products import PRODUCTS, attribute
from ptxlab.machine import Device

H200 = {
    1: 1024, 2: 1024, 4: 64, 8: 49152, 10: 32, 12: 65536, 13: 1980000, 16: 132, 36: 3201000, 37: 6016, 38: 62914560, 39: 2048, 40: 3, 75: 9,
    76: 0, 81: 233472, 82: 65536, 97: 232448, 106: 32, 108: 39321600, 109: 134217728, 111: 1024, 118: 100, 120: 1, 127: 1, 131: -1, 132: 0,
}  # fmt: skip
"""Read from the device."""


def test_the_h200_has_the_values_of_a_real_one() -> None:
    product = PRODUCTS["sm_90a"]
    assert (product.name, product.memory, product.capability, product.sms) == ("NVIDIA H200", 150109880320, (9, 0), 132)
    assert {number: product.attributes[number] for number in H200} == H200
    assert sorted(product.attributes) == list(range(1, 148))


@pytest.mark.parametrize(("target", "capability", "clock"), [("sm_100a", (10, 0), 1965000), ("sm_103a", (10, 3), 2032000)])
def test_blackwell_differs_where_it_is_known_to(target: str, capability: tuple[int, int], clock: int) -> None:
    product = PRODUCTS[target]
    assert (product.capability, product.clock, product.sms, product.bus, product.memory_clock) == (capability, clock, 148, 7680, 3996000)
    differing = {number for number, value in product.attributes.items() if value != PRODUCTS["sm_90a"].attributes[number]}
    assert differing == {13, 16, 36, 37, 38, 75, 108} | ({76} if target == "sm_103a" else set())
    assert product.attributes[108] == pytest.approx(0.625 * product.attributes[38], rel=1e-9)


def test_a_device_of_the_machine_answers_as_its_product() -> None:
    device = Device("sm_90a", sms=4)
    assert (attribute(device, 16), attribute(device, 75), attribute(device, 76), attribute(device, 13)) == (4, 9, 0, 1980000)
    assert (attribute(device, 0), attribute(device, 148), attribute(device, -1)) == (None, None, None)
    assert (attribute(Device("sm_120a"), 75), attribute(Device("sm_120a"), 76), attribute(Device("sm_120a"), 10)) == (12, 0, 32)
