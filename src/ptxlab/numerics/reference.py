"""The arithmetic in exact integers: slow, to be read.

A finite number is a sign, an integer significand and the exponent of its *leading place*, which for subnormal numbers is the format's
smallest exponent: nothing is normalised. One step then is: multiply significands, add exponents, find the largest exponent, cut every
term at the same last place, add, convert once. Where groups of products are scaled, a term is the exact sum of a group.
"""

from __future__ import annotations

from inspect import signature
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxlab.formats import FORMATS, Format
from ptxlab.numerics._mma import Call, check_call
from ptxlab.numerics._mma import mma as compiled_mma
from ptxlab.numerics._steps import Step

__all__ = ["Number", "dot", "mma", "number"]


class Number(NamedTuple):
    """(-1)^negative * significand * 2^(exponent - fraction); infinities and NaN by name."""

    negative: bool
    significand: int
    exponent: int
    fraction: int
    special: str = ""


def number(code: int, row: Format, negate: bool = False) -> Number:
    """Take a floating-point code apart.

    Examples
    --------
    >>> number(0x0001, FORMATS["f16"])
    Number(negative=False, significand=1, exponent=-14, fraction=10, special='')
    """
    negative = bool(code & row.sign_mask) != negate
    magnitude = code & row.magnitude_mask
    if row.nan is not None and magnitude >= row.nan:
        return Number(negative, 0, 0, 0, "nan")
    if row.inf is not None and magnitude >= row.inf:
        return Number(negative, 0, 0, 0, "inf")
    magnitude >>= row.dropped
    field, fraction = magnitude >> row.mantissa, magnitude & ((1 << row.mantissa) - 1)
    hidden = 1 << row.mantissa if field else 0
    return Number(negative, hidden + fraction, max(field, 1) - row.bias, row.mantissa)


def _times(x: Number, y: Number) -> Number:
    negative = x.negative != y.negative
    if x.special or y.special:
        zero = (not x.special and not x.significand) or (not y.special and not y.significand)
        nan = zero or "nan" in (x.special, y.special)
        return Number(negative, 0, 0, 0, "nan" if nan else "inf")
    return Number(negative, x.significand * y.significand, x.exponent + y.exponent, x.fraction + y.fraction)


def dot(terms: list[Number], step: Step, least: int | None = None) -> int:
    """Add terms (the products and C) in one step and convert: the bits of D. ``least``: what the largest exponent is at least."""
    half = step.output == "f16"
    signs = {term.negative for term in terms if term.special == "inf"}
    if any(term.special == "nan" for term in terms) or len(signs) == 2:
        return 0x7FFF if half else 0x7FFFFFFF
    if signs:
        return (0x7C00 if half else 0x7F800000) | (signs == {True}) << (15 if half else 31)
    largest = max([step.floor if least is None else least, *(term.exponent for term in terms if term.significand)])
    last_place = largest - step.window
    total = 0
    for term in terms:
        shift = term.exponent - term.fraction - last_place
        kept = term.significand << shift if shift >= 0 else term.significand >> -shift
        total += -kept if term.negative else kept
    return _convert(total, last_place, step)


def _convert(total: int, last_place: int, step: Step) -> int:
    """The bits of total * 2^last_place."""
    precision, smallest, bias, round_to_even = {
        "f32": (24, -149, 127, False),
        "e8m13": (14, -139, 127, False),
        "f16": (11, -24, 15, True),
    }[step.output]
    size = abs(total)
    unit = max(last_place + size.bit_length() - precision, smallest)
    shift = last_place - unit
    if shift >= 0:
        units = size << shift
    else:
        units, rest = size >> -shift, size & ((1 << -shift) - 1)
        half = 1 << (-shift - 1)
        units += round_to_even and (rest > half or (rest == half and units & 1 == 1))
    if not units:
        return 0
    if units >> precision:
        units, unit = units >> 1, unit + 1
    hidden = 1 << (precision - 1)
    if units < hidden:
        magnitude = units
    else:
        magnitude = ((unit + precision - 1 + bias) << (precision - 1)) + units - hidden
    width = 16 if step.output == "f16" else 32
    magnitude <<= 10 if step.output == "e8m13" else 0
    magnitude = min(magnitude, 0x7C00 if width == 16 else 0x7F800000)
    return magnitude | (total < 0) << (width - 1)


def _selected(codes: list[int], metadata: list[int], fmt: str, grouped: bool) -> list[int]:
    """The elements of a row of B that are multiplied by the stored elements of a sparse row of A."""
    if fmt == "tf32":
        return [codes[2 * chunk + (code == 0xE)] for chunk, code in enumerate(metadata)]
    width = 2 if grouped else 1
    found = []
    for chunk, code in enumerate(metadata):
        for position in (code & 3, code >> 2):
            first = (4 * chunk + position) * width
            found += codes[first : first + width]
    return found


def _integer_dot(call: Call, a: list[int], b: list[int], c: int) -> int:
    def signed(code: int, bits: int) -> int:
        return code - (code >> (bits - 1) << bits)

    total = signed(c, 32)
    for x, y in zip(a, b, strict=True):
        total += (signed(x, 8) if call.a == "s8" else x) * (signed(y, 8) if call.b == "s8" else y)
    if call.saturate:
        total = max(-(1 << 31), min((1 << 31) - 1, total))
    return total & 0xFFFFFFFF


def _scale(code: int, fmt: str) -> Number:
    """A scale; ue8m0 is a power of two even at code 0, the sign bit of ue4m3 is ignored."""
    if fmt == "ue8m0":
        return Number(False, 0, 0, 0, "nan") if code == 0xFF else Number(False, 1, code - 127, 0)
    return number(code & 0x7F, FORMATS["e4m3"])


def _group(products: list[Number], scale: Number) -> Number:
    """The exact sum of a group, times its scales: its exponent is that of the scales, wherever the sum's leading place is."""
    if scale.special:
        return scale
    fraction = max(product.fraction - product.exponent for product in products)
    total = sum((-1) ** p.negative * (p.significand << (fraction - p.fraction + p.exponent)) for p in products)
    return Number(total < 0, abs(total) * scale.significand, scale.exponent, fraction + scale.fraction)


def _float_dot(call: Call, a: list[int], b: list[int], c: int, a_scales: list[int], b_scales: list[int]) -> int:
    step, bits = call.step, c
    for first in range(0, len(a), step.k):
        bits = _one_step(call, a[first : first + step.k], b[first : first + step.k], bits, a_scales, b_scales)
    return bits


def _one_step(call: Call, a: list[int], b: list[int], c: int, a_scales: list[int], b_scales: list[int]) -> int:
    step, left, right = call.step, FORMATS[call.a], FORMATS[call.b]
    terms = [_times(number(x, left, call.negate_a), number(y, right, call.negate_b)) for x, y in zip(a, b, strict=True)]
    if call.scale is not None:
        fmt, block = call.scale
        scales = [_times(_scale(x, fmt), _scale(y, fmt)) for x, y in zip(a_scales, b_scales, strict=True)]
        if step.group == 1:
            terms = [_times(term, scales[i // block]) for i, term in enumerate(terms)] + [s for s in scales if s.special]
        else:
            groups = [(terms[i : i + step.group], scales[i // block]) for i in range(0, len(terms), step.group)]
            live = [(g, s) for g, s in groups if s.special or (s.significand and any(p.significand for p in g))]
            terms = [_group(g, s) for g, s in live]
    addend = number(c, FORMATS[step.d])
    terms.append(addend._replace(exponent=addend.exponent - call.scale_input_d))
    largest = max([step.floor, *(s.exponent for _, s in live if not s.special)]) if step.group > 1 else step.floor
    return dot(terms, step, largest)


def _run(call: Call) -> NDArray[Any]:
    m, n = call.a_codes.shape[-2], call.b_codes.shape[-2]
    out = np.empty((*call.batch, m, n), np.uint16 if call.step.d == "f16" else np.uint32)
    for index in np.ndindex(call.batch):
        rows, columns = call.a_codes[index].tolist(), call.b_codes[index].tolist()
        added = np.zeros((m, n), int).tolist() if call.c_bits is None else call.c_bits[index].tolist()
        scales_a, scales_b = ([[]] * size if x is None else x[index].tolist() for x, size in ((call.a_scales, m), (call.b_scales, n)))
        metadata = None if call.metadata is None else call.metadata[index].tolist()
        for i, x in enumerate(rows):
            for j, column in enumerate(columns):
                y = column if metadata is None else _selected(column, metadata[i], call.a, call.step.group > 1)
                if call.step.output == "s32":
                    out[(*index, i, j)] = _integer_dot(call, x, y, added[i][j])
                else:
                    out[(*index, i, j)] = _float_dot(call, x, y, added[i][j], scales_a[i], scales_b[j])
    return out


_SIGNATURE = signature(compiled_mma)


def mma(**arguments: Any) -> NDArray[Any]:
    """The same as `ptxlab.numerics.mma`, which says what the arguments are.

    Examples
    --------
    >>> A, B = np.array([[0x3C01] + 15 * [0]], np.uint16), np.array([[0xBC01] + 15 * [0]], np.uint16)
    >>> C = np.array([[0xC0000000]], np.uint32)
    >>> hex(mma(arch="wgmma", kind=None, a="f16", b="f16", d="f32", A=A, B=B, C=C)[0, 0])
    '0xc0402004'
    """
    given = _SIGNATURE.bind(**arguments)
    given.apply_defaults()
    return _run(check_call(given.arguments))
