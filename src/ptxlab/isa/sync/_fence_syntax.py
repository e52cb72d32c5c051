"""The syntax of the memory and proxy fences: section "membar, fence"."""

from __future__ import annotations

from ptxlab.isa.form import IGNORED, Form, Rule, form
from ptxlab.isa.kinds import LONGS, MAP_BYTES, SHORTS, WORDS, Address, Immediate
from ptxlab.isa.requirements import needs
from ptxlab.isa.targets import at_least

__all__ = ["FABRIC", "FENCE", "MEMBAR", "MEMBAR_PROXY", "PROXY"]

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


def _plain() -> Form:
    restricted = {"restrict": _RESTRICTED[:2]}
    initial = {"mbarrier_init": ("mbarrier_init",)}
    releasing, acquiring = ({"mbarrier_init": (None,), "restrict": (restrict,)} for restrict in _RESTRICTED[:2])
    return form(
        "fence",
        f"{{.mbarrier_init}}{{.sem=sc|acq_rel|acquire|release}}{{.restrict={'|'.join(_RESTRICTED[:2])}}}.(scope=cta|cluster|gpu|sys)",
        section=_SECTION,
        rules=(
            Rule(initial, "sem", ("release",), ".mbarrier_init goes with .release.cluster only", _SECTION),
            Rule({**initial, "sem": ("release",)}, "scope", ("cluster",), ".mbarrier_init goes with .release.cluster only", _SECTION),
            Rule(initial, "restrict", (None,), ".sync_restrict means nothing on fence.mbarrier_init", _SECTION, ignored=True),
            Rule(acquiring, "sem", ("acquire",), ".sync_restrict::shared::cluster goes with .acquire", _SECTION),
            Rule(releasing, "sem", ("release",), ".sync_restrict::shared::cta goes with .release", _SECTION),
            Rule(restricted, "scope", ("cluster",), ".sync_restrict needs the scope .cluster", _SECTION),
        ),
        requires=(
            needs("6.0", _70, what="fence"),
            needs("7.8", _90, what="the scope .cluster", when={"scope": ("cluster",)}),
            needs("8.6", _90, what="fence.acquire and fence.release", when={"sem": ("acquire", "release"), "mbarrier_init": (None,)}),
            needs("8.0", _90, what="fence.mbarrier_init", when=initial),
        ),
        ignored=IGNORED | {"async"},
    )


def _directed() -> Form:
    """A unidirectional proxy fence, or a bidirectional one."""
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
            Rule(undirected, "space", (None, *_SPACES), ".shared is not a space of .async", _SECTION),
            Rule(alias, "space", (None,), "a state space goes with .async only", _SECTION),
            Rule({**tensormap, "sem": ("acquire",)}, "space", (None,), "a state space goes with .async only", _SECTION),
            Rule(one_way, "space", (None,), "a state space means nothing on a fence of one direction", _SECTION, ignored=True),
            Rule({**tensormap, "sem": ("acquire",)}, "restrict", (None,), ".sync_restrict goes with .async::generic", _SECTION),
            Rule(undirected, "sem", (None,), "a fence of both directions has no order", _SECTION),
            Rule(alias, "sem", (None, "acquire", "release"), "a fence of both directions has no order", _SECTION),
            Rule(ordered, "scope", ("sys",), "an order on .alias needs the scope .sys", _SECTION),
            Rule({"proxy": ("async", "alias"), "sem": (None,)}, "scope", (None,), "a fence of both directions has no scope", _SECTION),
            Rule(one_way, "sem", ("acq_rel", "acquire", "release"), "a fence of one direction needs .acquire or .release", _SECTION),
            Rule(one_way, "scope", _SCOPES, "a fence of one direction needs a scope", _SECTION),
            Rule(acquire, "scope", ("cluster",), ".async::generic.acquire needs the scope .cluster", _SECTION),
            Rule(release, "scope", ("cta", "cluster"), ".async::generic.release needs the scope .cluster", _SECTION),
            Rule(
                {**release, "restrict": _RESTRICTED[:1]},
                "scope",
                ("cluster",),
                ".async::generic.release needs the scope .cluster",
                _SECTION,
            ),
            Rule(acquire, "restrict", _RESTRICTED[1:2], ".async::generic.acquire needs .sync_restrict::shared::cluster", _SECTION),
            Rule(release, "restrict", (_RESTRICTED[0], _READ), ".async::generic.release needs .sync_restrict::shared::cta", _SECTION),
        ),
        requires=(
            needs("7.5", _70, what="fence.proxy.alias", when={"proxy": ("alias",)}),
            needs("8.0", _90, what="fence.proxy.async", when={"proxy": ("async",)}),
            needs("8.3", _90, what="fence.proxy.tensormap::generic", when=tensormap),
            needs(what=".acq_rel on fence.proxy.tensormap::generic", when={**tensormap, "sem": ("acq_rel",)}, specified=False),
            needs("8.6", _90, what="fence.proxy.async::generic", when=generic),
            needs(what=".acq_rel on fence.proxy.async::generic", when={**generic, "sem": ("acq_rel",)}, specified=False),
            needs(what="the scope .cta on fence.proxy.async::generic", when={**release, "scope": ("cta",)}, specified=False),
            needs("9.4", _90, what="an order on fence.proxy.alias", when=ordered),
            needs(
                "8.6",
                _90,
                what=".sync_restrict on this fence",
                when={"proxy": ("async", "alias", "tensormap::generic"), "restrict": _RESTRICTED},
                specified=False,
            ),
            needs("9.4", _90, what=f".{_READ}", when={"restrict": (_READ,)}),
        ),
    )


def _fabric() -> Form:
    """A unidirectional proxy fence between the generic and the fabric proxy."""
    return form(
        "fence.proxy",
        ".(proxy=generic::fabric|fabric::generic|fabric::fabric).alias.(sem=acquire|release|acq_rel)"
        f"{{.restrict={_RESTRICT}}}.(scope=cta|cluster|gpu|sys)",
        section=_SECTION,
        rules=(
            Rule({"sem": ("acquire", "release")}, "scope", ("sys",), "a fence of the fabric proxy needs the scope .sys", _SECTION),
            Rule({}, "restrict", (None,), ".sync_restrict means nothing on a fence of the fabric proxy", _SECTION, ignored=True),
        ),
        requires=(
            needs("9.3", at_least(100), what="a fence of the fabric proxy"),
            needs(what=".acq_rel on a fence of the fabric proxy", when={"sem": ("acq_rel",)}, specified=False),
            needs("9.4", _90, what=f".{_READ}", when={"restrict": (_READ,)}),
        ),
        ignored=IGNORED | {*_SPACES, "shared"},
    )


FENCE, PROXY, FABRIC = _plain(), _directed(), _fabric()
MEMBAR = form("membar", ".(level=cta|gl|sys)", section=_SECTION)
MEMBAR_PROXY = form(
    "membar.proxy",
    f".(proxy=alias|async){{.space={'|'.join(_SPACES)}}}",
    section=_SECTION,
    rules=(Rule({}, "space", (None,), "membar.proxy has no state space", _SECTION, executed=True),),
    requires=(
        needs("7.5", _70, what="membar.proxy.alias", when={"proxy": "alias"}),
        needs("8.0", _90, what="membar.proxy.async", when={"proxy": "async"}),
    ),
)
