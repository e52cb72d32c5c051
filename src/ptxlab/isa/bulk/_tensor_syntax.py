"""The syntax of bulk copies, reductions and prefetches of tensors."""

from __future__ import annotations

from functools import partial

from ptxlab.isa.bulk._linear_syntax import (
    COPY_OPERANDS,
    CTA_MASK,
    MULTICAST,
    REPORT,
    TO_CLUSTER,
    TO_CTA,
    TO_GLOBAL,
    completion,
    multicast,
    spread,
)
from ptxlab.isa.form import IGNORED, Form, Rule, form
from ptxlab.isa.kinds import LONGS, SHORTS, WORDS, Address, Kind, Register, Vector
from ptxlab.isa.requirements import Values, needs
from ptxlab.isa.targets import SM_107, TCGEN05, at_least

__all__ = ["COPY", "NOT_EXECUTED", "PREFETCH", "REDUCE"]

_COPY = "Data Movement and Conversion Instructions: cp.async.bulk.tensor"
_REDUCE = "Data Movement and Conversion Instructions: cp.reduce.async.bulk.tensor"
_PREFETCH = "Data Movement and Conversion Instructions: cp.async.bulk.prefetch.tensor"
_90, _100 = at_least(90), at_least(100)
_ANY = (*SHORTS, *WORDS, *LONGS)

_SCOPES = frozenset({"cta", "cluster", "gpu", "sys"})
_DIMENSIONS = ("1d", "2d", "3d", "4d", "5d")
_WITH_OFFSETS = ("im2col", "im2col::w", "im2col::w::128")
_WITHOUT_OFFSETS = ("im2col_no_offs", "im2col_no_offs::w")
_ROWS = ("tile::gather4", "tile::scatter4")
_LOADS = ("tile", "tile::gather4", *_WITH_OFFSETS)
_STORES = ("tile", "tile::scatter4", *_WITHOUT_OFFSETS)

_OVERRIDE = "{.address=override::global_address}{.dim_only=override::global_dim}{.dim_stride=override::global_dim_stride}"
_MAP = "[tensorMap,globalAddress?address,sizes?dim_only,sizes?dim_stride,lowerStrides?dim_stride,upperStrides?dim_stride,tensorCoords]"
_INFO = f"im2colInfo?mode={'|'.join(_WITH_OFFSETS)}"


def _rank(values: Values) -> int:
    return int(str(values["dim"])[0])


def _coordinates(values: Values) -> int:
    return 5 if values["mode"] in _ROWS else _rank(values)


def _offsets(values: Values) -> int:
    return _rank(values) - 2 if values["mode"] == "im2col" else 2


def _shorts(values: Values) -> tuple[str, ...]:
    return SHORTS


def _words(values: Values) -> tuple[str, ...]:
    return WORDS


_vector = partial(Vector, written=False, constants=True, mixed=True)

_OPERANDS: dict[str, Kind] = {
    **COPY_OPERANDS,
    "[dst-shared]": Address(None, "an address of shared memory in brackets", ("shared",), _ANY, bare=True),
    "[src-shared]": Address(None, "an address of the CTA's shared memory in brackets", ("shared",), _ANY, bare=True),
    "[mbar]": Address(None, "the address of an mbarrier in brackets", ("shared",), _ANY, bare=True),
    "tensorMap": Address(None, "the generic address of a tensor map", ("global",), (*_ANY, "f32", "f64", "b128", "pred"), offset=False),
    "tensorCoords": _vector(_coordinates, says="the coordinates: 32-bit registers in braces", bare=True, types=_words),
    "im2colInfo": _vector(_offsets, says="the im2col offsets: 16-bit registers in braces", bare=True, types=_shorts, width=16),
    "globalAddress": Register(LONGS, "a global address in a 64-bit register"),
    "sizes": _vector(_rank, says="the sizes: 16-bit registers in braces", bare=True, types=_shorts, width=16),
    "lowerStrides": _vector(lambda values: _rank(values) - 1, says="the lower strides: 32-bit registers in braces"),
    "upperStrides": Register(SHORTS, "the upper strides in a 16-bit register"),
}


def _modes(section: str, directions: dict[str, tuple[str, ...]]) -> tuple[Rule, ...]:
    """The modes of each direction, and the ranks of each mode."""
    return (
        *(
            Rule({"direction": (d,)}, "mode", (None, *modes), f".{d} takes " + ", ".join(f".{m}" for m in modes), section)
            for d, modes in directions.items()
        ),
        *_ranks(section),
    )


def _ranks(section: str) -> tuple[Rule, ...]:
    im2col = (*_WITH_OFFSETS, *_WITHOUT_OFFSETS)
    replaced = {"dim_stride": ("override::global_dim_stride",)}
    single = {"dim_only": ("override::global_dim",)}
    return (
        Rule({"mode": im2col}, "dim", _DIMENSIONS[2:], "the im2col modes need at least three dimensions", section),
        Rule({"mode": _ROWS}, "dim", ("2d",), ".tile::gather4 and .tile::scatter4 are for .2d", section),
        Rule(replaced, "dim", _DIMENSIONS[1:], ".override::global_dim_stride needs at least two dimensions", section),
        Rule(replaced, "mode", (None, "tile"), "the dimensions can be replaced in tile mode only", section),
        Rule(replaced, "multicast", (None, MULTICAST[2]), "with replaced dimensions multicasting is .multicast::cluster::32b", section),
        Rule(replaced, "address", ("override::global_address",), "it needs .override::global_address too", section),
        Rule(single, "dim", _DIMENSIONS[:1], ".override::global_dim is for .1d", section),
        Rule(single, "mode", (None, "tile"), "the dimensions can be replaced in tile mode only", section),
        Rule(single, "multicast", (None, MULTICAST[2]), "with replaced dimensions multicasting is .multicast::cluster::32b", section),
        Rule(single, "address", ("override::global_address",), "it needs .override::global_address too", section),
    )


_OVERRIDDEN = (
    needs("9.4", SM_107, what=".override::global_address", when={"address": ("override::global_address",)}),
    needs("9.4", SM_107, what=".im2col_no_offs::w", when={"mode": ("im2col_no_offs::w",)}),
)


def _copy() -> Form:
    directions = {TO_CTA: _LOADS, TO_CLUSTER: _LOADS, TO_GLOBAL: _STORES}
    store = {"direction": (TO_GLOBAL,)}
    newer = ("tile::gather4", "im2col::w")
    groups = ("cta_group::1", "cta_group::2")
    return form(
        "cp.async.bulk.tensor",
        f".(dim={'|'.join(_DIMENSIONS)}).(direction*2=shared::cluster|shared::cta|global)"
        f"{{.mode={'|'.join(dict.fromkeys((*_LOADS, *_STORES)))}}}.(completion=mbarrier::complete_tx::bytes|bulk_group)"
        f"{{.report={'|'.join(REPORT)}}}{{.multicast={'|'.join(MULTICAST)}}}{{.cta_group={'|'.join(groups)}}}{{.hint=L2::cache_hint}}"
        f"{_OVERRIDE}",
        (f"[dst-shared] {_MAP} [mbar] {_INFO} {CTA_MASK} cache-policy?hint", {"direction": (TO_CTA, TO_CLUSTER)}),
        (f"{_MAP} [src-shared] cache-policy?hint", store),
        kinds=_OPERANDS,
        section=_COPY,
        rules=(
            *completion(_COPY, (TO_CTA, TO_CLUSTER), (TO_GLOBAL,)),
            *multicast(_COPY, tuple(directions)),
            *_modes(_COPY, directions),
            Rule(store, "cta_group", (None,), ".cta_group goes with completion on an mbarrier", _COPY),
            Rule(store, "report", (None,), ".mbarrier::report means nothing on a copy to global memory", _COPY, ignored=True),
        ),
        requires=(
            needs("8.0", _90, what="cp.async.bulk.tensor"),
            needs("8.6", _90, what=".shared::cta as destination", when={"direction": (TO_CTA,)}),
            needs("8.6", TCGEN05, what=".cta_group", when={"cta_group": groups}),
            needs("8.6", _100, what=".tile::gather4 and .im2col::w to .shared::cta", when={"direction": (TO_CTA,), "mode": newer}),
            needs(
                "8.6", TCGEN05, what=".tile::gather4 and .im2col::w to .shared::cluster", when={"direction": (TO_CLUSTER,), "mode": newer}
            ),
            needs("8.6", TCGEN05, what=".im2col::w::128", when={"mode": ("im2col::w::128",)}),
            needs("8.6", TCGEN05, what=".tile::scatter4", when={"mode": ("tile::scatter4",)}),
            *spread(),
            *_OVERRIDDEN,
        ),
        ignored=IGNORED | _SCOPES,
    )


COPY = _copy()
REDUCE = form(
    "cp.reduce.async.bulk.tensor",
    f".(dim={'|'.join(_DIMENSIONS)}).(direction*2=global|shared::cta).(redOp=add|min|max|inc|dec|and|or|xor)"
    f"{{.mode={'|'.join(_STORES)}}}.bulk_group{{.hint=L2::cache_hint}}{_OVERRIDE}",
    f"{_MAP} [src-shared] cache-policy?hint",
    kinds=_OPERANDS,
    section=_REDUCE,
    rules=(Rule({}, "direction", (TO_GLOBAL,), "the reduction is .global.shared::cta", _REDUCE), *_ranks(_REDUCE)),
    requires=(
        needs("8.0", _90, what="cp.reduce.async.bulk.tensor"),
        needs("8.6", TCGEN05, what=".tile::scatter4 on a reduction", when={"mode": ("tile::scatter4",)}, specified=False),
        *_OVERRIDDEN,
    ),
    ignored=IGNORED | _SCOPES,
)
PREFETCH = form(
    "cp.async.bulk.prefetch.tensor",
    f".(dim={'|'.join(_DIMENSIONS)}).L2.global{{.mode={'|'.join(_LOADS)}}}{{.hint=L2::cache_hint}}{{.priority=L2::evict_last}}{_OVERRIDE}",
    f"{_MAP} {_INFO} cache-policy?hint",
    kinds=_OPERANDS,
    section=_PREFETCH,
    rules=(
        *_ranks(_PREFETCH),
        Rule({"priority": ("L2::evict_last",)}, "hint", (None,), "an eviction priority excludes a cache policy", _PREFETCH),
    ),
    requires=(
        needs("8.0", _90, what="cp.async.bulk.prefetch.tensor"),
        needs("8.6", TCGEN05, what="these modes on a prefetch", when={"mode": ("tile::gather4", *_WITH_OFFSETS[1:])}),
        needs("9.4", SM_107, what=".L2::evict_last", when={"priority": ("L2::evict_last",)}),
        *_OVERRIDDEN,
    ),
)

NOT_EXECUTED = dict.fromkeys(("address", "dim_only", "dim_stride", "report", "priority"))
"""Modifiers that are not executed: the ``only`` of every row excludes them."""
