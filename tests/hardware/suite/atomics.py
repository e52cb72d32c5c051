"""atom and red: every operation and type in every state space, orders and scopes, vectors; exact operations of competing threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from tests.hardware.scalar_inputs import CASES, SPECIAL, inputs
from tests.hardware.suite._kernel import Kernel, at, entry, words

BITS = {"u32": 32, "s32": 32, "b32": 32, "u64": 64, "s64": 64, "b64": 64, "f32": 32, "f64": 64, "b16": 16, "b128": 128}
BITS |= {"f16": 16, "bf16": 16, "f16x2": 32, "bf16x2": 32}
REGISTER = {16: "%h", 32: "%r", 64: "%d", 128: "%q"}

SCALAR = {
    "add": ("u32", "s32", "u64", "f32", "f64", "f16", "f16x2", "bf16", "bf16x2"),
    "min": ("u32", "s32", "u64", "s64"),
    "max": ("u32", "s32", "u64", "s64"),
    "inc": ("u32",),
    "dec": ("u32",),
    "and": ("b32", "b64"),
    "or": ("b32", "b64"),
    "xor": ("b32", "b64"),
    "exch": ("b32", "b64", "b128"),
    "cas": ("b16", "b32", "b64", "b128"),
}
VECTOR = {"f32": (2, 4), "f16": (2, 4, 8), "bf16": (2, 4, 8), "f16x2": (2, 4), "bf16x2": (2, 4)}
SPACES = ("global", "shared", "shared::cluster", "")
"""The state spaces; without one the address is generic."""


def _values(kind: str, seed: int) -> np.ndarray:
    """CASES elements: special values against each other, ordinary ones, random bits."""
    bits = BITS[kind]
    if bits == 128:
        return words(seed, 2 * CASES, np.uint64).reshape(CASES, 2)
    known = {"b16": "u16"}.get(kind, kind)
    return inputs(known, seed).astype(f"u{bits // 8}")


def _every_pair(kind: str, seed: int) -> np.ndarray:
    """All special values (seed 0) against all (seed 1)."""
    special = np.array(SPECIAL[kind], np.uint64)
    grid = np.resize(np.repeat(special, len(special)) if seed else np.tile(special, len(special)), CASES)
    return grid.astype(f"u{BITS[kind] // 8}")


Draw = Callable[[str, int], np.ndarray]


def _operation(op: str, kind: str, vector: int = 0) -> str:
    flush = ".noftz" if "f16" in kind else ""
    return f".{op}{flush}{f'.v{vector}' if vector else ''}.{kind}"


def _group(register: str, first: int, count: int) -> str:
    return "{" + ", ".join(f"{register}{first + i}" for i in range(count)) + "}" if count > 1 else f"{register}{first}"


def _single(name: str, opcode: str, space: str, kind: str, count: int = 1, compare: bool = False, draw: Draw = _values) -> Kernel:
    """Each thread works on a place of its own; the places afterwards, and the values that were there."""
    bits = BITS[kind]
    size, register = bits // 8, REGISTER[bits]
    whole = size * count
    returns = opcode.startswith("atom")
    move = f"v{count}.b{bits}" if 1 < count <= 4 and whole <= 16 else f"b{bits}"

    def access(instruction: str, where: str, first: int) -> str:
        if move.startswith("v"):
            items = _group(register, first, count)
            return f"{instruction}.{move} " + (f"{items}, [{where}];" if instruction[:2] == "ld" else f"[{where}], {items};")
        lines = []
        for i in range(count):
            place = f"[{where}+{i * size}]"
            lines.append(
                f"{instruction}.{move} "
                + (f"{register}{first + i}, {place};" if instruction[:2] == "ld" else f"{place}, {register}{first + i};")
            )
        return "\n".join(lines)

    shared = space.startswith("shared")
    into = access("ld.global", "%d30", 0) + access("st.shared", "%r40", 0) if shared else ""
    back = access("ld.shared", "%r40", 0) + access("st.global", "%d30", 0) if shared else ""
    place = {"global": "%d30", "": "%d30", "shared": "%r40", "shared::cluster": "%r41"}[space]
    target = ""
    if space == "shared::cluster":
        target = "xor.b32 %r42, %rank, 1; mapa.shared::cluster.u32 %r41, %r40, %r42;"
    operands = [f"[{place}]", *([_group(register, 24, count)] if compare else []), _group(register, 8, count)]
    if returns:
        operands.insert(0, _group(register, 16, count))
    meet = "barrier.cluster.arrive; barrier.cluster.wait;" if space == "shared::cluster" else "bar.sync 0;"
    body = f"""
{at("%d30", "%mem", whole)}
{at("%d31", "%value", whole)}
{access("ld.global", "%d31", 8)}
{at("%d32", "%compare", whole) if compare else ""}
{access("ld.global", "%d32", 24) if compare else ""}
{f"mad.lo.u32 %r40, %t, {whole}, %s;" if shared else ""}
{into}
{target}
{meet}
{opcode} {", ".join(operands)};
{meet}
{back}
{at("%d33", "%old", whole) if returns else ""}
{access("st.global", "%d33", 16) if returns else ""}
"""
    threads = 256 if space == "shared::cluster" else 512
    threads //= count
    parameters = "mem value" + (" compare" if compare else "") + (" old" if returns else "")
    # b128 registers: %q0..3 are too few for the numbers above
    if bits == 128:
        for number, other in ((24, 3), (16, 2), (8, 1)):
            body = body.replace(f"%q{number}", f"%q{other}")
    mem, value = draw(kind, 0), draw(kind, 1)
    args = [mem, value]
    if compare:
        expected = mem.copy()
        expected[1::2] = _values(kind, 2)[1::2]
        args.append(expected)
    if returns:
        args.append(np.zeros_like(mem))
    text = entry(name, parameters, body, cluster=(2,) if space == "shared::cluster" else (), shared=threads * whole if shared else 0)
    return Kernel(name, text, tuple(args), grid=CASES // threads // count, block=threads, results=(0, -1) if returns else (0,))


def every_operation() -> Iterator[Kernel]:
    for op, kinds in SCALAR.items():
        for kind in kinds:
            for space in SPACES:
                dotted = f".{space}" if space else ""
                name = f"{op}.{kind}.{space or 'generic'}"
                yield _single(f"atom.{name}", f"atom{dotted}{_operation(op, kind)}", space, kind, compare=op == "cas")
                if op not in ("exch", "cas"):
                    yield _single(f"red.{name}", f"red{dotted}{_operation(op, kind)}", space, kind)


def special_values() -> Iterator[Kernel]:
    for kind in ("f16", "bf16", "f64"):
        for space in SPACES:
            opcode = f"atom{f'.{space}' if space else ''}{_operation('add', kind)}"
            yield _single(f"special.add.{kind}.{space or 'generic'}", opcode, space, kind, draw=_every_pair)


def vectors() -> Iterator[Kernel]:
    for kind, counts in VECTOR.items():
        for count in counts:
            for op in ("add",) if kind == "f32" else ("add", "min", "max"):
                for instruction in ("atom", "red"):
                    opcode = f"{instruction}.global{_operation(op, kind, count)}"
                    yield _single(opcode, opcode, "global", kind, count)


def orders() -> Iterator[Kernel]:
    for order in ("relaxed", "acquire", "release", "acq_rel"):
        for scope in ("cta", "cluster", "gpu", "sys"):
            for op, kind, space in (("add", "u32", "global"), ("cas", "b64", "shared"), ("exch", "b32", "")):
                dotted = f".{space}" if space else ""
                name = f"atom.{order}.{scope}.{op}.{kind}.{space or 'generic'}"
                yield _single(name, f"atom.{order}.{scope}{dotted}.{op}.{kind}", space, kind, compare=op == "cas")
            if order in ("relaxed", "release"):
                yield _single(f"red.{order}.{scope}.add.u64", f"red.{order}.{scope}.global.add.u64", "global", "u64")


CROWD = 7
"""Places that all threads compete for."""


def _crowded(name: str, kind: str, op: str, space: str) -> Kernel:
    """256 threads of each CTA on CROWD places; only what does not depend on their order is shown."""
    bits = BITS[kind]
    size, register = bits // 8, REGISTER[bits]
    body = f"""
{at("%d30", "%value", size)}
ld.global.b{bits} {register}1, [%d30];
rem.u32 %r40, %t, {CROWD};
"""
    if space == "shared":
        body += f"""
mad.lo.u32 %r41, %r40, {size}, %s;
setp.lt.u32 %p1, %t, {CROWD};
{at("%d31", "%mem", size, "%r40")}
@%p1 ld.global.b{bits} {register}2, [%d31];
@%p1 st.shared.b{bits} [%r41], {register}2;
bar.sync 0;
red.shared{_operation(op, kind)} [%r41], {register}1;
bar.sync 0;
@%p1 ld.shared.b{bits} {register}2, [%r41];
mad.lo.u32 %r40, %cta, {CROWD}, %r40;
{at("%d31", "%out", size, "%r40")}
@%p1 st.global.b{bits} [%d31], {register}2;
"""
        results = np.zeros(4 * CROWD, f"u{size}")
        args = (_values(kind, 5)[:CROWD].copy(), np.tile(_values(kind, 6), 2), results)
        return Kernel(name, entry(name, "mem value out", body, shared=CROWD * size), args, grid=4, block=256)
    body += f"""
{at("%d31", "%mem", size, "%r40")}
red.global{_operation(op, kind)} [%d31], {register}1;
"""
    args = (_values(kind, 5)[:CROWD].copy(), np.tile(_values(kind, 6), 2))
    return Kernel(name, entry(name, "mem value", body), args, grid=4, block=256, results=(0,))


def crowds() -> Iterator[Kernel]:
    for op, kinds in SCALAR.items():
        for kind in kinds:
            if kind[1:].isdigit() and kind[0] in "usb" and op not in ("inc", "dec", "exch", "cas"):
                yield from (_crowded(f"crowd.{op}.{kind}.{space}", kind, op, space) for space in ("global", "shared"))
    yield from tickets()


def tickets() -> Iterator[Kernel]:
    """Each thread draws a number and marks it: all numbers are drawn, each once; inc and dec wrap round. And a lock."""
    for name, limit in (("add.u32", 1), ("inc.u32", 511), ("dec.u32", 511)):
        body = f"""
atom.global.{name} %r1, [%mem], {limit};
and.b32 %r1, %r1, 1023;
{at("%d30", "%out", 4, "%r1")}
red.global.add.u32 [%d30], 1;
"""
        args = (np.zeros(1, np.uint32), np.zeros(1024, np.uint32))
        full = f"ticket.{name}"
        yield Kernel(full, entry(full, "mem out", body), args, grid=4, block=256, results=(0, 1))
    body = f"""
{at("%d30", "%value", 4)}
ld.global.b32 %r1, [%d30];
TRY:
atom.acquire.gpu.global.cas.b32 %r2, [%lock], 0, 1;
setp.ne.u32 %p1, %r2, 0;
@%p1 bra TRY;
ld.relaxed.gpu.global.b32 %r3, [%mem];
mad.lo.u32 %r3, %r1, 3, %r3;
st.relaxed.gpu.global.b32 [%mem], %r3;
st.release.gpu.global.b32 [%lock], 0;
"""
    args = (np.zeros(1, np.uint32), np.array([5], np.uint32), words(77, 128))
    yield Kernel("ticket.lock", entry("ticket.lock", "lock mem value", body), args, grid=128, block=1, results=(0, 1))


def kernels() -> list[Kernel]:
    return [*every_operation(), *special_values(), *vectors(), *orders(), *crowds()]
