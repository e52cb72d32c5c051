"""Modifiers that say how an access is ordered, how far it is seen, and what caches do with it: accepted in any order.

The value model needs none of them: accesses of a launch perform one after the other. Observers read them from the qualifiers.
"""

from __future__ import annotations

from ptxlab.isa.requirements import needs

__all__ = ["ATOMIC_ORDER", "CACHE_HINT", "EVICTION", "MODIFIER_NEEDS", "PREFETCH", "SCOPE", "SPACE", "space_of"]

SCOPE = "{.scope=cta|cluster|gpu|sys}"
SPACE = "{.space=global|shared|shared::cta|shared::cluster|local|const|param|param::entry|param::func}"
ATOMIC_ORDER = "{.order=relaxed|acquire|release|acq_rel}" + SCOPE
EVICTION = (
    "{.l1=L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate}"
    "{.l2=L2::evict_normal|L2::evict_first|L2::evict_last}"
)
PREFETCH = "{.prefetch=L2::64B|L2::128B|L2::256B}"
CACHE_HINT = "{.hint=L2::cache_hint}"

MODIFIER_NEEDS = (
    needs("7.4", when={"l1": "L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate"}),
    needs("8.8", "sm_100", when={"l2": "L2::evict_normal|L2::evict_first|L2::evict_last"}),
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

_SPACES = {None: "generic", "shared::cta": "shared", "param::entry": "param", "param::func": "param"}


def space_of(written: str | None) -> str:
    """The state space as the engine names it.

    >>> space_of(None), space_of("shared::cta"), space_of("shared::cluster")
    ('generic', 'shared', 'shared::cluster')
    """
    return _SPACES.get(written, written or "")
