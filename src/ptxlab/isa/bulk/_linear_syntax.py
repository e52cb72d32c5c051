"""The syntax of bulk copies and reductions of contiguous bytes, and of bulk groups."""

from __future__ import annotations

from collections.abc import Mapping

from ptxlab.isa.form import IGNORED, Form, Rule, both_or_none, form
from ptxlab.isa.kinds import LONGS, SHORTS, WORDS, Address, Immediate, Kind, Register
from ptxlab.isa.requirements import Needs, needs
from ptxlab.isa.targets import SM_107, TCGEN05, WGMMA, at_least

__all__ = [
    "COMMIT_GROUP",
    "COPY",
    "COPY_OPERANDS",
    "CTA_MASK",
    "MULTICAST",
    "PREFETCH",
    "REDUCE",
    "REPORT",
    "TO_CLUSTER",
    "TO_CTA",
    "TO_GLOBAL",
    "TO_PEER",
    "WAIT_GROUP",
    "completion",
    "multicast",
    "spread",
]

_BULK = "Data Movement and Conversion Instructions: cp.async.bulk"
_REDUCE = "Data Movement and Conversion Instructions: cp.reduce.async.bulk"
_90, _100 = at_least(90), at_least(100)
_ANY = (*SHORTS, *WORDS, *LONGS)

TO_CTA, TO_CLUSTER, TO_PEER, TO_GLOBAL = "shared::cta.global", "shared::cluster.global", "shared::cluster.shared::cta", "global.shared::cta"
"""Destination and source state spaces, as the modifiers spell them."""

MULTICAST = ("multicast::cluster", "multicast::cluster::16b", "multicast::cluster::32b")
_DISABLED = "mbarrier::report::disabled"
_INSPECTED = (
    *(f"mbarrier::report::validity::per_16bytes::{pattern}" for pattern in ("80000000", "8000", "80", "8")),
    "mbarrier::report::validity::per_element::ff",
)
REPORT = (_DISABLED, *_INSPECTED)
CTA_MASK = "ctaMask?multicast=multicast::cluster|multicast::cluster::16b ctaMask32?multicast=multicast::cluster::32b"
"""The additional operands of a multicast."""

COPY_OPERANDS: dict[str, Kind] = {
    "[dst-shared]": Address(None, "an address of shared memory in brackets", ("shared",), _ANY),
    "[src-shared]": Address(None, "an address of the CTA's shared memory in brackets", ("shared",), _ANY),
    "[dst-global]": Address(None, "an address of global memory in brackets", ("global",), _ANY),
    "[src-global]": Address(None, "an address of global memory in brackets", ("global",), _ANY),
    "[mbar]": Address(
        None,
        "the address of an mbarrier in brackets",
        ("shared",),
        _ANY,
        words={"hint": (None,), "ignore_oob": (None,), "multicast": (None,)},
    ),
    "size": Register(
        WORDS,
        "the number of bytes: a 32-bit register or a multiple of 16 from 0 to 1048560",
        True,
        True,
        integers=True,
        values=lambda v: 0 <= v <= 1048560 and v % 16 == 0,
    ),
    "ctaMask": Register(SHORTS, "ctaMask in a 16-bit register", True, True, values=lambda v: 0 <= v <= 0xFFFF),
    "ctaMask32": Register(WORDS, "ctaMask in a 32-bit register", True, True, integers=True, values=lambda v: 0 <= v < 1 << 32),
    "cache-policy": Register(LONGS, "a cache policy in a 64-bit register", True, True),
    "byteMask": Register(SHORTS, "byteMask in a 16-bit register", True, True, braces=SHORTS),
    "ignoreBytesLeft": Register(
        WORDS, "a 32-bit register or a constant from 0 to 15", True, True, integers=True, values=lambda v: v % (1 << 32) <= 15
    ),
    "ignoreBytesRight": Register(
        WORDS, "a 32-bit register or a constant from 0 to 15", True, True, integers=True, values=lambda v: v % (1 << 32) <= 15
    ),
    "N": Immediate("an integer constant"),
    "other": Register((*LONGS, *SHORTS), "a 64-bit register or a constant", True, True, integers=True, braces=SHORTS),
    "other64": Register(LONGS, "a 64-bit register or a constant", True, True, integers=True),
}
_NO_MBARRIER = "the specification has the address of an mbarrier here; the assembler takes a register or constant too"


def completion(section: str, by_mbarrier: tuple[str, ...], by_group: tuple[str, ...]) -> tuple[Rule, ...]:
    """The completion mechanism of each direction."""
    directions = (*by_mbarrier, *by_group)
    return (
        Rule({}, "direction", directions, "the directions are " + ", ".join(f".{d}" for d in directions), section),
        Rule(
            {"direction": by_mbarrier},
            "completion",
            ("mbarrier::complete_tx::bytes",),
            "a copy in this direction completes on an mbarrier",
            section,
        ),
        Rule({"direction": by_group}, "completion", ("bulk_group",), "a write to global memory completes in a bulk group", section),
    )


def multicast(section: str, directions: tuple[str, ...]) -> tuple[Rule, ...]:
    """Only a copy from global memory to ``.shared::cluster`` is multicast."""
    others = tuple(d for d in directions if d != TO_CLUSTER)
    return (Rule({"direction": others}, "multicast", (None,), "multicasting is for .shared::cluster.global", section),)


def spread() -> tuple[Needs, ...]:
    """Targets and versions that the multicast modifiers need."""
    return (
        needs("9.4", _90, what=".multicast::cluster::16b", when={"multicast": MULTICAST[1:2]}),
        needs("9.4", SM_107, what=".multicast::cluster::32b", when={"multicast": MULTICAST[2:]}),
        needs("9.4", SM_107, what=".mbarrier::report", when={"report": REPORT}),
    )


def _copy() -> Form:
    directions = (TO_CTA, TO_CLUSTER, TO_PEER, TO_GLOBAL)
    scopes = ("cta", "cluster", "gpu", "sys")
    ignore = {"ignore_oob": ("ignore_oob",)}
    rules = (
        *completion(_BULK, directions[:3], directions[3:]),
        *multicast(_BULK, directions),
        *both_or_none(_BULK, ("relaxed",), scopes),
        Rule({"sem": ("relaxed",)}, "type", ("b128",), ".relaxed needs .b128", _BULK),
        Rule({"sem": ("weak",)}, "type", (None,), ".b128 goes with .relaxed, not with .weak", _BULK),
        Rule({"direction": (TO_PEER,)}, "scope", (None, "cta", "cluster"), "between shared memories the scope is .cta or .cluster", _BULK),
        Rule({"direction": (TO_PEER,)}, "hint", (None,), ".L2::cache_hint needs global memory on one side", _BULK),
        Rule({"direction": (TO_PEER, TO_GLOBAL)}, "report", (None,), ".mbarrier::report is for copies from global memory", _BULK),
        Rule({"direction": (TO_CTA, TO_CLUSTER, TO_PEER)}, "cp_mask", (None,), ".cp_mask is for .global.shared::cta", _BULK),
        Rule(ignore, "direction", (TO_CTA,), ".ignore_oob is for .shared::cta.global", _BULK),
        Rule(ignore, "report", (None, _DISABLED), ".ignore_oob does not go with data inspection", _BULK),
    )
    return form(
        "cp.async.bulk",
        "{.sem=weak|relaxed}{.scope=cta|cluster|gpu|sys}.(direction*2=shared::cluster|shared::cta|global)"
        f".(completion=mbarrier::complete_tx::bytes|bulk_group){{.report={'|'.join(REPORT)}}}{{.multicast={'|'.join(MULTICAST)}}}"
        "{.ignore_oob}{.hint=L2::cache_hint}{.cp_mask}{.type=b128}",
        ("[dst-shared] [src-global] size [mbar] cache-policy?hint", {"direction": (TO_CTA,), "ignore_oob": (None,)}),
        (
            "[dst-shared] [src-global] size ignoreBytesLeft ignoreBytesRight [mbar] cache-policy?hint",
            {"direction": (TO_CTA,), **ignore},
        ),
        (f"[dst-shared] [src-global] size [mbar] {CTA_MASK} cache-policy?hint", {"direction": (TO_CLUSTER,)}),
        ("[dst-shared] [src-shared] size [mbar]", {"direction": (TO_PEER,)}),
        ("[dst-global] [src-shared] size cache-policy?hint byteMask?cp_mask", {"direction": (TO_GLOBAL,)}),
        ("[dst-shared] [src-global] size other", {"direction": (TO_CTA,), "ignore_oob": (None,), "hint": (None,)}, {}, _NO_MBARRIER),
        ("[dst-shared] [src-global] size other", {"direction": (TO_CLUSTER,), "multicast": (None,), "hint": (None,)}, {}, _NO_MBARRIER),
        ("[dst-shared] [src-shared] size other", {"direction": (TO_PEER,)}, {}, _NO_MBARRIER),
        kinds=COPY_OPERANDS,
        section=_BULK,
        rules=rules,
        requires=(
            needs("8.0", _90, what="cp.async.bulk"),
            needs("8.6", _90, what=".shared::cta as destination", when={"direction": (TO_CTA,)}),
            needs("8.6", _100, what=".cp_mask", when={"cp_mask": ("cp_mask",)}),
            needs("9.2", what=".ignore_oob", when=ignore),
            needs("9.3", what=".weak and .relaxed", when={"sem": ("weak", "relaxed")}),
            needs(
                None,
                WGMMA | TCGEN05,
                what=".relaxed from global memory to .shared::cluster",
                when={"sem": ("relaxed",), "direction": (TO_CLUSTER,)},
            ),
            needs(what=".b128 without .relaxed", when={"sem": (None,), "type": ("b128",)}, specified=False),
            *spread(),
        ),
    )


_ADDED = {TO_GLOBAL: ("u32", "s32", "u64", "f32", "f64", "f16", "bf16"), TO_PEER: ("u32", "s32", "u64")}
_COMPARED = {TO_GLOBAL: ("u32", "s32", "u64", "s64", "f16", "bf16"), TO_PEER: ("u32", "s32")}
_WRAPPED = {TO_GLOBAL: ("u32",), TO_PEER: ("u32",)}
_COMBINED = {TO_GLOBAL: ("b32", "b64"), TO_PEER: ("b32",)}
_REDUCED: Mapping[tuple[str, ...], Mapping[str, tuple[str, ...]]] = {
    ("add",): _ADDED,
    ("min", "max"): _COMPARED,
    ("inc", "dec"): _WRAPPED,
    ("and", "or", "xor"): _COMBINED,
}
"""Operations -> direction -> element types: the table of section "cp.reduce.async.bulk"."""


def _reduce() -> Form:
    rules = [
        *completion(_REDUCE, (TO_PEER,), (TO_GLOBAL,)),
        *both_or_none(_REDUCE, ("relaxed",), ("cta", "cluster", "gpu", "sys")),
        Rule(
            {"direction": (TO_PEER,)}, "scope", (None, "cta", "cluster"), "between shared memories the scope is .cta or .cluster", _REDUCE
        ),
        Rule({"direction": (TO_PEER,)}, "hint", (None,), ".L2::cache_hint needs global memory on one side", _REDUCE),
        Rule({"noftz": ("noftz",)}, "redOp", ("add",), ".noftz goes with .add", _REDUCE),
        Rule({"noftz": ("noftz",)}, "type", ("f16", "bf16", "f32"), ".noftz goes with .f16, .bf16 and .f32", _REDUCE),
        Rule({"redOp": ("add",), "type": ("f16", "bf16")}, "noftz", ("noftz",), ".add of .f16 and .bf16 needs .noftz", _REDUCE),
    ]
    for operations, typed in _REDUCED.items():
        for direction, types in typed.items():
            message = f"with .{direction} it takes " + ", ".join(f".{t}" for t in types)
            rules.append(Rule({"redOp": operations, "direction": (direction,)}, "type", types, message, _REDUCE, executed=True))
    return form(
        "cp.reduce.async.bulk",
        "{.sem=relaxed}{.scope=cta|cluster|gpu|sys}.(direction*2=shared::cluster|shared::cta|global)"
        ".(completion=mbarrier::complete_tx::bytes|bulk_group){.hint=L2::cache_hint}"
        ".(redOp=and|or|xor|add|inc|dec|min|max){.noftz}.(type=f16|bf16|b32|u32|s32|b64|u64|s64|f32|f64)",
        ("[dst-shared] [src-shared] size [mbar]", {"direction": (TO_PEER,)}),
        ("[dst-global] [src-shared] size cache-policy?hint", {"direction": (TO_GLOBAL,)}),
        ("[dst-shared] [src-shared] size other64", {"direction": (TO_PEER,)}, {}, _NO_MBARRIER),
        kinds={**COPY_OPERANDS, "[mbar]": Address(None, "the address of an mbarrier in brackets", ("shared",), _ANY)},
        section=_REDUCE,
        rules=tuple(rules),
        requires=(
            needs("8.0", _90, what="cp.reduce.async.bulk"),
            needs("9.3", what=".relaxed", when={"sem": ("relaxed",)}),
            needs("9.4", what=".noftz with .f32", when={"noftz": ("noftz",), "type": ("f32",)}),
        ),
        ignored=IGNORED | {"pred"},
    )


COPY, REDUCE = _copy(), _reduce()
PREFETCH = form(
    "cp.async.bulk.prefetch",
    ".L2.global{.hint=L2::cache_hint}{.priority=L2::evict_last}",
    "[src-global] size cache-policy?hint",
    kinds=COPY_OPERANDS,
    section=f"{_BULK}.prefetch",
    rules=(Rule({"priority": ("L2::evict_last",)}, "hint", (None,), "an eviction priority excludes a cache policy", f"{_BULK}.prefetch"),),
    requires=(
        needs("8.0", _90, what="cp.async.bulk.prefetch"),
        needs("9.4", SM_107, what=".L2::evict_last", when={"priority": ("L2::evict_last",)}),
    ),
)
COMMIT_GROUP = form(
    "cp.async.bulk.commit_group",
    "",
    section=f"{_BULK}.commit_group",
    requires=(needs("8.0", _90, what="cp.async.bulk.commit_group"),),
)
WAIT_GROUP = form(
    "cp.async.bulk.wait_group",
    "{.read}",
    "N",
    kinds=COPY_OPERANDS,
    section=f"{_BULK}.wait_group",
    requires=(needs("8.0", _90, what="cp.async.bulk.wait_group"),),
    ignored=IGNORED | {"sync_restrict::shared::cta", "sync_restrict::shared::cluster"},
)
