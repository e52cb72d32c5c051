"""The syntax of the mbarrier instructions: section "Parallel Synchronization and Communication Instructions: mbarrier"."""

from __future__ import annotations

from dataclasses import replace

from ptxlab.isa.form import IGNORED, Form, Rule, both_or_none, form
from ptxlab.isa.kinds import LONGS, SHORTS, WORDS, Address, Immediate, Kind, Predicate, Register, Sink
from ptxlab.isa.requirements import needs
from ptxlab.isa.targets import SM_107, at_least

__all__ = ["CHECK_LAYOUT", "COPIES_ARRIVE", "INIT", "INVAL", "PENDING_COUNT", "arrivals", "transactions", "wait"]

_SECTION = "Parallel Synchronization and Communication Instructions: mbarrier"
_80, _90 = at_least(80), at_least(90)

_OWN = "{.space=shared|shared::cta}"
_ANY = "{.space=shared|shared::cta|shared::cluster}"
_MULTICAST = "{.multicast=multicast::cluster::32b}"
_PEER = {"space": ("shared::cluster",)}
_HERE = {"space": (None, "shared", "shared::cta")}
_GENERIC = {"space": (None,)}
_ANYWHERE = {**_GENERIC, "multicast": ("multicast::cluster::32b",)}

_ADDR = Address(_GENERIC, types=(*SHORTS, *WORDS, *LONGS), generic_spaces=("shared",), generic_types=(*SHORTS, *LONGS))
_COUNT = "a 32-bit register or an integer constant"
_KINDS: dict[str, Kind] = {
    "[addr]": _ADDR,
    "expected": Register(WORDS, "the number of arrivals, from 1 to 1048575", True, True, integers=True, values=lambda v: 0 < v < 1 << 20),
    "count": Register(WORDS, "the number of arrivals, positive", True, True, integers=True, values=lambda v: v > 0, braces=WORDS),
    "txCount": Register(WORDS, f"the number of bytes: {_COUNT}", True, True, integers=True),
    "ctaMask": Register(WORDS, "ctaMask in a 32-bit register", True, True, integers=True, values=lambda v: 0 <= v < 1 << 32),
    "state": Register(("b64", "u64", "s64"), "the phase's state in a 64-bit register", True, True),
    "newState": Register(LONGS, "a 64-bit register, or _", sink=True),
    "pending": Register(WORDS, "a 32-bit register"),
    "_": Sink("_: an arrival at another CTA's mbarrier returns nothing"),
    "phaseParity": Register(WORDS, "the parity: a 32-bit register, 0 or 1", True, True, integers=True, values=lambda v: v in (0, 1)),
    "timeHint": Register(WORDS, f"the time limit: {_COUNT}", True, True, integers=True),
    "p": Predicate(written=True),
    "waitComplete": Predicate(written=True),
    "reportPredicate": Predicate(written=True, sink=True),
    "N": Immediate("an integer constant"),
}


def _single(section: str, multicast: tuple[str | None, ...] = ("multicast::cluster::32b",)) -> Rule:
    return Rule({"multicast": multicast}, "space", (None, "shared::cluster"), ".multicast::cluster::32b is for .shared::cluster", section)


_CLUSTER = needs("8.0", _90, what=".shared::cluster", when={"space": ("shared::cluster",)})
_WIDE_SCOPE = needs("8.0", _90, what="the scope .cluster", when={"scope": ("cluster",)})
_ORDER = needs("8.0", what="an order on an mbarrier operation", when={"sem": ("release", "acquire")})
_RELAXED = needs("8.6", _90, what=".relaxed", when={"sem": ("relaxed",)})
_LAYOUT = needs("9.3", _90, what=".layout", when={"layout": ("layout::v0", "layout::v1")})
_SPREAD = needs("9.4", SM_107, what=".multicast::cluster::32b", when={"multicast": ("multicast::cluster::32b",)})
_SUFFIX = needs("7.8", what=".shared::cta", when={"space": ("shared::cta",)})


def transactions(name: str) -> Form:
    """A form that changes the transaction count."""
    section = f"{_SECTION}.{name}"
    return form(
        f"mbarrier.{name}",
        f"{{.sem=relaxed}}{{.scope=cta|cluster}}{_ANY}{_MULTICAST}.b64",
        "[addr] txCount ctaMask?multicast",
        kinds=_KINDS,
        section=section,
        rules=(*both_or_none(section, ("relaxed",), ("cta", "cluster")), _single(section)),
        requires=(needs("8.0", _90, what=f"mbarrier.{name}"), _SPREAD),
    )


def arrivals(name: str) -> tuple[Form, Form]:
    """An arrival, and the same with ``.expect_tx``."""
    section = f"{_SECTION}.{name}"
    order = "{.sem=release|relaxed}{.scope=cta|cluster}"
    rules = (*both_or_none(section, ("release", "relaxed"), ("cta", "cluster")), _single(section))
    once = {"noComplete": ("noComplete",)}
    alone = (
        Rule(once, "sem", (None, "release"), ".noComplete goes with .release.cta only", section),
        Rule(once, "scope", (None, "cta"), ".noComplete goes with .release.cta only", section),
        Rule(once, "space", (None, "shared", "shared::cta"), ".noComplete is for mbarriers of the executing CTA", section),
        Rule(once, "multicast", (None,), ".noComplete does not go with .multicast::cluster::32b", section),
    )
    base = needs("7.0", _80, what=f"mbarrier.{name}")
    counted = needs("7.8", _90, what="a count without .noComplete", when={"count": ("given",), "noComplete": (None,)})
    plain = {"noComplete": (None,)}
    return (
        form(
            f"mbarrier.{name}",
            f"{{.noComplete}}{order}{_ANY}{_MULTICAST}.b64",
            ("newState [addr] count", {**once}),
            ("newState [addr] count?", {**plain, **_HERE, "multicast": (None,)}),
            ("_ [addr] count? ctaMask?multicast", {**plain, **_PEER}),
            ("newState [addr] count? ctaMask", {**plain, **_ANYWHERE}),
            kinds=_KINDS,
            section=section,
            rules=(*rules, *alone),
            requires=(base, counted, _SUFFIX, _CLUSTER, _WIDE_SCOPE, _ORDER, _RELAXED, _SPREAD),
        ),
        form(
            f"mbarrier.{name}.expect_tx",
            f"{order}{_ANY}{_MULTICAST}.b64",
            ("newState [addr] txCount", {**_HERE, "multicast": (None,)}),
            ("_ [addr] txCount ctaMask?multicast", _PEER),
            ("newState [addr] txCount ctaMask", _ANYWHERE),
            kinds=_KINDS,
            section=section,
            rules=rules,
            requires=(needs("8.0", _90, what=f"mbarrier.{name}.expect_tx"), _RELAXED, _SPREAD),
        ),
    )


def wait(name: str, parity: bool) -> Form:
    """The form of try_wait or test_wait, by state or by parity."""
    section = f"{_SECTION}.test_wait, mbarrier.try_wait"
    operand = "phaseParity" if parity else "state"
    hint = " timeHint?" if name == "try_wait" else ""
    phase = "phase_type::primary|phase_type::conditional" if parity else "phase_type::primary"
    since = needs("7.8", _90, what=f"mbarrier.{name}") if name == "try_wait" else needs("7.0", _80, what=f"mbarrier.{name}")
    return form(
        f"mbarrier.{name}" + (".parity" if parity else ""),
        f"{{.phase={phase}}}{{.sem=acquire|relaxed}}{{.scope=cta|cluster}}{_OWN}.b64",
        f"waitComplete [addr] {operand}{hint}",
        (f"waitComplete|reportPredicate [addr] {operand}{hint}", {"phase": ("phase_type::primary",)}),
        (
            f"waitComplete|_ [addr] {operand}{hint}",
            {"phase": (None, "phase_type::conditional")},
            {},
            "a report needs .phase_type::primary; dropped, the assembler takes it",
        ),
        kinds=_KINDS,
        section=section,
        rules=both_or_none(section, ("acquire", "relaxed"), ("cta", "cluster")),
        requires=(
            since,
            needs("7.1", what=".parity") if parity else since,
            needs("9.3", _90, what=".phase_type", when={"phase": ("phase_type::primary", "phase_type::conditional")}),
            _SUFFIX,
            _WIDE_SCOPE,
            _ORDER,
            _RELAXED,
        ),
    )


INIT = form(
    "mbarrier.init",
    f"{{.layout=layout::v0|layout::v1}}{_OWN}.b64",
    "[addr] expected",
    kinds=_KINDS,
    section=f"{_SECTION}.init",
    requires=(needs("7.0", _80, what="mbarrier.init"), _SUFFIX, _LAYOUT),
)
INVAL = form(
    "mbarrier.inval",
    f"{_OWN}.b64",
    "[addr]",
    kinds=_KINDS,
    section=f"{_SECTION}.inval",
    requires=(needs("7.0", _80, what="mbarrier.inval"), _SUFFIX),
)
PENDING_COUNT = form(
    "mbarrier.pending_count",
    "{.layout=layout::v0}.b64",
    "pending state",
    kinds=_KINDS,
    section=f"{_SECTION}.pending_count",
    requires=(needs("7.0", _80, what="mbarrier.pending_count"), _LAYOUT),
)
CHECK_LAYOUT = form(
    "mbarrier.check_layout",
    f".(layout=layout::v0|layout::v1){_OWN}.b64",
    "p [addr]",
    kinds={**_KINDS, "[addr]": replace(_ADDR, generic_spaces=("shared", "global"))},
    section=f"{_SECTION}.check_layout",
    requires=(needs("9.3", _90, what="mbarrier.check_layout"),),
    ignored=IGNORED | {"cta", "cluster", "gpu", "sys"},
)
COPIES_ARRIVE = form(
    "cp.async.mbarrier.arrive",
    f"{{.noinc}}{_OWN}.b64",
    "[addr]",
    kinds={"[addr]": Address(_GENERIC, types=(*SHORTS, *WORDS, *LONGS), generic_spaces=("shared", "global", "local", "param"))},
    section="Parallel Synchronization and Communication Instructions: cp.async.mbarrier.arrive",
    requires=(needs("7.0", _80, what="cp.async.mbarrier.arrive"), _SUFFIX),
)
