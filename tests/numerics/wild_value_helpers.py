"""Random codes chosen so that windows, floors and special values matter."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab import numerics
from ptxlab.formats import FORMATS, encode
from ptxlab.numerics._steps import Step, find_step

Codes = NDArray[Any]
NARROW = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")
GROUPED = ("mxf4", "mxf4nvf4")


@dataclass(frozen=True)
class Form:
    """One combination of types."""

    arch: str
    kind: str | None
    a: str
    b: str
    d: str
    length: int = 0
    scale: tuple[str, int] | None = None
    sparse: bool = False

    @property
    def k(self) -> int:
        """Stored elements of a row of A."""
        return self.length or {"f16": 16, "bf16": 16, "tf32": 8}.get(self.a, 32)

    @property
    def sort(self) -> tuple[object, ...]:
        """What forms have in common that differ in the types and in K only."""
        return (self.arch, self.kind, self.scale, self.sparse)

    @property
    def chunks(self) -> int:
        return self.k // (1 if self.a == "tf32" else 4 if self.kind in GROUPED else 2)

    @property
    def step(self) -> Step:
        return find_step(self.arch, self.kind, self.a, self.b, self.d, self.k)

    def __str__(self) -> str:
        scale = f"{self.scale[0]}x{self.scale[1]}" if self.scale else None
        parts = (self.arch, self.kind, self.a, self.b, self.d, self.length, scale, self.sparse and "sparse")
        return "-".join(str(part) for part in parts if part)


FORMS = [
    *(Form("tcgen05", "f16", a, b, "f32") for a in ("f16", "bf16") for b in ("f16", "bf16")),
    Form("tcgen05", "f16", "f16", "f16", "f16"),
    Form("tcgen05", "tf32", "tf32", "tf32", "f32"),
    *(Form("tcgen05", "f8f6f4", a, b, d) for a in NARROW for b in NARROW for d in ("f32", "f16")),
    Form("wgmma", None, "f16", "f16", "f32"),
    Form("wgmma", None, "bf16", "bf16", "f32"),
    Form("wgmma", None, "f16", "f16", "f16"),
    Form("wgmma", None, "tf32", "tf32", "f32"),
    *(Form("wgmma", None, a, b, d) for a in NARROW[:2] for b in NARROW[:2] for d in ("f32", "f16")),
]
"""Every unscaled floating-point combination of tcgen05 and wgmma."""

SCALED = [
    *(Form("tcgen05", "mxf8f6f4", a, b, "f32", 32, ("ue8m0", 32)) for a in NARROW for b in NARROW),
    *(Form("tcgen05", "mxf4", "e2m1", "e2m1", "f32", k, ("ue8m0", 32)) for k in (64, 96)),
    *(
        Form("tcgen05", "mxf4nvf4", "e2m1", "e2m1", "f32", k, scale)
        for k in (64, 96)
        for scale in (("ue8m0", 32), ("ue8m0", 16), ("ue4m3", 16))
    ),
]
"""Every block-scaled combination."""

SPARSE = [replace(form, sparse=True) for form in (*FORMS, *SCALED) if form.k != 96]


def _sync(arch: str, *rows: tuple[str, str, tuple[int, ...]]) -> list[Form]:
    return [Form(arch, None, types, types, d, k) for d, types, lengths in rows for k in lengths]


_HALF = (("f32", "f16", (8, 16)), ("f16", "f16", (8, 16)), ("f32", "bf16", (8, 16)), ("f32", "tf32", (4, 8)))
SYNC = [
    *_sync("mma.sm_70", ("f32", "f16", (4,)), ("f16", "f16", (4,))),
    *_sync("mma.sm_75", ("f32", "f16", (4, 8)), ("f16", "f16", (4, 8))),
    *(form for arch in ("mma.sm_80", "mma.sm_89", "mma.sm_90", "mma.sm_100", "mma.sm_120") for form in _sync(arch, *_HALF)),
    *(
        Form(arch, None, a, b, d, k)
        for arch in ("mma.sm_89", "mma.sm_120")
        for a in NARROW[:2]
        for b in NARROW[:2]
        for d in ("f32", "f16")
        for k in (16, 32)
    ),
    *(Form("mma.sm_120", "f8f6f4", a, b, d) for a, b in (("e4m3", "e2m1"), ("e2m3", "e5m2")) for d in ("f32", "f16")),
    *(replace(form, arch="mma.sm_120") for form in SCALED[::6] if form.k != 96),
    *(replace(form, arch="mma.sm_120") for form in SCALED[-6:] if form.k != 96),
]
"""Warp-level mma.sync; chains of steps where K is more than one step takes."""

SPARSE_SYNC = [replace(form, sparse=True) for form in SYNC if form.arch not in ("mma.sm_70", "mma.sm_75")]
"""mma.sp."""


@dataclass
class Case:
    """Operands of one multiplication."""

    form: Form
    A: Codes
    B: Codes
    C: Codes | None
    options: dict[str, Any] = field(default_factory=dict)

    def run(self, mma: Any = numerics.mma) -> Codes:
        f = self.form
        result: Codes = mma(arch=f.arch, kind=f.kind, a=f.a, b=f.b, d=f.d, A=self.A, B=self.B, C=self.C, **self.options)
        return result

    def arguments(self) -> dict[str, Any]:
        """Of `numerics.mma`, all of them."""
        f = self.form
        absent = dict.fromkeys(("scale_a", "scale_b", "scale", "block", "metadata"))
        options = {"saturate": False, "negate_a": False, "negate_b": False, "scale_input_d": 0} | self.options
        types = {"arch": f.arch, "kind": f.kind, "a": f.a, "b": f.b, "d": f.d}
        return {**absent, **types, "A": self.A, "B": self.B, "C": self.C, **options}

    def check(self, ours: Codes, other: Codes) -> None:
        """Fail with the first dot product that differs."""
        wrong = np.argwhere(ours != other)
        if not len(wrong):
            return
        m, n = wrong[0]
        c = "none" if self.C is None else hex(self.C[m, n])
        shown = [" ".join(f"{int(code):x}" for code in line) for line in (self.A[m], self.B[n])]
        rows = {"scale_a": m, "scale_b": n, "metadata": m}
        options = {name: [hex(x) for x in given[rows[name]]] if name in rows else given for name, given in self.options.items()}
        raise AssertionError(
            f"{self.form} {options}: {len(wrong)} differ; A={shown[0]} B={shown[1]} C={c}: {ours[m, n]:#x} instead of {other[m, n]:#x}"
        )


def codes(rng: np.random.Generator, fmt: str, shape: tuple[int, ...], spread: int | None, specials: float) -> Codes:
    """Random codes; exponents within ``spread`` of a random one (None: any), infinities and NaN with a probability, some zeros."""
    row = FORMATS[fmt]
    raw = rng.integers(0, 1 << row.bits, shape, dtype=np.uint64)
    shift, top = np.uint64(row.mantissa + row.dropped), (1 << row.exponent) - 1
    fraction = np.uint64((1 << int(shift)) - 1)
    exponent = (raw >> shift) & np.uint64(top)
    if spread is not None:
        exponent = np.clip(int(rng.integers(0, top + 1)) + rng.integers(-spread, spread + 1, shape), 0, top).astype(np.uint64)
    if row.inf is not None:
        exponent = np.where((exponent == top) & (rng.random(shape) >= specials), top - 1, exponent).astype(np.uint64)
    raw = (raw & np.uint64(row.sign_mask)) | (raw & fraction) | (exponent << shift)
    if rng.random() < 0.25:
        raw &= ~fraction
    zero = rng.random(shape) < (0.9 if rng.random() < 0.1 else 0.1)
    return np.where(zero, raw & np.uint64(row.sign_mask), raw).astype(row.dtype)


def least_place(form: Form) -> int:
    """The exponent of the last place that a product can have, scaled or not."""
    place = sum(1 - row.bias - row.mantissa for row in (FORMATS[form.a], FORMATS[form.b]))
    return place + {"ue8m0": -254, "ue4m3": -18}[form.scale[0]] if form.scale else place


def reaches_floor(form: Form) -> bool:
    """Whether some product has a place below the last one that a floor higher by one leaves; else no input shows where the floor is."""
    return least_place(form) < form.step.floor + 1 - form.step.window


def stored_positions(form: Form, metadata: Codes) -> Codes:
    """For metadata [..., chunks], where the stored elements [..., k] of a sparse row are in the whole row (section "Sparse Matrices")."""
    if form.a == "tf32":
        return 2 * np.arange(form.k) + (metadata == 0xE)
    width = 2 if form.kind in GROUPED else 1
    pairs = 4 * np.arange(form.chunks)[:, None] + np.stack([metadata & 3, metadata >> 2], axis=-1)
    places = width * pairs[..., None] + np.arange(width)
    return places.reshape(*metadata.shape[:-1], form.k)


def _put(one: Case, A: Codes, B: Codes) -> None:
    """Products that all rows have; of a sparse A all rows store the same places."""
    one.A[:], one.B[:] = 0, 0
    one.A[:] = A
    if one.form.sparse:
        metadata = one.options["metadata"]
        metadata[:] = metadata[0]
        one.B[:, stored_positions(one.form, metadata[0])] = B
    else:
        one.B[:] = B


def _empty(one: Case) -> tuple[Codes, Codes]:
    return np.zeros_like(one.A), np.zeros((len(one.B), one.form.k), one.B.dtype)


def at_the_window(one: Case) -> None:
    """Two products that cancel, and a C next to the last place that the window leaves below them."""
    form, step = one.form, one.form.step
    A, B = _empty(one)
    A[:, :2], B[:, 0], B[:, 1] = encode(4.0, form.a), encode(4.0, form.b), encode(-4.0, form.b)
    _put(one, A, B)
    if form.scale:
        one.options["scale_a"][:] = one.options["scale_b"][:] = 127 if form.scale[0] == "ue8m0" else 0x38
    # A group's exponent is that of its scales.
    top = 0 if step.group > 1 else 4
    sign, about = np.resize([1.0, -1.0], (len(one.A), 1)), np.resize([-1, 0, 1], len(one.B))
    one.C = encode(np.ldexp(sign, top - step.window + about), form.d)


def at_the_floor(one: Case) -> None:
    """Terms that sum to the last place of the output (half of it, for f16), and a little one next to the last that the floor leaves."""
    form, step = one.form, one.form.step
    large, little = (-25 if form.d == "f16" else -149), step.floor - step.window
    A, B = _empty(one)
    one.C = np.zeros((len(one.A), len(one.B)), np.uint16 if form.d == "f16" else np.uint32)
    sign = np.resize([1.0, -1.0], len(one.A))
    about = np.resize([-1, 0, 1], len(one.B))
    if form.scale is None:
        A[:, 0], B[:, 0] = encode(np.ldexp(1.0, large // 2), form.a), encode(np.ldexp(1.0, large - large // 2), form.b)
        A[:, 1], B[:, 1] = encode(np.ldexp(sign, little // 2), form.a), encode(np.ldexp(1.0, little - little // 2 + about), form.b)
    elif step.group == 1:
        _one_scale(one, A, B, sign, about, large - little)
    else:
        scale_a, scale_b = one.options["scale_a"], one.options["scale_b"]
        scale_a[:], scale_b[:] = 127 + large // 2, 127 + large - large // 2
        A[:, 0], B[:, 0] = encode(1.0, form.a), encode(1.0, form.b)
        # The least product of a group is 2^-2.
        scale_a[:, -1], scale_b[:, -1] = 127 + (little + 1) // 2, 127 + little + 1 - (little + 1) // 2
        A[:, -1], B[:, -1] = encode(sign / 2, form.a), encode(np.ldexp(1.0, about), form.b)
    _put(one, A, B)


def at_the_step(one: Case) -> None:
    """Two products that cancel, and in the other half of their step, or in the next step, one that the window drops beside them."""
    form, step = one.form, one.form.step
    high = 8 if form.a == "e4m3" or form.b == "e4m3" else 15
    little = 2 * high - step.window - 2
    A, B = _empty(one)
    one.C = np.zeros((len(one.A), len(one.B)), np.uint16 if form.d == "f16" else np.uint32)
    A[:, :2], B[:, 0], B[:, 1] = encode(2.0**high, form.a), encode(2.0**high, form.b), encode(-(2.0**high), form.b)
    A[:, [step.k // 2, step.k]] = encode(2.0 ** (little // 2), form.a)
    B[::2, step.k // 2] = B[1::2, step.k] = encode(2.0 ** (little - little // 2), form.b)
    _put(one, A, B)


def _one_scale(one: Case, A: Codes, B: Codes, sign: Codes, about: Codes, apart: int) -> None:
    """As many products, 2^apart times the little one together, as their types need: one scale puts them all where the floor is."""
    ranges = []
    for fmt in (one.form.a, one.form.b):
        row = FORMATS[fmt]
        ranges.append((1 - row.bias - row.mantissa, 2 if row.exponent == 2 else 4))
    (low_a, high_a), (low_b, high_b) = ranges
    wanted = low_a + low_b + 1 + apart
    x = int(np.clip(wanted, low_a, high_a))
    y = int(np.clip(wanted - x, low_b, high_b))
    count = 1 << (wanted - x - y)
    A[:, :count], B[:, :count] = encode(np.ldexp(1.0, x), one.form.a), encode(np.ldexp(1.0, y), one.form.b)
    A[:, -1], B[:, -1] = encode(np.ldexp(sign, low_a), one.form.a), encode(np.ldexp(1.0, low_b + 1 + about), one.form.b)
    step = one.form.step
    sum_ = step.floor - step.window - low_a - low_b - 1
    one.options["scale_a"][:], one.options["scale_b"][:] = 127 + sum_ // 2, 127 + sum_ - sum_ // 2


def edges(rng: np.random.Generator, form: Form, m: int = 8, n: int = 9) -> list[Case]:
    """A case at the window, where products are small enough one at the floor, and where there are several steps one between them."""
    found, places = [], [at_the_window]
    if reaches_floor(form):
        places.append(at_the_floor)
    if form.k > form.step.k:
        places.append(at_the_step)
    for put in places:
        one = case(rng, form, m, n)
        one.options = {name: value for name, value in one.options.items() if name != "scale_input_d"}
        put(one)
        found.append(one)
    return found


def _scales(rng: np.random.Generator, form: Form, rows: int, sum_: int | None) -> Codes:
    """Scales of a row; with ``sum_``, half of a sum of exponents."""
    assert form.scale
    name, block = form.scale
    shape = (rows, form.k // block)
    if rng.random() < 0.2:
        return rng.integers(0, 256, shape, dtype=np.uint8)
    if name == "ue4m3":
        low, high = [(0, 128), (0x30, 0x48), (0, 16)][rng.integers(3)]
        return rng.integers(low, high, shape, dtype=np.uint8)
    spread = [0, 1, 3, 20][rng.integers(4)]
    middle = 127 if sum_ is None else 127 + sum_ // 2
    return np.clip(middle + rng.integers(-spread, spread + 1, shape), 0, 254).astype(np.uint8)


def case(rng: np.random.Generator, form: Form, m: int = 8, n: int = 9) -> Case:
    """A random multiplication."""
    k, whole = form.k, form.k * (1 + form.sparse)
    spread = [None, 0, 1, 2, 4, 8, 16, 40][rng.integers(8)]
    specials = 0.1 if rng.random() < 0.3 else 0.0
    A, B = codes(rng, form.a, (m, k), spread, specials), codes(rng, form.b, (n, whole), spread, specials)
    C = codes(rng, form.d, (m, n), spread, specials)
    if rng.random() < 0.3 and not form.sparse:  # cancellation, and perhaps a little that stays
        half = k // 2
        A[:, half:], B[:, half:] = A[:, :half], B[:, :half] ^ B.dtype.type(FORMATS[form.b].sign_mask)
        if rng.random() < 0.5:
            B[:, -1] = codes(rng, form.b, (n,), None, 0.0)
    if rng.random() < 0.2:
        A[m // 2 :] = 0
    options: dict[str, Any] = {}
    if form.scale:
        # Where the scales' exponents are C's, or where all is near the floor.
        sum_ = [None, 0, -140, -160, 30][rng.integers(5)]
        options.update(scale=form.scale[0], block=form.scale[1])
        options.update(scale_a=_scales(rng, form, m, sum_), scale_b=_scales(rng, form, n, sum_))
        if sum_ is not None and rng.random() < 0.7:
            C = encode(np.ldexp(rng.standard_normal((m, n)), sum_ + rng.integers(-40, 40, (m, n))), "f32")
    if form.sparse:
        legal = [4, 14] if form.a == "tf32" else [4, 6, 8, 9, 12, 13, 14]
        options.update(metadata=rng.choice(legal, (m, form.chunks)).astype(np.uint8))
    if rng.random() < 0.3:
        options.update(negate_a=bool(rng.integers(2)), negate_b=bool(rng.integers(2)))
    if form.arch == "tcgen05" and form.kind in ("f16", "tf32") and rng.random() < 0.2:
        options.update(scale_input_d=int(rng.integers(16)))
    one = Case(form, A, B, C, options)
    if rng.random() < 0.1:
        one.C = None
    return one
