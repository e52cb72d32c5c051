"""tcgen05.mma: arithmetic of every kind, operands under any descriptor, collector buffers.

Shared memory and tensor memory are images of codes; descriptors say which of them are operands. Nothing here knows which element is where.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.descriptors import InstructionDescriptor, SharedMemoryDescriptor, ZeroColumnMask
from ptxlab.formats import FORMATS
from ptxlab.isa.targets import SCALE_INPUT
from ptxlab.silicon._case import STYLES, Array, Case, codes, constants, head, random_words
from ptxlab.silicon.parts._tensor_frame import FRAME, WORDS, frame
from ptxlab.silicon.parts.mma import metadata_words, packed
from ptxlab.tables import K96_TARGETS, MMA_KINDS, TRANSPOSED_SWIZZLES

__all__ = ["kinds", "tcgen05_arithmetic", "tcgen05_collector", "tcgen05_layouts"]

_FLOAT8 = ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1")
_PAIRS = {
    "f16": [("f16", "f16", "f32"), ("bf16", "bf16", "f32"), ("f16", "f16", "f16"), ("f16", "bf16", "f32"), ("bf16", "f16", "f32")],
    "tf32": [("tf32", "tf32", "f32")],
    "f8f6f4": [*((a, b, "f32") for a, b in product(_FLOAT8, repeat=2)), *((a, a, "f16") for a in _FLOAT8)],
    "i8": [(a, b, "s32") for a, b in product(("s8", "u8"), repeat=2)],
    "mxf8f6f4": [(a, b, "f32") for a, b in product(_FLOAT8, repeat=2)],
    "mxf4": [("e2m1", "e2m1", "f32")],
    "mxf4nvf4": [("e2m1", "e2m1", "f32")],
}
"""Kind -> the types of A, B and D."""
_VECTORS = {"mxf8f6f4": [("1X", "ue8m0")], "mxf4": [("2X", "ue8m0")], "mxf4nvf4": [("2X", "ue8m0"), ("4X", "ue8m0"), ("4X", "ue4m3")]}
_SCALE_IDS = {"1X": (0, 1, 2, 3), "2X": (0, 2), "4X": (0,)}
A_COLUMN, METADATA, SCALE_A, SCALE_B, COLUMNS = 0, 8, 16, 24, 32
"""Columns of tensor memory behind D: A, metadata, scale factors; and how many there are."""


@dataclass(frozen=True)
class Form:
    """A kernel with one tcgen05.mma, and whether A is in tensor memory."""

    kind: str
    group: int = 1
    ws: bool = False
    sparse: bool = False
    in_tensor: bool = False
    vector: str = ""
    collector: str = ""
    masked: bool = False
    scaled_input: bool = False
    zero_columns: bool = False

    @property
    def opcode(self) -> str:
        name = f"tcgen05.mma{'.ws' if self.ws else ''}{'.sp' if self.sparse else ''}.cta_group::{self.group}.kind::{self.kind}"
        if self.vector:
            name += f".block_scale.{self.vector}"
        return name + (f".collector::{self.collector}" if self.collector else "")

    @property
    def instruction(self) -> str:
        operands = ["[da]", "[ta]" if self.in_tensor else "ad", "bd", *(["[sp]"] if self.sparse else []), "id"]
        if self.vector:
            operands += ["[sa]", "[sb]"]
        if self.masked:
            operands.append("{" + ", ".join(f"m{i}" for i in range(4 * self.group)) + "}")
        operands.append("e")
        if self.scaled_input:
            operands.append("3")
        if self.zero_columns:
            operands.append("zd")
        return f"{self.opcode} {', '.join(operands)};"

    @property
    def stored(self) -> int:
        """Columns behind D that the instruction reads."""
        if self.vector:
            return COLUMNS
        return METADATA + 4 if self.sparse else METADATA if self.in_tensor else 0


@dataclass(frozen=True)
class Launch:
    """What a CTA group computes: the instruction descriptor, the style of its numbers, descriptors, and further words."""

    idesc: InstructionDescriptor
    style: int
    a: int = 0
    b: int = 0
    words: dict[str, int] = field(default_factory=dict)


def _memory(fmt: str, count: int, style: int, negated: bool, *seed: int) -> NDArray[np.uint32]:
    """Words of shared memory: codes of a type, packed as they are there; slots of 4- and 6-bit types end with bits that are not read."""
    if FORMATS[fmt].bits == 6:
        return random_words(count, style, *fmt.encode(), *seed).astype(np.uint32)
    return packed(fmt, "mxf4" if FORMATS[fmt].bits == 4 else "", count, style, negated, *seed)


def _case(name: str, form: Form, launches: Sequence[Launch], columns: int, target: str, image: int, lines: Sequence[str] = ()) -> Case:
    """A launch with one CTA group for each `Launch`; D has ``columns`` columns, the operands in tensor memory follow them."""
    stored = columns + form.stored
    grid = len(launches) * form.group
    images, before, rows = [], [], []
    for cta in range(grid):
        launch = launches[cta // form.group]
        i, style = launch.idesc, launch.style
        half = image // 8
        images += [_memory(i.a, half, style, True, 1, cta), _memory(i.b, half, style, False, 2, cta)]
        before += [packed("f16" if i.d == "f16" else i.d, "", 128 * columns, style, False, 3, cta)]
        if form.stored:
            before.append(packed(i.a, form.kind, 128 * METADATA, style, True, 4, cta))
        if form.stored > METADATA:
            count = 128 * (form.stored - METADATA) if not form.vector else 128 * (SCALE_A - METADATA)
            before.append(metadata_words(i.a, count))
        if form.vector:
            # The four groups of 32 lanes, and both CTAs of a pair, have the same scale factors.
            factors = codes(i.scale, 4 * 32 * (COLUMNS - SCALE_A), style, False, 5, cta // form.group).view(np.uint32)
            before.append(np.tile(factors.reshape(-1, 32), 4).ravel())
        given = {"ad": launch.a, "bd": launch.b, "id": int(i), "ta": columns + A_COLUMN, "sp": columns + METADATA, "en": 1, "da": 0}
        given |= {"sa": columns + SCALE_A, "sb": columns + SCALE_B} | launch.words
        rows.append([given.get(name, 0) for name in WORDS])
    allocated = 64
    while allocated < stored:
        allocated *= 2
    text = frame(head(target), lines or [form.instruction], group=form.group, image=image, stored=stored, read=columns, allocated=allocated)
    inputs = (
        Array("shared memory", np.concatenate(images).reshape(grid, -1), ("CTA", "word")),
        Array(", ".join(WORDS), constants(rows), ("CTA", "operand")),
        Array("tensor memory before", np.concatenate(before).reshape(grid, stored, 128), ("CTA", "column", "lane")),
    )
    out = Array.zeros("tensor memory after", (grid, columns, 128), ("CTA", "column", "lane"))
    opcodes = (form.opcode, *(opcode.format(form.group) for opcode in FRAME))
    return Case(name, text, grid, 128, inputs, (out,), opcodes)


def _plain(start: int, row_bytes: int) -> int:
    """The descriptor of core matrices of 8 rows by 16 bytes, first along K, without swizzling."""
    return int(SharedMemoryDescriptor(start=start, leading=128, stride=8 * row_bytes))


def _launches(form: Form, m: int, n: int) -> Iterator[Launch]:
    """Every pair of types in two styles, or in all styles where there are few pairs; a selection of them if the form is a special one."""
    pairs = _PAIRS[form.kind]
    chosen = list(product(pairs, range(len(STYLES)) if len(pairs) < 6 else (0, 1)))
    if form.sparse or form.in_tensor or form.group == 2 or form.ws:
        most = 2 if m == 128 and form.ws else 4
        chosen = [chosen[(i * len(chosen)) // most] for i in range(min(most, len(chosen)))]
    half = _image(form, m, n) // 2
    descriptors = _plain(0, 32), _plain(half, 64 if form.sparse else 32)
    for number, ((a, b, d), style) in enumerate(chosen):
        more: dict[str, Any] = {}
        if form.vector:
            scale = "ue4m3" if form.vector.endswith("4X") and number & 1 else "ue8m0"
            ids = _SCALE_IDS[form.vector[-2:]]
            more = {"scale": scale if form.kind == "mxf4nvf4" else "ue8m0"}
            more |= {"scale_a_id": ids[number % len(ids)], "scale_b_id": ids[number // 2 % len(ids)]}
        elif form.kind == "i8":
            more = {"saturate": bool(number & 1)}
        else:
            more = {"negate_a": number % 3 == 1, "negate_b": number % 4 == 1}
            if form.sparse and form.kind != "f8f6f4":
                more["selector"] = number & 1
        idesc = InstructionDescriptor(kind=form.kind, m=m, n=n, a=a, b=b, d=d, sparse=form.sparse, **more)
        yield Launch(idesc, style, *descriptors)


def _image(form: Form, m: int, n: int) -> int:
    """Bytes of shared memory: two equal halves for A and B."""
    return 2 * max(32 * m // form.group, (64 if form.sparse else 32) * n // form.group)


def kinds(target: str) -> list[str]:
    """The kinds that a target has."""
    return [kind for kind in MMA_KINDS if kind != "i8" or target != "sm_103a"]


def tcgen05_arithmetic(target: str) -> Iterator[Case]:
    """Every kind, dense and sparse, A in shared memory and in tensor memory, one CTA and a pair, ``.ws``; special operands."""
    for kind, sparse, in_tensor, group in product(kinds(target), (False, True), (False, True), (1, 2)):
        for vector in [f"scale_vec::{v}" for v in dict.fromkeys(v for v, _ in _VECTORS.get(kind, ()))] or [""]:
            form = Form(kind, group, False, sparse, in_tensor, vector)
            m, n = 128 * group, 32 if (kind, group) == ("i8", 2) else 16
            name = f"{form.opcode}{', A in tensor memory' if in_tensor else ''}, M {m}"
            yield _case(name, form, list(_launches(form, m, n)), n, target, _image(form, m, n))
    for kind, sparse, in_tensor in product([k for k in kinds(target) if k not in _VECTORS], (False, True), (False, True)):
        form = Form(kind, 1, True, sparse, in_tensor)
        for m in (32, 64, 128):
            name = f"{form.opcode}{', A in tensor memory' if in_tensor else ''}, M {m}"
            yield _case(name, form, list(_launches(form, m, 64)), m // 2, target, _image(form, m, 64))
    yield from _special_operands(target)
    if target in K96_TARGETS:
        yield from _k96(target)


def _special_operands(target: str) -> Iterator[Case]:
    """Lanes that keep D, a scaled D, D that is not read, columns of B that count as zero."""
    for kind, group in product(("f16", "tf32"), (1, 2)):
        fmt = "bf16" if kind == "f16" else kind
        n = 32 if group == 2 else 16
        for masked, scaled in ((True, False), (False, True), (True, True)):
            if scaled and target not in SCALE_INPUT:
                continue
            form = Form(kind, group, masked=masked, scaled_input=scaled)
            half = _image(form, 128 * group, n) // 2
            idesc = InstructionDescriptor(kind=kind, m=128 * group, n=n, a=fmt, b=fmt)
            launches = []
            for number, style in enumerate((0, 1, 3, 5)):
                words = {f"m{i}": int(word) & 0xFFFFFFFF for i, word in enumerate(random_words(8, number, n))}
                launches.append(Launch(idesc, style, _plain(0, 32), _plain(half, 32), words | {"en": number != 1}))
            what = ", ".join(["disable-output-lane"] * masked + ["scale-input-d"] * scaled)
            yield _case(f"{form.opcode}, {what}", form, launches, n, target, 2 * half)
    form = Form("f16", ws=True, zero_columns=True)
    idesc = InstructionDescriptor(kind="f16", m=64, n=64, a="f16", b="f16", max_shift=8)
    masks = [ZeroColumnMask(), ZeroColumnMask(skip_span=2, use_span=3), ZeroColumnMask(skip_span=1, use_span=1, shift=8)]
    half = _image(form, 64, 128) // 2
    launches = [Launch(idesc, 1, _plain(0, 32), _plain(half, 32), {"zd": int(mask)}) for mask in masks]
    yield _case(f"{form.opcode}, zero-column-mask-desc", form, launches, 32, target, 2 * half)


def _k96(target: str) -> Iterator[Case]:
    """K = 96 of the types of 4 bits: rows of 48 bytes."""
    for kind, vector, scale in (("mxf4", "block32", "ue8m0"), ("mxf4nvf4", "block32", "ue8m0"), ("mxf4nvf4", "block16", "ue4m3")):
        form = Form(kind, vector=vector)
        idesc = InstructionDescriptor(kind=kind, m=128, n=16, a="e2m1", b="e2m1", scale=scale, k96=True)
        half = 48 * 128
        launches = [Launch(idesc, style, _plain(0, 48), _plain(half, 48)) for style in (0, 1)]
        yield _case(f"{form.opcode}, K 96", form, launches, 16, target, 2 * half)


_LAYOUT_TYPES = {"f16": ("f16", 16, "f32"), "tf32": ("tf32", 32, "f32"), "f8f6f4": ("e4m3", 8, "f32"), "i8": ("s8", 8, "s32")}


def tcgen05_layouts(target: str) -> Iterator[Case]:
    """Any leading and stride byte offsets under each swizzling mode, both majors, shapes of one CTA and of a pair."""
    image = 1 << 14
    swizzles = ("none", "32B", "64B", "128B", "128B_32B")
    for kind, majors in product(kinds(target), product("km", repeat=2)):
        if kind not in _LAYOUT_TYPES:
            continue
        fmt, bits, d = _LAYOUT_TYPES[kind]
        for group, m, n in ((1, 64, 8), (1, 128, 16), (2, 128, 32), (2, 256, 32)):
            form = Form(kind, group)
            raw = random_words(6 * len(swizzles), m, n, *kind.encode()).reshape(-1, 2, 3) >> np.uint64(12)
            launches = []
            for number in range(4):
                made = []
                for which in (0, 1):
                    allowed = TRANSPOSED_SWIZZLES[bits] if majors[which] == "m" else swizzles[:4]
                    swizzle = allowed[(number + which * (1 + number // 3)) % len(allowed)]
                    start, leading, stride = (int(x) for x in raw[number, which])
                    made.append(
                        SharedMemoryDescriptor(
                            start=1024 * (start % 4), leading=16 * (1 + leading % 31), stride=16 * (8 + stride % 24), swizzle=swizzle
                        )
                    )
                idesc = InstructionDescriptor(
                    kind=kind, m=m, n=n, a=fmt, b=fmt, d=d, transpose_a=majors[0] == "m", transpose_b=majors[1] == "m"
                )
                if not idesc.findings(group):
                    launches.append(Launch(idesc, 1, int(made[0]), int(made[1])))
            if launches:
                name = f"{form.opcode}, descriptors, majors {''.join(majors).upper()}, M {m}, N {n}"
                yield _case(name, form, launches, n, target, image)


def tcgen05_collector(target: str) -> Iterator[Case]:
    """Products whose matrix A (with ``.ws``: B) is kept in a collector buffer, which must not change a result."""
    for kind, group in product(("f16", "f8f6f4"), (1, 2)):
        fmt, n = ("bf16" if kind == "f16" else "e4m3"), 32 if group == 2 else 16
        idesc = InstructionDescriptor(kind=kind, m=128 * group, n=n, a=fmt, b=fmt)
        for uses in (("fill", "use", "lastuse"), ("discard",), ("fill", "lastuse", "fill", "use", "use")):
            forms = [Form(kind, group, collector=f"a::{use}") for use in uses]
            yield _collected(forms, idesc, 128 * group, n, n, f"collector a: {', '.join(uses)}", target)
    for buffer in range(4):
        forms = [Form("f16", ws=True, collector=f"b{buffer}::{use}") for use in ("fill", "use", "lastuse", "discard")]
        idesc = InstructionDescriptor(kind="f16", m=64, n=64, a="f16", b="f16")
        yield _collected(forms, idesc, 64, 64, 32, f"collector b{buffer}", target)


def _collected(forms: Sequence[Form], idesc: InstructionDescriptor, m: int, n: int, columns: int, what: str, target: str) -> Case:
    """Products one after the other with the same operands."""
    half = _image(forms[0], m, n) // 2
    launches = [Launch(idesc, 1, _plain(0, 32), _plain(half, 32))]
    made = _case(f"{forms[-1].opcode}, {what}", forms[0], launches, columns, target, 2 * half, [form.instruction for form in forms])
    return replace(made, opcodes=(*made.opcodes, *dict.fromkeys(form.opcode for form in forms)))
