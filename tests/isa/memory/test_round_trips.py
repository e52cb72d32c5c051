"""Loads and stores of every type and vector in every state space: what arrives is what stands in an array."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

import ptxlab
from tests.isa.test_opcodes import OPCODES
from tests.sweep_helpers import one_in

SHOWS = {
    "test_load": ("ld{*",),
    "test_store": ("st{*",),
}

THREADS = 32
ROOM = 32
"""Bytes of each thread."""
WIDTHS = {f"{letter}{width}": width for letter, width in product("bus", (8, 16, 32, 64))} | {"f32": 32, "f64": 64, "b128": 128}
VECTORS = {"": 1, "v2": 2, "v4": 4, "v8": 8}
SPACES = ("", "global", "shared", "shared::cta", "local", "param")
FORMS = [f"{v}.{t}".lstrip(".") for v, t in product(VECTORS, WIDTHS) if VECTORS[v] * WIDTHS[t] <= 128]
FORMS = [form for form in FORMS if not form.startswith("v8")]
WIDE = [f"{v}.{t}" for v, width in (("v8", 32), ("v4", 64)) for t in WIDTHS if WIDTHS[t] == width]
"""256 bits: of global memory only."""
HINTED = [f"{hint}.{form}" for hint in ("L1::no_allocate", "L1::evict_last") for form in ("u16", "v4.b32", *WIDE)]
ORDERED = [f"{order}.global.{form}" for order in ("volatile", "relaxed.cta", "relaxed.sys") for form in ("b8", "u16", "b32", "v2.b32")]


def spellings(base: str) -> list[str]:
    """What is swept, and what real kernels have."""
    found = [f"{base}.{space}.{form}".replace("..", ".") for space in SPACES for form in FORMS]
    found += [f"{base}.global.{form}" for form in WIDE + HINTED] + [f"{base}.{form}" for form in ORDERED]
    return list(dict.fromkeys(found + [opcode for opcode in OPCODES if opcode.startswith(f"{base}.")]))


LOADS = spellings("ld") + [f"ld.global.{p}.{form}" for p in ("L2::64B", "L2::256B") for form in ("b8", "v4.b32")]
STORES = spellings("st")


class Access:
    """One opcode in parts: state space, elements, and what the registers of a thread hold of them."""

    def __init__(self, opcode: str) -> None:
        self.opcode, words = opcode, opcode.split(".")
        self.type = words[-1]
        self.space = next((word for word in words if word in SPACES), "")
        vector = next((word for word in words if word in VECTORS), "")
        self.count, self.width = VECTORS[vector], WIDTHS[self.type]
        self.held = max(self.width, 32)
        self.names = [f"a{i}" for i in range(self.count)]
        self.operand = f"{{{', '.join(self.names)}}}" if vector else "a0"

    @property
    def size(self) -> int:
        return self.count * self.width // 8

    def registers(self, move: str) -> str:
        """Move the registers between the thread's bytes of an array and themselves: ``ld.global`` or ``st.global``."""
        step = self.held // 8
        places = [f"[x+{i * step}]" if move == "ld.global" else f"[y+{i * step}]" for i in range(self.count)]
        pairs = [(name, place) if move == "ld.global" else (place, name) for name, place in zip(self.names, places, strict=True)]
        return "".join(f"{move}.b{self.held} {first}, {second};\n" for first, second in pairs)

    def kernel(self, body: str) -> ptxlab.Kernel:
        """``x`` and ``y`` are the addresses of a thread's bytes of two arrays, ``place`` of what the access reaches."""
        address = {"": "w", "global": "w", "param": "given"}.get(self.space, "m")
        room = f".{self.space.split('::')[0]} .align 32 .b8 room[{THREADS * ROOM}];" if address == "m" else ".reg .b32 room;"
        addresses = "".join(f"ld.param.u64 {a}, [p{a}]; mad.wide.u32 {a}, t, {ROOM}, {a};\n" for a in "xyw")
        own = "mov.u32 r, room; mad.lo.u32 m, t, 32, r;\n" if address == "m" else ""
        return ptxlab.loads(
            f".version 8.8\n.target sm_100a\n.address_size 64\n"
            f".func take(.param .align 32 .b8 part[{ROOM}], .param .b64 to)\n{{\n.reg .b64 y; .reg .b16 byte; ld.param.b64 y, [to];\n"
            f"{self.bytes('param', 'part', 'global', 'y')}ret;\n}}\n"
            f".visible .entry k(.param .u64 px, .param .u64 py, .param .u64 pw, .param .align 32 .b8 given[{ROOM}])\n{{\n"
            f".reg .b64 x, y, w; .reg .b32 t, r, m; .reg .b16 byte; .reg .b{self.held} {', '.join(self.names)}; {room}\n"
            f"mov.u32 t, %tid.x;\n{addresses}{own}{body.replace('PLACE', address)}ret;\n}}\n"
        ).kernel()

    def bytes(self, from_space: str, source: str, to_space: str, target: str) -> str:
        """Copy the bytes of the access one by one."""
        spaces = [f".{space}" if space else "" for space in (from_space, to_space)]
        return "".join(f"ld{spaces[0]}.u8 byte, [{source}+{i}]; st{spaces[1]}.u8 [{target}+{i}], byte;\n" for i in range(self.size))

    def elements(self, words: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The registers that hold these bytes, wider if they are narrow, with the sign where the type has one."""
        if self.width >= 32:
            return words[:, : self.size]
        kind = "i" if self.type[0] == "s" else "u"
        narrow = np.ascontiguousarray(words[:, : self.size]).view(f"{kind}{self.width // 8}")
        return narrow.astype(f"{kind}4").view(np.uint8)

    def low_bytes(self, words: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """What a store writes of registers that stand in these bytes."""
        step = self.held // 8
        return words[:, : self.count * step].reshape(THREADS, self.count, step)[:, :, : self.width // 8].reshape(THREADS, -1)


def run(kernel: ptxlab.Kernel, x: NDArray[np.uint8], w: NDArray[np.uint8], given: bytes) -> NDArray[np.uint8]:
    y = np.zeros_like(x)
    kernel.launch(grid=1, block=THREADS, args=[x, y, w, given], check="memory").raise_for_errors()
    return y


def random_bytes(seed: int) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (THREADS, ROOM), np.uint8)


@pytest.mark.parametrize("opcode", one_in(5, LOADS))
def test_load(opcode: str) -> None:
    """The bytes are brought there one by one, or are there from the start; the registers come back."""
    access, x = Access(opcode), random_bytes(1)
    bring = "" if access.space == "param" else access.bytes("global", "x", access.space, "PLACE")
    found = run(
        access.kernel(f"{bring}{opcode} {access.operand}, [PLACE];\n{access.registers('st.global')}"), x, np.zeros_like(x), x[5].tobytes()
    )
    want = access.elements(np.repeat(x[5:6], THREADS, axis=0) if access.space == "param" else x)
    assert np.array_equal(found[:, : want.shape[1]], want)
    assert not found[:, want.shape[1] :].any()


@pytest.mark.parametrize("opcode", one_in(5, STORES))
def test_store(opcode: str) -> None:
    """Registers are stored; the bytes are fetched one by one, those of a parameter by the function that is called."""
    access, x = Access(opcode), random_bytes(2)
    if access.space == "param":
        store = f"{{\n.param .align 32 .b8 part[{ROOM}]; .param .b64 to; st.param.b64 [to], y;\n{opcode} [part], {access.operand};\n"
        body = f"{store}call.uni take, (part, to);\n}}\n"
    else:
        body = f"{opcode} [PLACE], {access.operand};\n{access.bytes(access.space, 'PLACE', 'global', 'y')}"
    found = run(access.kernel(access.registers("ld.global") + body), x, np.zeros_like(x), bytes(ROOM))
    want = access.low_bytes(x)
    assert np.array_equal(found[:, : want.shape[1]], want)
    assert not found[:, want.shape[1] :].any()
