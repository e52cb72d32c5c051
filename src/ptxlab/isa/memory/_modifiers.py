"""Modifiers that say how an access is ordered, how far it is seen, and what caches do with it: accepted in any order.

The value model needs none of them: accesses of a launch perform one after the other. Observers read them from the qualifiers.
"""

from __future__ import annotations

__all__ = ["ATOMIC_ORDER", "CACHE_HINT", "EVICTION", "PREFETCH", "SCOPE", "SPACE", "space_of"]

SCOPE = "{.scope=cta|cluster|gpu|sys}"
SPACE = "{.space=global|shared|shared::cta|shared::cluster|local|const|param|param::entry|param::func}"
ATOMIC_ORDER = "{.order=relaxed|acquire|release|acq_rel}" + SCOPE
EVICTION = (
    "{.l1=L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate}"
    "{.l2=L2::evict_normal|L2::evict_first|L2::evict_last}"
)
PREFETCH = "{.prefetch=L2::64B|L2::128B|L2::256B}"
CACHE_HINT = "{.hint=L2::cache_hint}"

_SPACES = {None: "generic", "shared::cta": "shared", "param::entry": "param", "param::func": "param"}


def space_of(written: str | None) -> str:
    """The state space as the engine names it.

    >>> space_of(None), space_of("shared::cta"), space_of("shared::cluster")
    ('generic', 'shared', 'shared::cluster')
    """
    return _SPACES.get(written, written or "")
