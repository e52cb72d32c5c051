"""tcgen05.ld, st, cp and shift: what moves where. Words name their lane and column, so that a difference says which one moved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from ptxlab.descriptors import SharedMemoryDescriptor
from ptxlab.layout import copy_destination
from ptxlab.silicon._case import Array, Case, constants, head, random_words
from ptxlab.silicon.parts._tensor_frame import FRAME, WORDS, frame
from ptxlab.tables import LOAD_REGISTERS, SWIZZLES

__all__ = ["tensor_memory"]

_WIDTH = {"32x32b": 1, "16x64b": 2, "16x128b": 4, "16x256b": 8, "16x32bx2": 1}
"""Shape -> columns of x1."""
_HALVES = 136
"""Columns between the halves of 16x32bx2."""
_ASIDE = 288
"""The column where registers are put, or taken from, beside the columns that an instruction uses."""


def _named(columns: int) -> NDArray[np.uint32]:
    """Words [column, lane] that differ in each half: lane and column, and their complement."""
    name = (np.arange(128, dtype=np.uint32)[None] << np.uint32(9)) | np.arange(columns, dtype=np.uint32)[:, None]
    return np.asarray(name | (~name & np.uint32(0xFFFF)) << np.uint32(16), np.uint32)


def _forms(instruction: str) -> Iterator[tuple[str, str, int, int]]:
    """Opcode, what stands before the registers, registers, and columns that are touched."""
    change = ".pack::16b" if instruction == "ld" else ".unpack::16b"
    for (shape, num), packed in product(LOAD_REGISTERS, (False, True)):
        count = LOAD_REGISTERS[shape, num]
        width = _WIDTH[shape] * num * (1 + packed)
        halves = shape == "16x32bx2"
        if width <= 64 or (_WIDTH[shape] == 1 and not packed):
            opcode = f"tcgen05.{instruction}.sync.aligned.{shape}.x{num}{change * packed}.b32"
            yield opcode, f", {_HALVES}" if halves else "", count, width + _HALVES * halves


def _vector(count: int) -> str:
    return "{" + ", ".join(f"r{i}" for i in range(count)) + "}"


def _case(
    name: str,
    opcodes: Sequence[str],
    lines: Sequence[str],
    target: str,
    *,
    stored: int,
    read: int,
    first_read: int = 0,
    words: dict[str, int] | None = None,
    image: int = 0,
    group: int = 1,
) -> Case:
    text = frame(
        head(target),
        lines,
        group=group,
        image=image,
        stored=stored,
        read=read,
        first_read=first_read,
        allocated=512,
        every_thread=words is None,
    )
    given = words or {}
    inputs = (
        Array("shared memory", random_words(group * max(image // 8, 2), image).view(np.uint32).reshape(group, -1), ("CTA", "word")),
        Array(", ".join(WORDS), constants([[given.get(name, 0) for name in WORDS]] * group), ("CTA", "operand")),
        Array(
            "tensor memory before", np.stack([_named(stored) ^ np.uint32(rank << 31) for rank in range(group)]), ("CTA", "column", "lane")
        ),
    )
    out = Array.zeros("tensor memory after", (group, read, 128), ("CTA", "column", "lane"))
    return Case(name, text, group, 128, inputs, (out,), (*opcodes, *(opcode.format(group) for opcode in FRAME)))


def tensor_memory(target: str) -> Iterator[Case]:
    """Every shape of ld and st, packed and not; every cp with each swizzling mode that fits; shift."""
    for opcode, halves, count, width in _forms("ld"):
        aside = f"tcgen05.st.sync.aligned.32x32b.x{count}.b32 [at], {_vector(count)};"
        lines = [
            "{", f".reg .b32 r<{count}>;", "add.u32 at, taddr, 3;", f"{opcode} {_vector(count)}, [at]{halves};",
            "tcgen05.wait::ld.sync.aligned;", f"add.u32 at, taddr, {_ASIDE + 4};", aside, "tcgen05.wait::st.sync.aligned;", "}",
        ]  # fmt: skip
        yield _case(opcode, (opcode,), lines, target, stored=width + 8, read=count, first_read=_ASIDE + 4)
    for opcode, halves, count, width in _forms("st"):
        aside = f"tcgen05.ld.sync.aligned.32x32b.x{count}.b32 {_vector(count)}, [at];"
        lines = [
            "{", f".reg .b32 r<{count}>;", f"add.u32 at, taddr, {width + 8};", aside, "tcgen05.wait::ld.sync.aligned;",
            "add.u32 at, taddr, 3;", f"{opcode} [at]{halves}, {_vector(count)};", "tcgen05.wait::st.sync.aligned;", "}",
        ]  # fmt: skip
        yield _case(opcode, (opcode,), lines, target, stored=width + 8 + count, read=width + 8)
    yield from _copies(target)
    for group in (1, 2):
        opcode = f"tcgen05.shift.cta_group::{group}.down"
        yield _case(opcode, (opcode,), [f"{opcode} [da];"], target, stored=16, read=16, words={"da": 4}, group=group)
    if target != "sm_100a":
        yield from _reductions(target)


def _copies(target: str) -> Iterator[Case]:
    shapes = ("128x256b", "4x256b", "128x128b", "64x128b.warpx2::02_13", "64x128b.warpx2::01_23", "32x128b.warpx4")
    sources = ("", ".b8x16.b6x16_p32", ".b8x16.b4x16_p64")
    for shape, source, swizzle, group in product(shapes, sources, ("none", "32B", "128B"), (1, 2)):
        to = copy_destination(*(shape.split(".") if "." in shape else (shape, "")))
        rows, width = len(to.lanes), SWIZZLES[swizzle].width
        if swizzle != "none" and width < 4 * to.columns:
            continue
        leading, stride = (rows * 16, 128) if swizzle == "none" else (16, 8 * width)
        descriptor = SharedMemoryDescriptor(start=1024, leading=leading, stride=stride, swizzle=swizzle)
        opcode = f"tcgen05.cp.cta_group::{group}.{shape}{source}"
        line = f"{opcode} [da], ad;"
        words = {"ad": int(descriptor), "da": 2}
        yield _case(f"{opcode}, swizzle {swizzle}", (opcode,), [line], target, stored=16, read=16, words=words, image=1 << 15, group=group)


def _reductions(target: str) -> Iterator[Case]:
    for operation, kind, more in product(("min", "max"), ("u32", "s32", "f32"), ("", ".abs", ".NaN", ".abs.NaN")):
        if more and kind != "f32":
            continue
        opcode = f"tcgen05.ld.red.sync.aligned.32x32b.x8.{operation}{more}.{kind}"
        lines = [
            "{", ".reg .b32 r<8>, red;", f"{opcode} {_vector(8)}, red, [taddr];", "tcgen05.wait::ld.sync.aligned;",
            f"add.u32 at, taddr, {_ASIDE};", "tcgen05.st.sync.aligned.32x32b.x1.b32 [at], {red};",
            "tcgen05.wait::st.sync.aligned;", "}",
        ]  # fmt: skip
        yield _case(opcode, (opcode,), lines, target, stored=8, read=1, first_read=_ASIDE)
