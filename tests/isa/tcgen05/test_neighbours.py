"""What lies just outside each row of each table of tcgen05 is refused, with the code and the section of the rule that it breaks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import ptxlab
from ptxlab.descriptors import InstructionDescriptor, SharedMemoryDescriptor, TensorMemoryAddress, ZeroColumnMask, check_fragment, format_of
from ptxlab.machine import KernelError
from ptxlab.tables import (
    LOAD_REGISTERS,
    MMA_KINDS,
    SCALE_IDS,
    SCALE_VECTOR_TYPES,
    SCALE_VECTORS,
    SHAPES,
    SWIZZLES,
    TRANSPOSED_8_BIT_N,
    TYPE_BITS,
    scale_vector_of,
)
from tests.isa.tcgen05.tcgen05_helpers import BASE, IMAGE, execute
from tests.isa.tcgen05.test_mma_forms import type_rows
from tests.sweep_helpers import one_in
from tests.tables.specification_helpers import TYPE_SIZES

OPERAND = SharedMemoryDescriptor(start=BASE, leading=16, stride=1024, swizzle="128B")
SHAPE = 'Matrix Shape, table "Various combinations of .kind and shapes"'
SHARED = 'Shared memory descriptor, table "Shared memory descriptor layout"'
ZERO = 'Zero-Column Mask Descriptor, table "Zero-Column Mask descriptor layout"'
TRANSPOSE = "Transpose and Negate operations, table "
COMBINATIONS = "Valid Combinations of Type-Size, Major-ness and Swizzling"
SCALING = "Valid combinations of scale_vectorsize with types and MMA-Kind"


@dataclass(frozen=True)
class Neighbour:
    """An instruction with operands that are legal but for one thing; ``code`` and ``reason`` of the refusal."""

    name: str
    instruction: str
    code: str
    reason: str
    operands: dict[str, Any] = field(default_factory=dict)
    fault: str = ""
    """Part of the message."""


def opcode(kind: str, ws: bool = False, group: int = 1, sparse: bool = False, vector: str = "") -> str:
    block = ".block_scale" + (f".{vector}" if vector else "") if MMA_KINDS[kind].scale else ""
    factors = "[sa], [sb], " if block else ""
    name = f"tcgen05.mma{'.ws' * ws}{'.sp' * sparse}.cta_group::{group}.kind::{kind}{block}"
    return f"{name} [da], ad, bd, {'[sp], ' * sparse}id, {factors}e"


def vector_of(kind: str, scale: str = "ue8m0") -> str:
    return next((v for v in SCALE_VECTOR_TYPES.get((kind, scale), ()) if v.startswith("block")), "")


def product(
    name: str, code: str, reason: str, i: InstructionDescriptor | int, fault: str = "", *, kind: str = "f16", **more: Any
) -> Neighbour:
    options = {key: more.pop(key) for key in ("ws", "group", "sparse", "vector") if key in more}
    options.setdefault("vector", vector_of(kind))
    operands = {"a": int(OPERAND), "b": int(OPERAND), "idesc": int(i), "group": options.get("group", 1), **more}
    return Neighbour(name, opcode(kind, **options), code, reason, operands, fault)


def descriptor(kind: str, **fields: Any) -> InstructionDescriptor:
    a, b, d = type_rows(kind)[0]
    return InstructionDescriptor(**{"kind": kind, "m": 128, "n": 64, "a": a, "b": b, "d": d, **fields})


def shapes() -> Iterator[Neighbour]:
    """M and N next to those of each line of the table, as far as the descriptor can say them."""
    for (kind, ws, group, sparse), row in SHAPES.items():
        line = {"kind": kind, "ws": ws, "group": group, "sparse": sparse}
        step = 128 if MMA_KINDS[kind].scale else 16
        near_m = {m + s for m in row.m for s in (-step, step)} | {2 * m for m in row.m} | {0}
        near_n = {n + s for n in row.n for s in (-8, 8)} | {0, 264}
        for m in sorted(near_m - set(row.m)):
            if 0 <= m < 32 * 16 and not (step == 128 and m > 384):
                yield product(f"M={m} {line}", "D703", SHAPE, descriptor(kind, m=m, n=64, sparse=sparse), f"M = {m}", **line)
        for n in sorted(near_n - set(row.n)):
            yield product(f"N={n} {line}", "D703", SHAPE, descriptor(kind, m=row.m[-1], n=n, sparse=sparse), f"N = {n}", **line)


def types() -> Iterator[Neighbour]:
    """Codes of types that a kind does not have, types of D that do not go with A and B, and reserved bits."""
    for kind, row in MMA_KINDS.items():
        form = format_of("idesc", kind)
        whole = descriptor(kind)
        for item in form.fields:
            if item.name in ("a", "b", "d"):
                legal = set((row.d if item.name == "d" else row.ab).values())
                for code in set(range(1 << item.width)) - legal:
                    raw = int(whole) & ~(((1 << item.width) - 1) << item.low) | code << item.low
                    yield product(f"{kind} {item.name}={code}", "D701", form.section, raw, f"invalid code {code}", kind=kind)
        for low, width in form.unnamed():
            for bit in range(low, low + width):
                raw = int(whole) | 1 << bit
                yield product(f"{kind} bit {bit}", "D701", form.section, raw, "bit", kind=kind)
        if not row.saturate and "saturate" in {item.name for item in form.fields}:
            yield product(f"{kind} saturate", "D701", form.section, int(whole) | 8, "saturation", kind=kind)
        yield product(f"{kind} sparse", "D701", form.section, int(whole) | 4, "says sparse", kind=kind)
    yield product("f16 with bf16", "D701", SHAPE, descriptor("f16", a="bf16", d="f16"), "needs matrix A of type .f16, not .bf16")
    for kind, selectors in (("f16", (2, 3)), ("tf32", (2, 3)), ("f8f6f4", (1, 2, 3)), ("i8", (1, 2, 3))):
        for selector in selectors:
            i = descriptor(kind, sparse=True, selector=selector)
            yield product(f"{kind} selector {selector}", "D701", "Sparsity selector", i, "selector", kind=kind, sparse=True)


def shared_descriptors() -> Iterator[Neighbour]:
    """Each constant and unnamed bit, the codes of swizzling modes that there are not, and what the modes do not have."""
    i = descriptor("f16")
    for low, width in format_of("smem").unnamed():
        for bit in range(low, low + width):
            for name in ("a", "b"):
                yield product(f"{name} bit {bit}", "D702", SHARED, i, f"of {name.upper()} is not legal", **{name: int(OPERAND) ^ 1 << bit})
    for code in (3, 5, 7):
        raw = int(OPERAND) & ~(7 << 61) | code << 61
        yield product(f"swizzle {code}", "D702", SHARED, i, f"invalid code {code}", a=raw)
    d = SharedMemoryDescriptor(start=BASE, leading=2048, stride=1024, swizzle="128B_32B", base_offset=1)
    yield product("base offset, 128B_32B", "D702", SHARED, i, "base offset is 1", a=int(d))
    far = SharedMemoryDescriptor(start=BASE, leading=2048, stride=1024, swizzle="128B", leading_mode="absolute")
    yield product("absolute, K = 16", "D702", "Absolute address mode for K dimension being 48B", i, "for K = 96 only", a=int(far))
    k96 = descriptor("mxf4", k96=True)
    rule = "Restrictions on the Leading Dimension Absolute Address Stride"
    for change in ({"swizzle": "64B"}, {"base_offset": 2}):
        d = SharedMemoryDescriptor(
            **{"start": BASE, "leading": 2048, "stride": 1024, "swizzle": "128B", "leading_mode": "absolute", **change}
        )
        yield product(f"absolute, {change}", "D702", rule, k96, "absolute", kind="mxf4", a=int(d), target="sm_103a")
    yield product("K = 96 on sm_100a", "D703", "Matrix Shape", k96, "K = 96 needs sm_103a, not sm_100a", kind="mxf4")
    yield product("sparse K = 96", "D703", SHAPE, descriptor("mxf4", k96=True, sparse=True), kind="mxf4", sparse=True, target="sm_103a")


def masks() -> Iterator[Neighbour]:
    """Reserved bits, shifts beyond those allowed, and start counts beyond the first span."""

    def zeroed(name: str, raw: int, fault: str, m: int = 64, max_shift: int = 32) -> Neighbour:
        i = descriptor("f16", m=m, max_shift=max_shift)
        found = product(name, "D702", ZERO, i, fault, ws=True, zero_columns=raw)
        return Neighbour(name, found.instruction + ", zd", found.code, found.reason, found.operands, fault)

    for low, width in format_of("mask").unnamed():
        for bit in range(low, low + width):
            yield zeroed(f"mask bit {bit}", 1 << bit, "bit")
    yield zeroed("shift 33", int(ZeroColumnMask(shift=33)), "the column shift is 33")
    yield zeroed("shift 17, M = 32", int(ZeroColumnMask(shift=17)), "the column shift is 17", m=32)
    for largest in (0, 8, 16):
        yield zeroed(f"shift {largest + 1}", int(ZeroColumnMask(shift=largest + 1)), f"allows {largest}", max_shift=largest)
    for i in range(2):
        counts = (3, 0, 0, 0) if i == 0 else (0, 3, 0, 0)
        yield zeroed(f"start count {i}", int(ZeroColumnMask(counts, (1, 1, 0, 0), True, 2, 9)), f"start count {i} is 3")


def transposes() -> Iterator[Neighbour]:
    """What a kind, a size or a swizzling mode cannot transpose, and what cannot be negated."""
    for kind, row in MMA_KINDS.items():
        for name in ("a", "b"):
            table = f'{TRANSPOSE}"Transpose and Negate operation for various MMA-Kind"'
            if not row.negate:
                i = descriptor(kind, **{f"negate_{name}": True})
                yield product(f"{kind} negate {name}", "D701", table, i, "cannot be negated", kind=kind)
            if not row.transpose:
                i = descriptor(kind, **{f"transpose_{name}": True})
                yield product(f"{kind} transpose {name}", "D701", table, i, "cannot be transposed", kind=kind)
                continue
            for a, b, d in type_rows(kind):
                type = a if name == "a" else b
                if TYPE_BITS[type] < 8:
                    i = descriptor(kind, a=a, b=b, d=d, **{f"transpose_{name}": True})
                    yield product(f"{kind} transpose {name} of {type}", "D701", COMBINATIONS, i, "cannot be transposed", kind=kind)
            legal = next(r for r in TYPE_SIZES if r.major == "mn" and row.container in r.bits).swizzles
            for swizzle in set(SWIZZLES) - set(legal):
                i = descriptor(kind, **{f"transpose_{name}": True})
                d = SharedMemoryDescriptor(start=BASE, leading=2048, stride=1024, swizzle=swizzle)
                yield product(f"{kind} {swizzle} {name}", "D705", COMBINATIONS, i, "MN-major", kind=kind, **{name: int(d)})
    reason = f'{TRANSPOSE}"Various combinations of N shape with .cta_group qualifier for 8bit transpose B"'
    for group, legal_n in TRANSPOSED_8_BIT_N.items():
        for n in set(SHAPES["f8f6f4", False, group, False].n) - set(legal_n):
            i = descriptor("f8f6f4", m=128 * group, n=n, transpose_b=True)
            yield product(f"8-bit N={n} group {group}", "D703", reason, i, f"N = {n}", kind="f8f6f4", group=group)


def scalings() -> Iterator[Neighbour]:
    """Scale vector sizes that do not go with the type of the scale factors or with K, and IDs beside those of the sections."""
    for row in SCALE_VECTORS:
        target = {"target": "sm_103a"} if row.k else {}
        for scale in MMA_KINDS[row.kind].scale:
            i = descriptor(row.kind, scale=scale, k96=bool(row.k))
            line = {"kind": row.kind, "vector": row.name, **target}
            if row.name not in SCALE_VECTOR_TYPES[row.kind, scale]:
                reason = f'{SCALING}, table "Valid combinations of scale_vectorsize with types and MMA-Kind"'
                yield product(f"{scale} {line}", "D701", reason, i, f".{scale}", **line)
                continue
            for name in ("scale_a_id", "scale_b_id"):
                for value in set(range(4)) - set(SCALE_IDS[row.scales]):
                    i = descriptor(row.kind, scale=scale, k96=bool(row.k), **{name: value})
                    reason = f"Scale Factor {name[6].upper()} ID"
                    yield product(f"{name}={value} {scale} {line}", "D701", reason, i, f"ID is {value}", **line)
    for kind in ("mxf4", "mxf4nvf4"):
        for vector in ("scale_vec::2X", "scale_vec::4X"):
            if scale_vector_of(kind, vector) and scale_vector_of(kind, vector, 96) is None:
                i = descriptor(kind, k96=True)
                yield product(f"{vector} K=96 {kind}", "D701", SCALING, i, vector, kind=kind, vector=vector, target="sm_103a")
    i = InstructionDescriptor(kind="mxf8f6f4", m=128, n=64, a="e4m3", b="e4m3")
    yield product("ue4m3 for mxf8f6f4", "D701", format_of("idesc", "mxf8f6f4").section, int(i) & ~(1 << 23), kind="mxf8f6f4")


def addresses() -> Iterator[Neighbour]:
    """Lanes and columns that the layouts and the allocation do not allow."""
    paths = "Data Path Layout Organization"
    i = descriptor("f16")
    for lane in (1, 16, 32, 64):
        yield product(f"D at lane {lane}", "T611", paths, i, f"lane {lane}", d=lane << 16)
    for lane in (8, 32):
        yield product(f"D of M = 64 at lane {lane}", "T611", paths, descriptor("f16", m=64), f"lane {lane}", d=lane << 16)
        yield product(f"D of .ws at lane {lane}", "T611", paths, descriptor("f16", m=64), f"lane {lane}", d=lane << 16, ws=True)
    sparse = descriptor("f16", m=64, sparse=True)
    yield product("metadata at another lane", "T611", paths, sparse, "metadata starts at lane 16", sparse=True, metadata=16 << 16)
    for factor, name in enumerate("AB"):
        at = tuple((32 << 16) * (i == factor) for i in range(2))
        yield product(f"factors of {name} at lane 32", "T611", paths, descriptor("mxf4"), f"factors of {name}", kind="mxf4", factors=at)
    allocation = "Tensor Memory Allocation and Management Instructions"
    yield product("D beyond the last column", "T607", allocation, i, "columns 449 to 512", d=449)
    yield product("the factors beyond the last column", "T607", allocation, descriptor("mxf4"), "511", kind="mxf4", factors=(511, 0))
    yield product("the metadata beyond the last column", "T607", allocation, sparse, "512", sparse=True, metadata=512)
    tensor_a = MMA.replace("ad", "[at]")
    for name, more, code, fault in (
        ("A at another lane", {"a": 16 << 16, "idesc": int(descriptor("f16", m=64))}, "T611", "A starts at lane 16"),
        ("A beyond the last column", {"a": 505, "idesc": int(i)}, "T607", "columns 505 to 512"),
    ):
        yield Neighbour(name, tensor_a, code, paths if code == "T611" else allocation, {"b": int(OPERAND), **more}, fault)
    shift = "Tensorcore 5th Generation Instructions: tcgen05.shift"
    for lane in (1, 16, 128):
        yield Neighbour(f"shift at lane {lane}", "tcgen05.shift.cta_group::1.down [da]", "T611", shift, {"d": lane << 16}, f"lane {lane}")
    for m in (64,):
        ashift = tensor_a.replace(" [", ".ashift [", 1)
        operands = {"b": int(OPERAND), "a": 100, "idesc": int(descriptor("f16", m=m))}
        reason = "TensorCore 5th Generation Matrix Multiply and accumulate Operations"
        yield Neighbour(f"ashift with M = {m}", ashift, "D703", reason, operands, "M = 64 with .ashift; M must be 128 or 256")


MMA = opcode("f16")
NEIGHBOURS = [n for part in (shapes, types, shared_descriptors, masks, transposes, scalings, addresses) for n in part()]


def refuse(case: Neighbour) -> None:
    group = case.operands.get("group", 1)
    image, before = np.zeros((group, IMAGE), np.uint8), np.zeros((group, 512, 128), np.uint32)
    with pytest.raises(KernelError) as error:
        execute(case.instruction, image, before, **case.operands)
    found = error.value.diagnostic
    assert (found.code, case.name) == (case.code, case.name), found.message
    assert found.reason.startswith(case.reason), case.name
    assert case.fault in found.message, case.name
    assert found.fix, case.name


GROUPS = sorted({n.instruction for n in NEIGHBOURS})


@pytest.mark.parametrize("instruction", one_in(3, GROUPS))
def test_refused(instruction: str) -> None:
    for case in NEIGHBOURS:
        if case.instruction == instruction:
            refuse(case)


REGISTERS = "{" + ", ".join(f"%r{i}" for i in range(128)) + "}"

SYNTAX = {
    # tables "Various-combinations of .num and .shape"
    **{
        f"tcgen05.{op}.sync.aligned.{shape}.x{num}.b32 {operands};": f"Tensorcore 5th Generation Instructions: tcgen05.{op}"
        for op, operands in (("ld", f"{REGISTERS}, [%r200]"), ("st", f"[%r200], {REGISTERS}"))
        for shape in ("16x128b", "16x256b")
        for num in (64, 128)
        if (shape, num) not in LOAD_REGISTERS
    },
    # table "Various combinations of .kind and shapes": there is no .ws with two CTAs or with block scaling
    "tcgen05.mma.ws.cta_group::2.kind::f16 [%r1], %rd1, %rd2, %r2, %p1;": "TensorCore 5th Generation Instructions: tcgen05.mma.ws",
    "tcgen05.mma.ws.cta_group::1.kind::mxf4.block_scale [%r1], %rd1, %rd2, %r2, [%r3], [%r4], %p1;": (
        "TensorCore 5th Generation Instructions: tcgen05.mma.ws"
    ),
    # tables "Valid combinations of scale_vectorsize ..."
    **{
        f"tcgen05.mma.cta_group::1.kind::{kind}.block_scale.{vector} [%r1], %rd1, %rd2, %r2, [%r3], [%r4], %p1;": SCALING
        for kind in ("mxf8f6f4", "mxf4", "mxf4nvf4")
        for vector in ("scale_vec::1X", "scale_vec::2X", "scale_vec::4X", "block16", "block32")
        if scale_vector_of(kind, vector) is None
    },
    "tcgen05.mma.cta_group::1.kind::f16.ashift.collector::a::fill [%r1], [%r5], %rd2, %r2, %p1;": (
        "TensorCore 5th Generation Instructions: tcgen05.mma"
    ),
    "tcgen05.cp.cta_group::1.64x128b [%r1], %rd2;": "Tensorcore 5th Generation Instructions: tcgen05.cp",
    "tcgen05.ld.red.sync.aligned.32x32b.x1.min.u32 {%r1}, %r5, [%r2];": "Tensorcore 5th Generation Instructions: tcgen05.ld",
}
"""Forms that do not exist -> the section that says so."""

MODULE = """
.version 9.0
.target sm_103a
.address_size 64
.visible .entry k() {{
.reg .b32 %r<300>;
.reg .b64 %rd<8>;
.reg .pred %p<8>;
{instruction}
ret;
}}
"""


@pytest.mark.parametrize("instruction", SYNTAX)
def test_forms_that_do_not_exist(instruction: str) -> None:
    """The linter names the rule; the machine does not execute it."""
    errors = [d for d in ptxlab.lint_instruction(instruction, target="sm_103a", version="9.0") if d.severity == "error"]
    assert errors
    assert {d.reason for d in errors} == {SYNTAX[instruction]}
    with pytest.raises(ptxlab.PtxlabError) as error:
        ptxlab.loads(MODULE.format(instruction=instruction)).kernel().launch(grid=1, block=32)
    assert error.value.diagnostic.code == "U202"


@pytest.mark.parametrize(("shape", "num"), [(s, n) for s in ("16x128b", "16x256b", "32x32b") for n in (1, 2, 4, 8, 16, 32, 64, 128)])
def test_register_counts(shape: str, num: int) -> None:
    """The table of vector lengths, cell by cell, as `ptxlab.descriptors` has it."""
    found = check_fragment(shape, num, TensorMemoryAddress())
    assert [f.code for f in found] == ([] if (shape, num) in LOAD_REGISTERS else ["T613"])
