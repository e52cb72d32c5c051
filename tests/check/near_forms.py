"""Forms that the assembler takes although the specification does not have them, each among neighbours that it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

Row = tuple[str, str, str]
"""Instruction, target, version."""

NEWEST = ("sm_107a", "9.5")
REGISTERS = ("%h1", "%r1", "%u1", "%s1", "%f1", "%rd1", "%ud1", "%fd1", "%rq1")
ELEMENTS = {"b": "%r1", "u": "%u1", "s": "%s1", "f": "%f1", "h": "%h1", "d": "%rd1", "i": "3", "F": "0f3f800000"}
SCOPES = ("cta", "cluster", "gpu", "sys")


def _fill(template: str, *lists: tuple[str, ...], target: str = NEWEST[0], version: str = NEWEST[1]) -> Iterator[Row]:
    """The template with every combination in the places of ``@0``, ``@1``, ..."""
    for combination in product(*lists):
        text = template
        for at, word in enumerate(combination):
            text = text.replace(f"@{at}", word)
        yield text, target, version


def addresses() -> Iterator[Row]:
    """Registers of any type for a tensor map, of 16 bits where no constant can stand, constants for a fence that acquires a map."""
    some = (*(f"[{register}]" for register in REGISTERS), "[smem]", "[gvar]", "[cvar]", "[16]", "[%rd1+8]", "[%h1+4]", "[%f1+4]")
    yield from _fill("mbarrier.check_layout.layout::v0@1.b64 %p1, @0;", some, ("", ".shared::cta"))
    yield from _fill("mbarrier.init@1.b64 @0, 1;", some, ("", ".shared::cta"))
    yield from _fill("fence.proxy.tensormap::generic.acquire.cluster @0, 128;", some)
    yield from _fill("tensormap.replace.tile.rank@1.b1024.b32 @0, 3;", some, ("", ".global", ".shared::cta"))
    maps = tuple(address.strip("[]") for address in (*some, "[%p1]"))
    yield from _fill("cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [@0, {%r1}], [smem];", maps)
    yield from _fill("cp.async.bulk.prefetch.tensor.1d.L2.global.override::global_address [@0, %ud1, {%r1}];", maps)
    copies = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
    yield from _fill(f"{copies} [smem], [gvar], 16, @0;", some)
    yield from _fill(f"{copies}.multicast::cluster [smem], [gvar], 16, @0, %h1;", some)
    yield from _fill(f"{copies}.L2::cache_hint [smem], [gvar], 16, @0, %rd1;", some)
    yield from _fill(f"{copies.replace('cluster', 'cta')}.ignore_oob [smem], [gvar], 16, %r1, 0, @0;", some)
    yield from _fill("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [smem], [smem], 16, @0;", some)


def scalars() -> Iterator[Row]:
    """Sums, variables, constants and braces in the place of a register."""
    sums = tuple(f"{base}+4" for base in (*REGISTERS, "smem", "gvar", "cvar"))
    braces = ("{%r1}", "{%u1}", "{%f1}", "{%h1}", "{%rd1}", "{1}")
    some = (*REGISTERS, *sums, *braces, "0", "15", "4294967296", "0f3f800000", "0d3ff0000000000000")
    yield from _fill("tensormap.replace.tile.rank.global.b1024.b32 [gvar], @0;", some)
    yield from _fill("tensormap.replace.tile.box_dim.global.b1024.b32 [gvar], 1, @0;", some)
    yield from _fill("tensormap.replace.tile.global_address.global.b1024.b64 [gvar], @0;", some)
    yield from _fill("tensormap.replace.tile.global_stride.global.b1024.b64 [gvar], 1, @0;", some)
    yield from _fill("mbarrier.init.b64 [mbar], @0;", some)
    yield from _fill("mbarrier.arrive.b64 %rd1, [mbar], @0;", some)
    yield from _fill("mbarrier.test_wait.b64 %p1, [mbar], @0;", some)
    yield from _fill("cp.async.bulk.global.shared::cta.bulk_group.cp_mask [gvar], [smem], 16, @0;", some)
    yield from _fill("cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.ignore_oob [smem], [gvar], 16, @0, 0, [mbar];", some)
    yield from _fill("tcgen05.cp.cta_group::1.128x256b [%r1], @0;", some)
    yield from _fill("tcgen05.mma.cta_group::1.kind::f16 [%r1], @0, %rd2, %r2, %p1, 1;", some)
    yield from _fill("tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, %p1, @0;", some)
    yield from _fill("tcgen05.ld.red.sync.aligned.32x32b.x2.max.u32 {%r1,%r2}, @0, [%r3];", braces)
    sparse = "wgmma.mma_async.sp.sync.aligned.m64n8k64.s32.s8.s8 {%r10,%r11,%r12,%r13}, %rd1, %rd2, @0, 0, %p1;"
    yield from _fill(sparse, (*some, "%p1", "!%p1"), target="sm_90a")
    counts = ("64", "96", "0", "33", "1024", "-32", "1048576", "4294967296", "%r1")
    for instruction, operand in (("alloc", "[sdst]"), ("dealloc", "64")):
        for exclusive in ("", ".exclusive"):
            yield from _fill(f"tcgen05.{instruction}.cta_group::1.sync.aligned{exclusive}.b32 {operand}, @0;", counts)


def fences() -> Iterator[Row]:
    """Orders and scopes, with and without an address."""
    orders = ("", ".acq_rel", ".acquire", ".release")
    restricts = ("", ".sync_restrict::shared::cta", ".sync_restrict::shared::cluster", ".sync_restrict::shared::cluster::read")
    scopes = ("", *(f".{scope}" for scope in SCOPES))
    for target, version in (("sm_90", "8.6"), ("sm_100a", "9.3"), NEWEST):
        for proxy in ("alias", "async", "tensormap::generic", "async::generic", "generic::fabric.alias", "fabric::fabric.alias"):
            yield from _fill(f"fence.proxy.{proxy}@0@1@2;", orders, restricts, scopes, target=target, version=version)
            yield from _fill(f"fence.proxy.{proxy}@0@1@2 [%rd1], 128;", orders, restricts[:2], scopes[:3], target=target, version=version)
        words = ("0", "-1", "13", "128", "%r1")
        yield from _fill("fence.proxy.@0.@1.cta [%rd1], @2;", ("tensormap::generic", "async::generic"), ("acq_rel", "acquire"), words)
        yield from _fill("fence.mbarrier_init@0@1@2;", orders, restricts[:3], scopes, target=target, version=version)


def tails() -> Iterator[Row]:
    """What stands behind the instruction descriptor of ``.kind::i8``."""
    words = ("%p1", "!%p2", "1", "-5", "%r5")
    for sparse, metadata in (("", ""), (".sp", " [%r3],")):
        head = f"tcgen05.mma{sparse}.cta_group::1.kind::i8 [%r1], %rd1, %rd2,{metadata} %r2"
        for operands in range(4):
            names = ", ".join(f"@{at}" for at in range(operands))
            yield from _fill(f"{head}{', ' if names else ''}{names};", *[words] * operands, target="sm_100a")


def modifiers() -> Iterator[Row]:
    """Modifiers without meaning."""
    targets = (("sm_90", "8.6"), ("sm_100a", "9.5"), NEWEST)
    scopes = tuple(f".{scope}" for scope in SCOPES)
    reports = (".mbarrier::report::disabled", ".mbarrier::report::validity::per_element::ff")
    spaces = ("", ".global", ".shared", ".shared::cta", ".shared::cluster", ".const")
    for target, version in targets:
        for words in (scopes, reports):
            for template in (
                "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group@0 [%rd1, {%r1}], [smem];",
                "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes@0 [smem], [%rd1, {%r1}], [mbar];",
                "cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.bulk_group@0 [%rd1, {%r1}], [smem];",
                "cp.async.bulk.prefetch.tensor.1d.L2.global@0 [%rd1, {%r1}];",
                "cp.async.bulk.prefetch.L2.global@0 [%rd1], 16;",
                "mbarrier.check_layout.layout::v0@0.b64 %p1, [mbar];",
            ):
                yield from _fill(template, words, target=target, version=version)
        for template in (
            "fence.proxy.tensormap::generic@0.release.cta;",
            "fence.proxy.tensormap::generic@0.acquire.cta [%rd1], 128;",
            "fence.proxy.async::generic@0.acquire.sync_restrict::shared::cluster.cluster;",
            "fence.proxy.async::generic@0.release.sync_restrict::shared::cta.cluster;",
            "fence.proxy.async@0;",
            "fence.proxy.alias@0;",
        ):
            yield from _fill(template, spaces, target=target, version=version)
        yield from _fill(
            "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32@0 [gvar], [smem], 16;", (".pred", ".pred.pred", ".b32")
        )
    yield from _fill(
        "mbarrier.@0@1@2.b64 @3, [mbar], @4;",
        ("test_wait", "try_wait"),
        ("", ".parity"),
        ("", ".phase_type::primary", ".phase_type::conditional"),
        ("%p1", "%p1|_", "%p1|%p2", "_|%p2"),
        ("%r1", "%rd1"),
    )
    product_of_integers = "wgmma.mma_async.sync.aligned.m64n8k32.s32.u8.s8@0 {%r10,%r11,%r12,%r13}, %rd1, %rd2, %p1;"
    yield from _fill(product_of_integers, ("", ".satfinite", ".satfinite.satfinite", ".pred", ".pred.pred", ".rn"), target="sm_90a")
    yield from _fill("tcgen05.ld.red.sync.aligned.32x32b.x2.max@0.f32 {%f1,%f2}, %f3, [%r1];", (".NaN", ".NaN.NaN", ".abs", ".abs.abs"))


def _vectors(letters: str, length: int) -> tuple[str, ...]:
    return tuple("{" + ",".join(ELEMENTS[letter] for letter in word) + "}" for word in product(letters, repeat=length))


def vectors() -> Iterator[Row]:
    """Every word of a few kinds of elements."""
    prefetch = "cp.async.bulk.prefetch.tensor"
    yield from _fill(f"{prefetch}.1d.L2.global [gvar, @0];", _vectors("busfhdiF", 1))
    yield from _fill(f"{prefetch}.2d.L2.global [gvar, @0];", _vectors("busfhdiF", 2))
    yield from _fill(f"{prefetch}.3d.L2.global [gvar, @0];", _vectors("bufhiF", 3))
    yield from _fill(f"{prefetch}.3d.L2.global [gvar, @0];", _vectors("bhid", 3))
    yield from _fill(f"{prefetch}.4d.L2.global.im2col [gvar, {{%r1,%r2,%r3,%r4}}], @0;", _vectors("bufhdiF", 2))
    yield from _fill(f"{prefetch}.5d.L2.global.im2col [gvar, {{%r1,%r2,%r3,%r4,%r5}}], @0;", _vectors("bhid", 3))
    replaced = f"{prefetch}.3d.L2.global.override::global_address.override::global_dim_stride"
    yield from _fill(f"{replaced} [gvar, %rd1, @0, {{%r1,%r2}}, %h1, {{%r1,%r2,%r3}}];", _vectors("bhiF", 3))
    yield from _fill(f"{replaced} [gvar, %rd1, {{%h1,%h2,%h3}}, @0, %h1, {{%r1,%r2,%r3}}];", _vectors("busfhiF", 2))
    yield from _fill("tcgen05.st.sync.aligned.32x32b.x1.b32 [%r1], @0;", _vectors("busfhiF", 1))
    yield from _fill("tcgen05.st.sync.aligned.32x32b.x2.b32 [%r1], @0;", _vectors("busfhiF", 2))
    yield from _fill("tcgen05.st.sync.aligned.32x32b.x4.b32 [%r1], @0;", _vectors("bhi", 4))
    yield from _fill("tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, @0, %p1;", _vectors("ufi", 4))
    product_of_halves = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1,%f2,%f3,%f4}, @0, %rd1, %p1, 1, 1, 1;"
    yield from _fill(product_of_halves, _vectors("bhid", 4), target="sm_90a")


def rows() -> list[Row]:
    families = (addresses, scalars, fences, tails, modifiers, vectors)
    return list(dict.fromkeys(row for family in families for row in family()))
