"""Legality of memory and proxy fences."""

from __future__ import annotations

from ptxlab.isa.legality._form import LONGS, SHORTS, WORDS, Address, Available, Form, Immediate, Requires, form
from ptxlab.isa.legality._targets import at_least
from ptxlab.isa.legality._tcgen05 import IGNORED

__all__ = ["FENCE_FORMS", "MAP_BYTES"]

_SECTION = "Parallel Synchronization and Communication Instructions: membar, fence"
_70, _90 = at_least(70), at_least(90)
_RESTRICTED = tuple(f"sync_restrict::shared::{part}" for part in ("cta", "cluster", "cluster::read"))
_RESTRICT = "|".join(_RESTRICTED)
_READ = _RESTRICTED[2]
_SPACES = ("global", "shared::cta", "shared::cluster")
_SCOPES = ("cta", "cluster", "gpu", "sys")

_ANYWHERE = Address(
    {},
    "a generic address in brackets",
    generic_spaces=("shared", "global", "local", "const", "param"),
    generic_types=(*SHORTS, *WORDS, *LONGS),
    plain=("f32", "f64", "pred"),
    constant=True,
)
MAP_BYTES = Immediate("128, the size of a tensor map", lambda value: value == 128)


def _plain() -> Form:
    restricted = {"restrict": _RESTRICTED[:2]}
    initial = {"mbarrier_init": ("mbarrier_init",)}
    releasing, acquiring = ({"mbarrier_init": (None,), "restrict": (restrict,)} for restrict in _RESTRICTED[:2])
    return form(
        "fence",
        f"{{.mbarrier_init}}{{.sem=sc|acq_rel|acquire|release}}{{.restrict={'|'.join(_RESTRICTED[:2])}}}.(scope=cta|cluster|gpu|sys)",
        section=_SECTION,
        rules=(
            Requires(initial, "sem", ("release",), ".mbarrier_init goes with .release.cluster only", _SECTION),
            Requires({**initial, "sem": ("release",)}, "scope", ("cluster",), ".mbarrier_init goes with .release.cluster only", _SECTION),
            Requires(initial, "restrict", (None,), ".sync_restrict means nothing on fence.mbarrier_init", _SECTION, ignored=True),
            Requires(acquiring, "sem", ("acquire",), ".sync_restrict::shared::cluster goes with .acquire", _SECTION),
            Requires(releasing, "sem", ("release",), ".sync_restrict::shared::cta goes with .release", _SECTION),
            Requires(restricted, "scope", ("cluster",), ".sync_restrict needs the scope .cluster", _SECTION),
        ),
        available=(
            Available({}, "fence", _70, (6, 0)),
            Available({"scope": ("cluster",)}, "the scope .cluster", _90, (7, 8)),
            Available({"sem": ("acquire", "release"), "mbarrier_init": (None,)}, "fence.acquire and fence.release", _90, (8, 6)),
            Available(initial, "fence.mbarrier_init", _90, (8, 0)),
        ),
        ignored=IGNORED | {"async"},
    )


def _directed() -> Form:
    """A proxy fence of one direction, or of both for one kind of proxy."""
    kinds = ("async", "alias", "tensormap::generic", "async::generic")
    tensormap, generic = {"proxy": ("tensormap::generic",)}, {"proxy": ("async::generic",)}
    undirected, alias = {"proxy": ("async",)}, {"proxy": ("alias",)}
    ordered = {**alias, "sem": ("acquire", "release")}
    acquire = {**generic, "sem": ("acquire",)}
    release = {**generic, "sem": ("release",)}
    one_way = {"proxy": ("tensormap::generic", "async::generic")}
    return form(
        "fence.proxy",
        f".(proxy={'|'.join(kinds)}){{.space={'|'.join((*_SPACES, 'shared'))}}}"
        f"{{.sem=acq_rel|acquire|release}}{{.restrict={_RESTRICT}}}{{.scope=cta|cluster|gpu|sys}}",
        ("", {"proxy": ("async", "alias", "async::generic")}),
        ("", {**tensormap, "sem": (None, "release", "acq_rel")}),
        ("[addr] size", {**tensormap, "sem": (None, "acquire")}),
        (
            "[addr] constant",
            {**one_way, "sem": ("acq_rel",), "restrict": (None,), "space": (None,)},
            {},
            "only a fence that acquires a tensor map has an address; the assembler takes one here too",
        ),
        kinds={"[addr]": _ANYWHERE, "size": MAP_BYTES, "constant": Immediate("an integer constant")},
        section=_SECTION,
        rules=(
            Requires(undirected, "space", (None, *_SPACES), ".shared is not a space of .async", _SECTION),
            Requires(alias, "space", (None,), "a state space goes with .async only", _SECTION),
            Requires({**tensormap, "sem": ("acquire",)}, "space", (None,), "a state space goes with .async only", _SECTION),
            Requires(one_way, "space", (None,), "a state space means nothing on a fence of one direction", _SECTION, ignored=True),
            Requires({**tensormap, "sem": ("acquire",)}, "restrict", (None,), ".sync_restrict goes with .async::generic", _SECTION),
            Requires(undirected, "sem", (None,), "a fence of both directions has no order", _SECTION),
            Requires(alias, "sem", (None, "acquire", "release"), "a fence of both directions has no order", _SECTION),
            Requires(ordered, "scope", ("sys",), "an order on .alias needs the scope .sys", _SECTION),
            Requires({"proxy": ("async", "alias"), "sem": (None,)}, "scope", (None,), "a fence of both directions has no scope", _SECTION),
            Requires(one_way, "sem", ("acq_rel", "acquire", "release"), "a fence of one direction needs .acquire or .release", _SECTION),
            Requires(one_way, "scope", _SCOPES, "a fence of one direction needs a scope", _SECTION),
            Requires(acquire, "scope", ("cluster",), ".async::generic.acquire needs the scope .cluster", _SECTION),
            Requires(release, "scope", ("cta", "cluster"), ".async::generic.release needs the scope .cluster", _SECTION),
            Requires(
                {**release, "restrict": _RESTRICTED[:1]},
                "scope",
                ("cluster",),
                ".async::generic.release needs the scope .cluster",
                _SECTION,
            ),
            Requires(acquire, "restrict", _RESTRICTED[1:2], ".async::generic.acquire needs .sync_restrict::shared::cluster", _SECTION),
            Requires(release, "restrict", (_RESTRICTED[0], _READ), ".async::generic.release needs .sync_restrict::shared::cta", _SECTION),
        ),
        available=(
            Available({"proxy": ("alias",)}, "fence.proxy.alias", _70, (7, 5)),
            Available({"proxy": ("async",)}, "fence.proxy.async", _90, (8, 0)),
            Available(tensormap, "fence.proxy.tensormap::generic", _90, (8, 3)),
            Available({**tensormap, "sem": ("acq_rel",)}, ".acq_rel on fence.proxy.tensormap::generic", specified=False),
            Available(generic, "fence.proxy.async::generic", _90, (8, 6)),
            Available({**generic, "sem": ("acq_rel",)}, ".acq_rel on fence.proxy.async::generic", specified=False),
            Available({**release, "scope": ("cta",)}, "the scope .cta on fence.proxy.async::generic", specified=False),
            Available(ordered, "an order on fence.proxy.alias", _90, (9, 4)),
            Available(
                {"proxy": ("async", "alias", "tensormap::generic"), "restrict": _RESTRICTED},
                ".sync_restrict on this fence",
                _90,
                (8, 6),
                specified=False,
            ),
            Available({"restrict": (_READ,)}, f".{_READ}", _90, (9, 4)),
        ),
        ignored=IGNORED,
    )


def _fabric() -> Form:
    """A proxy fence of one direction between the generic and the fabric proxy."""
    return form(
        "fence.proxy",
        ".(proxy=generic::fabric|fabric::generic|fabric::fabric).alias.(sem=acquire|release|acq_rel)"
        f"{{.restrict={_RESTRICT}}}.(scope=cta|cluster|gpu|sys)",
        section=_SECTION,
        rules=(
            Requires({"sem": ("acquire", "release")}, "scope", ("sys",), "a fence of the fabric proxy needs the scope .sys", _SECTION),
            Requires({}, "restrict", (None,), ".sync_restrict means nothing on a fence of the fabric proxy", _SECTION, ignored=True),
        ),
        available=(
            Available({}, "a fence of the fabric proxy", at_least(100), (9, 3)),
            Available({"sem": ("acq_rel",)}, ".acq_rel on a fence of the fabric proxy", specified=False),
            Available({"restrict": (_READ,)}, f".{_READ}", _90, (9, 4)),
        ),
        ignored=IGNORED | {*_SPACES, "shared"},
    )


FENCE_FORMS: tuple[Form, ...] = (
    _plain(),
    _directed(),
    _fabric(),
    form("membar", ".(level=cta|gl|sys)", section=_SECTION, ignored=IGNORED),
    form(
        "membar.proxy",
        ".(proxy=alias|async)",
        section=_SECTION,
        available=(
            Available({"proxy": ("alias",)}, "membar.proxy.alias", _70, (7, 5)),
            Available({"proxy": ("async",)}, "membar.proxy.async", _90, (8, 0)),
        ),
        ignored=IGNORED,
    ),
)
