"""Accesses to memory by the executing threads, their order and scope: chapter "Memory Consistency Model"."""

from __future__ import annotations

from enum import Enum, Flag, IntEnum, auto

from ptxlab._records import dataclass
from ptxlab.isa.effects._effect import Effect

__all__ = [
    "SCOPES",
    "WEAK",
    "Access",
    "Order",
    "Proxy",
    "Scope",
    "Space",
    "order_of",
]


class Scope(IntEnum):
    """The threads that an order includes; on one device gpu and sys are the same."""

    CTA = 0
    CLUSTER = 1
    GPU = 2


SCOPES = {"cta": Scope.CTA, "cluster": Scope.CLUSTER, "gpu": Scope.GPU, "sys": Scope.GPU, "gl": Scope.GPU}
"""By the modifier."""


class Space(Flag):
    """State spaces that threads share."""

    NONE = 0
    SHARED = auto()
    GLOBAL = auto()
    TENSOR = auto()


class Proxy(Enum):
    """Section "Memory Consistency Model: Proxies"."""

    GENERIC = "generic"
    ASYNC = "async"


@dataclass(frozen=True, slots=True)
class Order:
    """The memory order of an access, arrival, wait or fence: section "Memory Consistency Model"."""

    scope: Scope = Scope.GPU
    acquires: bool = False
    releases: bool = False
    strong: bool = True

    @property
    def relaxed(self) -> bool:
        """Strong, but neither acquire nor release."""
        return self.strong and not self.acquires and not self.releases

    @property
    def synchronises(self) -> bool:
        """Acquire or release."""
        return self.acquires or self.releases


WEAK = Order(strong=False)


def order_of(semantics: str | None, scope: str | None = None) -> Order:
    """The order that modifiers name; without ``semantics`` it is weak.

    Examples
    --------
    >>> order_of("acquire", "cluster")
    Order(scope=<Scope.CLUSTER: 1>, acquires=True, releases=False, strong=True)
    >>> order_of(None), order_of("volatile").relaxed
    (Order(scope=<Scope.GPU: 2>, acquires=False, releases=False, strong=False), True)
    """
    both = semantics in ("acq_rel", "sc")
    return Order(
        SCOPES.get(scope or "", Scope.GPU),
        acquires=both or semantics == "acquire",
        releases=both or semantics == "release",
        strong=semantics not in (None, "weak"),
    )


@dataclass(frozen=True, slots=True)
class Access(Effect):
    """Memory accesses of the executing threads, performed when the instruction executes, through the generic proxy.

    The native description of the instruction, or its handler (`WarpContext.access`), says which bytes. ``writes`` are the spaces that a
    service may write; ``tensor_map``: it changes a tensor map.
    """

    order: Order = WEAK
    writes: Space = Space.NONE
    tensor_map: bool = False
