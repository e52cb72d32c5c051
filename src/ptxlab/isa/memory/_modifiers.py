"""Modifiers that say how an access is ordered, how far it is seen, and what caches do with it: accepted in any order.

The value model needs none of them: accesses of a launch perform one after the other. Observers read them from the qualifiers.
"""

from __future__ import annotations

from dataclasses import replace

from ptxlab.isa.form import only
from ptxlab.isa.kinds import Typed
from ptxlab.isa.requirements import needs

__all__ = [
    "ACCESS_ADDRESS",
    "ACCESS_RULES",
    "ATOMIC_ORDER",
    "CACHE_HINT",
    "EVICTION",
    "HINT_RULES",
    "MODIFIER_NEEDS",
    "POLICY",
    "PREFETCH",
    "SCOPE",
    "SPACE",
    "SPACE_NEEDS",
    "WIDE_ADDRESS",
    "space_of",
]

SCOPE = "{.scope=cta|cluster|gpu|sys}"
SPACE = "{.space=global|shared|shared::cta|shared::cluster|local|const|param|param::entry|param::func}"
ATOMIC_ORDER = "{.order=relaxed|acquire|release|acq_rel}" + SCOPE
_FAR = (None, "global")
_STRONG = "relaxed|acquire|release"
_L1 = "L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate"
_L2 = "L2::evict_normal|L2::evict_first|L2::evict_last"
_HINT, _SIZES = "L2::cache_hint", "L2::64B|L2::128B|L2::256B"
EVICTION = f"{{.l1={_L1}}}{{.l2={_L2}}}"
PREFETCH = f"{{.prefetch={_SIZES}}}"
CACHE_HINT = f"{{.hint={_HINT}}}"

SPACE_NEEDS = (
    needs("7.8", "sm_90", when={"space": "shared::cluster"}),
    needs("7.8", when={"space": "shared::cta"}),
    needs("7.7", when={"space": "param"}),
    needs("8.3", when={"space": "param::entry"}),
)
"""What the state spaces need in cvta and isspacep."""

MODIFIER_NEEDS = (
    needs("7.4", when={"l1": _L1}),
    needs("8.8", "sm_100", when={"l2": _L2}),
    needs("7.4", when={"prefetch": "L2::64B|L2::128B"}),
    needs("7.4", "sm_80", when={"prefetch": "L2::256B"}),
    needs("7.4", "sm_80", when={"hint": "L2::cache_hint"}),
    needs("7.8", "sm_90", when={"scope": "cluster"}),
    needs("7.8", "sm_90", when={"space": "shared::cluster"}),
    needs("7.8", when={"space": "shared::cta"}),
    needs("8.3", when={"space": "param::entry|param::func"}),
    needs("8.3", "sm_70", when={"type": "b128"}),
    needs("8.4", when={"scope": "sys", "type": "b128"}),
)
"""What the modifiers, and the widest type, need wherever they stand."""


WIDE_ADDRESS = Typed("addr", wide={"space": _FAR})
"""The address of an instruction for caches."""
ACCESS_ADDRESS = replace(WIDE_ADDRESS, short=True)
"""The address of an access."""
POLICY = "u64?hint"
"""A cache policy."""

HINT_RULES = (only("space", _FAR, hint=_HINT),)

ACCESS_RULES = (
    *HINT_RULES,
    only("scope", "cta|cluster|gpu|sys", order=_STRONG),
    only("order", _STRONG, scope="cta|cluster|gpu|sys"),
    only("space", (*_FAR, "shared", "shared::cta", "shared::cluster"), order=_STRONG),
    only("space", (*_FAR, "shared", "shared::cta", "shared::cluster", "local"), order="volatile"),
    only("cop", None, order=f"volatile|{_STRONG}"),
    only("l1", None, order="volatile"),
    only("hint", None, order="volatile"),
    only("space", _FAR, l1=_L1),
    only("cop", None, l1=_L1),
    only("space", _FAR, prefetch=_SIZES),
    only("vec", "v4|v8", l2=_L2),
    only("type", "b64|u64|s64|f64", l2=_L2, vec="v4"),
    only("type", "b32|u32|s32|f32", vec="v8"),
    only("vec", None, type="b128"),
    only("order", _STRONG, mmio="mmio"),
    only("scope", "sys", mmio="mmio"),
    only("space", _FAR, mmio="mmio"),
    *(only(group, None, mmio="mmio") for group in ("l1", "hint", "prefetch", "vec")),
)
"""Which modifiers of ld and st go together."""

_SPACES = {None: "generic", "shared::cta": "shared", "param::entry": "param", "param::func": "param"}


def space_of(written: str | None) -> str:
    """The state space as the engine names it.

    >>> space_of(None), space_of("shared::cta"), space_of("shared::cluster")
    ('generic', 'shared', 'shared::cluster')
    """
    return _SPACES.get(written, written or "")
