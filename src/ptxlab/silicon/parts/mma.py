"""mma.sync forms, kernels around them, and inputs that every machine makes alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from ptxlab.formats import FORMATS
from ptxlab.silicon._case import STYLES, Array, Case, codes, head, random_words

__all__ = ["CASES", "Form", "forms", "metadata_words", "mma_cases", "module", "packed", "words"]

CASES = 12
"""Warps of a form; each has its own inputs."""


@dataclass(frozen=True)
class Form:
    """One opcode; registers of a thread for A, B, C and D.

    ``more`` are the operands behind C; they name the registers e0 and e1, with ``metadata`` or scale factors of the type ``scale``.
    """

    opcode: str
    counts: tuple[int, int, int]
    types: tuple[str, str, str]
    seed: int
    more: str = ""
    scale: str = ""


_FLOAT8 = ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1")
_SIZES = {"f16": 16, "bf16": 16, "tf32": 32, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1, **dict.fromkeys(_FLOAT8, 8)}
_MODERATE = {
    "f16": (0x8FFF8FFF, 0x30003000),
    "bf16": (0x81FF81FF, 0x3E003E00),
    "tf32": (0x81FFFFFF, 0x3E000000),
    "f32": (0x83FFFFFF, 0x3C000000),
    "e4m3": (0x9F9F9F9F, 0x20202020),
    "e5m2": (0x8F8F8F8F, 0x30303030),
    "s32": (0xFFFFFFFF, 0x70000000),
}


def forms() -> list[Form]:
    """All of them."""
    found: list[Form] = []

    def add(shape: str, a: str, b: str, d: str, before: str = "", behind: str = "") -> None:
        m, n, k = (int(x) for x in shape[1:].replace("n", " ").replace("k", " ").split())
        count = m * n // 32 // (2 if d == "f16" else 1)
        counts = (m * k * _SIZES[a] // 1024, n * k * _SIZES[a] // 1024, count)
        opcode = f"mma.sync.aligned.{shape}.row.col{before}.{d}.{a}.{b}.{d}{behind}"
        found.append(Form(opcode, counts, (a, b, d), len(found)))

    for shape in ("m16n8k8", "m16n8k16"):
        for a, d in (("f16", "f32"), ("f16", "f16"), ("bf16", "f32")):
            add(shape, a, a, d)
    for shape in ("m16n8k4", "m16n8k8"):
        add(shape, "tf32", "tf32", "f32")
    for shape in ("m16n8k16", "m16n8k32"):
        for a, b, d in (("e4m3", "e4m3", "f32"), ("e5m2", "e4m3", "f32"), ("e5m2", "e5m2", "f16"), ("e4m3", "e5m2", "f16")):
            add(shape, a, b, d)
    for shape, width in (("m8n8k16", 8), ("m16n8k16", 8), ("m16n8k32", 8), ("m8n8k32", 4), ("m16n8k32", 4), ("m16n8k64", 4)):
        for a, b, clamp in (("s", "s", ".satfinite"), ("u", "s", ""), ("s", "u", ".satfinite"), ("u", "u", "")):
            add(shape, f"{a}{width}", f"{b}{width}", "s32", clamp)
    for shape in ("m8n8k128", "m16n8k128", "m16n8k256"):
        for operation in ("xor", "and"):
            add(shape, "b1", "b1", "s32", behind=f".{operation}.popc")
    found.append(Form("movmatrix.sync.aligned.m8n8.trans.b16", (1, 0, 0), ("b1", "b1", "b1"), len(found)))
    return found


def _sparse_forms() -> Iterator[Form]:
    """Forms of sm_90a with metadata; the selector is 0."""
    shapes: dict[tuple[str, str], tuple[int, ...]] = dict.fromkeys((("f16", "f32"), ("f16", "f16"), ("bf16", "f32")), (16, 32))
    shapes |= {("tf32", "f32"): (8, 16)}
    shapes |= {("s8", "s32"): (32, 64), ("u8", "s32"): (32, 64), ("e4m3", "f32"): (64,), ("e5m2", "f32"): (64,)}
    for (a, d), ks in shapes.items():
        for k in ks:
            c = 2 if d == "f16" else 4
            opcode = f"mma.sp::ordered_metadata.sync.aligned.m16n8k{k}.row.col.{d}.{a}.{a}.{d}"
            yield Form(opcode, (16 * k * _SIZES[a] // 2048, 8 * k * _SIZES[a] // 1024, c), (a, a, d), 0, ", e0, 0x0")


def _block_scaled_forms() -> Iterator[Form]:
    """Forms of sm_120a: types of 4, 6 and 8 bits, and scale factors."""
    scaled = ", {e0}, {0, 0}, {e1}, {0, 0}"
    opcode = "mma.sync.aligned.m16n8k{}.row.col.kind::{}.{}.{}.{}.{}"
    for a, b in product(_FLOAT8, repeat=2):
        yield Form(opcode.format(32, "f8f6f4", "f32", a, b, "f32"), (4, 2, 4), (a, b, "f32"), 0)
        name = opcode.format(32, "mxf8f6f4.block_scale", "f32", a, b, "f32.ue8m0")
        yield Form(name, (4, 2, 4), (a, b, "f32"), 0, scaled, "ue8m0")
        if a == b:
            yield Form(opcode.format(32, "f8f6f4", "f16", a, b, "f16"), (4, 2, 2), (a, b, "f16"), 0)
    for kind, scale in (
        ("mxf4.block_scale", "ue8m0"),
        ("mxf4nvf4.block_scale.scale_vec::2X", "ue8m0"),
        ("mxf4nvf4.block_scale.scale_vec::4X", "ue4m3"),
    ):
        name = opcode.format(64, kind, "f32", "e2m1", "e2m1", f"f32.{scale}")
        yield Form(name, (4, 2, 4), ("e2m1", "e2m1", "f32"), 0, scaled, scale)


def packed(fmt: str, kind: str, count: int, style: int, negated: bool, *seed: int) -> NDArray[np.uint32]:
    """Registers of an operand: codes of a type in containers of a kind of multiplication."""
    if fmt not in FORMATS or fmt in ("s32",):
        return random_words(count, style, *fmt.encode(), *seed).astype(np.uint32)
    bits = FORMATS[fmt].bits
    narrow = bits < 8 and "mxf4" not in kind.replace("mxf8f6f4", "")
    per_word = 32 // (8 if narrow else bits)
    found = codes(fmt, count * per_word, style, negated, *seed)
    if narrow and bits == 4:
        # Four bits stand in the middle of a byte.
        found = found << np.uint8(2)
    if bits == 4 and not narrow:
        found = found[::2] | found[1::2] << np.uint8(4)
    return np.ascontiguousarray(found).view(np.uint32)


def mma_cases(target: str) -> Iterator[Case]:
    """Every form that the target has; each warp has numbers of another style."""
    found = [form for form in forms() if form.opcode.startswith("mma")] + list(_sparse_forms())
    if target.startswith("sm_12"):
        found += _block_scaled_forms()
    for form in found:
        inputs = []
        for which, name in enumerate("abc"):
            count = form.counts[which]
            parts = [packed(form.types[which], form.opcode, 32 * count, cta % len(STYLES), name == "a", which, cta) for cta in range(CASES)]
            inputs.append(Array(name.upper(), np.stack(parts).reshape(CASES, count, 32), ("CTA", "register", "lane")))
        if form.more:
            inputs.append(_more(form))
        out = Array.zeros("D", (CASES, form.counts[2], 32), ("CTA", "register", "lane"))
        yield Case(form.opcode, module(form, target, head(target)), CASES, 32, tuple(inputs), (out,), (form.opcode,))


def _more(form: Form) -> Array:
    """Metadata or scale factors: two registers of each thread."""
    if form.scale:
        parts = [codes(form.scale, 256, cta % len(STYLES), False, cta).view(np.uint32) for cta in range(CASES)]
        return Array("scales", np.stack(parts).reshape(CASES, 2, 32), ("CTA", "register", "lane"))
    return Array("metadata", metadata_words(form.types[0], 64 * CASES).reshape(CASES, 2, 32), ("CTA", "register", "lane"))


def metadata_words(fmt: str, count: int) -> NDArray[np.uint32]:
    """Words of which every four bits are the metadata of a chunk."""
    legal = np.array((4, 14) if fmt == "tf32" else (4, 8, 9, 12, 13, 14), np.uint32)
    chosen = legal[(random_words(8 * count, 3, *fmt.encode()) >> np.uint64(20)).astype(np.int64) % len(legal)].reshape(count, 8)
    return np.asarray((chosen << np.arange(0, 32, 4, dtype=np.uint32)).sum(axis=1, dtype=np.uint32))


def words(form: Form, which: int) -> NDArray[np.uint32]:
    """The registers of an operand, uint32[case, register, lane]: wild bits, moderate numbers, and both."""
    count = CASES * form.counts[which] * 32
    raw = np.random.PCG64([form.seed, which]).random_raw(max(count, 1))[:count]
    low, high = (raw & np.uint64(0xFFFFFFFF)).astype(np.uint32), (raw >> np.uint64(32)).astype(np.uint32)
    wild = low.reshape(CASES, form.counts[which], 32)
    keep, put = _MODERATE.get(form.types[which], (0xFFFFFFFF, 0))
    moderate = wild & np.uint32(keep) | np.uint32(put)
    some = (high.reshape(wild.shape) & np.uint32(31)) == 0
    kind = np.arange(CASES)[:, None, None] % 3
    return np.where((kind == 0) | ((kind == 2) & some), wild, moderate)


def module(form: Form, target: str, first: str = "") -> str:
    """A kernel that gives each warp its registers and stores what comes out; ``first``: the first lines, with another version."""
    a, b, c = form.counts
    moves = form.opcode.startswith("movmatrix")
    results = 1 if moves else c

    def access(name: str, count: int, instruction: str) -> str:
        lines = [f"ld.param.u64 p, [{name}];", f"mad.wide.u32 p, w, {count * 128}, p;", "mad.wide.u32 p, l, 4, p;"]
        order = "{r}, [p+{o}]" if instruction == "ld" else "[p+{o}], {r}"
        return "\n".join(lines + [f"{instruction}.global.b32 " + order.format(r=f"{name}{i}", o=128 * i) + ";" for i in range(count)])

    def vector(name: str, count: int) -> str:
        return "{" + ", ".join(f"{name}{i}" for i in range(count)) + "}"

    operands = "d0, a0" if moves else ", ".join(vector(n, k) for n, k in (("d", c), ("a", a), ("b", b), ("c", c)))
    operands += form.more
    kind = "f32" if form.types[2] == "f32" else "b32"
    first = first or f"\n.version 8.7\n.target {target}\n.address_size 64\n"
    return f"""{first}.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, {".param .u64 e, " if form.more else ""}.param .u64 d)
{{
.reg .b32 w, l, a<5>, b<5>, e<2>;
.reg .{kind} c<5>, d<5>;
.reg .b64 p;
mov.u32 w, %ctaid.x;
mov.u32 l, %tid.x;
{access("a", a, "ld")}
{access("b", b, "ld") if b else ""}
{access("c", c, "ld") if c else ""}
{access("e", 2, "ld") if form.more else ""}
{form.opcode} {operands};
{access("d", results, "st")}
ret;
}}
"""
