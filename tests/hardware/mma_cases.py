"""mma.sync forms, kernels around them, and inputs that every machine makes alike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CASES = 12
"""Warps of a form; each has its own inputs."""


@dataclass(frozen=True)
class Form:
    """One opcode; registers of a thread for A, B, C and D; how moderate elements are made of random words (kept bits, set bits)."""

    opcode: str
    counts: tuple[int, int, int]
    types: tuple[str, str, str]
    seed: int


_SIZES = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1}
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


def module(form: Form, target: str) -> str:
    """A kernel that gives each warp its registers and stores what comes out."""
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
    kind = "f32" if form.types[2] == "f32" else "b32"
    return f"""
.version 8.7
.target {target}
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d)
{{
.reg .b32 w, l, a<5>, b<5>;
.reg .{kind} c<5>, d<5>;
.reg .b64 p;
mov.u32 w, %ctaid.x;
mov.u32 l, %tid.x;
{access("a", a, "ld")}
{access("b", b, "ld") if b else ""}
{access("c", c, "ld") if c else ""}
{form.opcode} {operands};
{access("d", results, "st")}
ret;
}}
"""
