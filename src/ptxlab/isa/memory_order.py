"""The memory order of an instruction: its scope, and whether it acquires or releases."""

from __future__ import annotations

from enum import IntEnum

from ptxlab._records import dataclass

__all__ = ["SCOPES", "WEAK", "Order", "Scope", "order_of"]


class Scope(IntEnum):
    """The threads that an order includes; on one device gpu and sys are the same."""

    CTA = 0
    CLUSTER = 1
    GPU = 2


SCOPES = {"cta": Scope.CTA, "cluster": Scope.CLUSTER, "gpu": Scope.GPU, "sys": Scope.GPU, "gl": Scope.GPU}
"""By the modifier."""


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
