"""Products whose A of 4- or 6-bit elements is in tensor memory: expanded by tcgen05.cp, or stored by threads as bytes; and mistakes."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

import ptxlab
from ptxlab.descriptors import InstructionDescriptor
from ptxlab.engine import Executable
from ptxlab.formats import decode, pack

from . import tensor_kernels, word_kernels
from .byte_tile_kernels import join

KIND = "f8f6f4"
BITS = {"e2m1": 4, "e3m2": 6, "e2m3": 6}
SOURCES = {4: "b8x16.b4x16_p64", 6: "b8x16.b6x16_p32"}
K = 128
COLUMNS = 64
"""The first column of A, behind D."""
_COPY = "cp.async.cg.shared.global [%r13], [%rd1], 16;\n    add.u64 %rd1, %rd1, 16;"
_WAIT = "    @!%p2 bra WAIT;"

_ISSUE = """    bar.sync 0;
    mov.b64 %rd1, map;
    cvta.param.u64 %rd1, %rd1;
    @%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], {};
    @%p2 cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r2], [%rd1, {{0, 0}}], [%r5];
COPIED:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r5], 0;
    @!%p3 bra COPIED;
"""


def instruction(element: str, **fields: Any) -> str:
    """The instruction descriptor, as a constant."""
    return hex(int(replace(InstructionDescriptor.decode(0, KIND), **{"m": 128, "n": 64, "d": "f32", "a": element, "b": element, **fields})))


def _copies(bits: int, pitch: int) -> dict[str, str]:
    """Threads copy packed rows to slots with padding."""
    words = "\n    ".join(f"cp.async.ca.shared.global [%r13+{at}], [%rd1+{at}], 4;" for at in range(0, 2 * bits, 4))
    each = f"{words}\n    add.u64 %rd1, %rd1, {2 * bits};"
    return {_COPY: each, "mul.wide.u32 %rd2, %r1, 256;": f"mul.wide.u32 %rd2, %r1, {pitch};"}


def expansion(element: str, step: int = 2, first: int = 0, form: str = "", descriptor: str = "%rd10") -> str:
    """tcgen05.cp expands A to tensor memory; ``step`` is by how many 16 bytes the source advances."""
    return "".join(
        f"    add.u32 %r25, %r4, {COLUMNS + 8 * i};\n    add.u64 %rd15, {descriptor}, {step * i + first};\n"
        f"    @%p2 tcgen05.cp.cta_group::1.128x256b.{form or SOURCES[BITS[element]]} [%r25], %rd15;\n"
        for i in range(K // 32)
    )


def expanded(element: str, padded: bool = False) -> str:
    """A and B are the same rows in shared memory; ``padded``: global memory has them in slots with padding, too."""
    bits = BITS[element]
    text = word_kernels.TEXT
    for right, instead in _copies(bits, K if padded else K * bits // 8).items():
        text = text.replace(right, instead)
    if padded:
        text = text.replace(f"add.u64 %rd1, %rd1, {2 * bits};", "add.u64 %rd1, %rd1, 16;")
    return _in_tensor_memory(text, element).replace(_WAIT, expansion(element) + _WAIT)


PADDINGS = ("none", "left out", "copied")


def in_shared_memory(element: str, padding: str) -> str:
    """A and B are read from slots of shared memory; ``padding`` says which padding is in global memory, and whether it is copied too."""
    bits, text = BITS[element], word_kernels.TEXT
    if padding == "copied":
        text = text.replace("mul.wide.u32 %rd2, %r1, 256;", f"mul.wide.u32 %rd2, %r1, {K};")
    else:
        for right, instead in _copies(bits, K * bits // 8 if padding == "none" else K).items():
            text = text.replace(right, instead)
    if padding == "left out":
        text = text.replace(f"add.u64 %rd1, %rd1, {2 * bits};", "add.u64 %rd1, %rd1, 16;")
    return text.replace("kind::f16", f"kind::{KIND}").replace(word_kernels.INSTRUCTION, instruction(element))


GATHERED = {4: (5, 0, 3, 6, 1, 7, 4, 2), 6: (2, 0, 3, 1)}
"""The order in which a thread takes what stands together of a slot: bytes of two elements, or three bytes of four."""


def gathered(element: str, of_b: tuple[int, ...] = ()) -> str:
    """Threads load bytes of a row, put them together in another order, and store words to slots with padding.

    A and B are the same rows; with an order ``of_b``, those of B stand in a tile of their own.
    """
    bits, text = BITS[element], word_kernels.TEXT
    lines = _gather(bits, GATHERED[bits], 0)
    if of_b:
        lines += _gather(bits, of_b, 128 * K)
        text = text.replace("tile[16384]", "tile[32768]").replace("mov.u64 %rd11, %rd10;", "add.u64 %rd11, %rd10, 1024;")
    lines.append(f"add.u64 %rd1, %rd1, {2 * bits};")
    text = text.replace(_COPY, "\n    ".join(lines)).replace("mul.wide.u32 %rd2, %r1, 256;", f"mul.wide.u32 %rd2, %r1, {K * bits // 8};")
    text = text.replace("cp.async.wait_all;", "").replace(".reg .f32 %f<64>;", ".reg .f32 %f<64>; .reg .b32 %e<16>;")
    return text.replace("kind::f16", f"kind::{KIND}").replace(word_kernels.INSTRUCTION, instruction(element))


def _gather(bits: int, order: tuple[int, ...], offset: int) -> list[str]:
    width = 2 * bits // len(order)
    taken = [width * unit + byte for unit in order for byte in range(width)]
    lines = [f"ld.global.u8 %e{i}, [%rd1+{at}];" for i, at in enumerate(taken)]
    for word in range(len(taken) // 4):
        lines += [join(4 * word, f"%r{20 + word}"), f"st.shared.b32 [%r13+{offset + 4 * word}], %r{20 + word};"]
    return lines


def boxed(element: str) -> str:
    """The same, with rows that a tensor copy brings, which pads the slots."""
    text = word_kernels.TEXT
    begin, end = text.index("    ld.param.u64 %rd1, [a];"), text.index("    fence.proxy.async")
    text = text[:begin] + _ISSUE.format(K * 128 * BITS[element] // 8) + text[end:]
    text = text.replace(".param .u64 a,", ".param .align 64 .b8 map[128],")
    text = text.replace("[%r5], 0;\n    @!%p6", "[%r5], 1;\n    @!%p6")
    return _in_tensor_memory(text, element).replace(_WAIT, expansion(element) + _WAIT)


def _in_tensor_memory(text: str, element: str) -> str:
    return (
        text.replace("tcgen05.mma.cta_group::1.kind::f16 [%r4], %rd10,", f"tcgen05.mma.cta_group::1.kind::{KIND} [%r4], [%r24],")
        .replace(word_kernels.INSTRUCTION, instruction(element))
        .replace(word_kernels.STEP, "add.u32 %r24, %r24, 8;\n    add.u64 %rd11, %rd11, 2;")
        .replace("    mov.u32 %r15, 0;\nSTEP:", f"    add.u32 %r24, %r4, {COLUMNS};\n    mov.u32 %r15, 0;\nSTEP:")
        .replace("[%r3], 64;", "[%r3], 128;")
        .replace("%r4, 64;\n    bar", "%r4, 128;\n    bar")
        .replace("%r4, 64;\n    ret", "%r4, 128;\n    ret")
    )


def stored(element: str) -> str:
    """Threads load A, each element in a byte, and store it to tensor memory."""
    text = tensor_kernels.TEXT
    for right, instead in _copies(BITS[element], K * BITS[element] // 8).items():
        text = text.replace(right, instead)
    return (
        text.replace("kind::f16", f"kind::{KIND}")
        .replace(word_kernels.INSTRUCTION, instruction(element))
        .replace(".param .u64 a,", ".param .u64 bytes, .param .u64 a,")
        .replace("ld.param.u64 %rd13, [a];", "ld.param.u64 %rd13, [bytes];")
        .replace(tensor_kernels.ROW, f"mul.wide.u32 %rd14, %r1, {K};")
    )


def rows(element: str) -> Any:
    """The codes of the elements."""
    return np.random.default_rng(5).integers(0, 1 << BITS[element], (128, K)).astype(np.uint8)


def launch(text: str, element: str, padded: bool = False, backend: str = "llvm", **options: Any) -> tuple[Any, bool]:
    """The result, and whether the product is right."""
    codes = rows(element)
    c = np.zeros((128, 64), np.float32)
    args = [pack(codes, element, "bytes")] if "bytes," in text else []
    kernel = ptxlab.loads(text, file="narrow.ptx").kernel()
    with kernel.replaced(kernel.program, Executable(kernel.program, backend=backend)) if backend != "llvm" else nullcontext():
        packed: Any = pack(codes, element, "padded" if padded else "dense")
        if "map[" in text:
            packed = ptxlab.TensorMap(packed, box=(K, 128), dims=(K, 128), dtype=SOURCES[BITS[element]][6:], swizzle="128B")
        args += [packed, c]
        result = kernel.launch(block=128, args=args, **options)
    wide = decode(codes, element).astype(np.float64)
    return result, bool(np.allclose(c, wide @ wide[:64].T, rtol=1e-3, atol=1e-2))
