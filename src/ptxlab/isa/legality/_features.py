"""Which targets and PTX ISA versions have the instructions around the tensor core that no form declares."""

from __future__ import annotations

from dataclasses import dataclass

from ptxlab.isa.legality._form import Available
from ptxlab.isa.legality._targets import at_least

__all__ = ["FEATURES", "Feature", "features_of"]


@dataclass(frozen=True, slots=True)
class Feature:
    """Opcodes that begin with ``words`` and hold all of ``modifiers`` need what ``available`` says."""

    words: tuple[str, ...]
    modifiers: frozenset[str]
    available: Available


def _feature(opcode: str, targets: frozenset[str], since: tuple[int, int], *modifiers: str) -> Feature:
    what = opcode + "".join(f" with .{m}" for m in modifiers)
    return Feature(tuple(opcode.split(".")), frozenset(modifiers), Available({}, what, targets, since))


_90, _100 = at_least(90), at_least(100)
_SPECIFIC = at_least(90, "af")

FEATURES: tuple[Feature, ...] = (
    _feature("prefetch.tensormap", _90, (8, 0)),
    _feature("griddepcontrol", _90, (7, 8)),
    _feature("barrier.cluster", _90, (7, 8)),
    _feature("mapa", _90, (7, 8)),
    _feature("elect", _90, (8, 0)),
    _feature("setmaxnreg", _SPECIFIC, (8, 0)),
    _feature("clusterlaunchcontrol", _100, (8, 6)),
    _feature("st.async", _90, (8, 1)),
)


def features_of(opcode: str) -> list[Available]:
    """What an opcode needs of target and version.

    >>> [(a.what, a.since) for a in features_of("mapa.shared::cluster.u32")]
    [('mapa', (7, 8))]
    """
    words = tuple(opcode.split("."))
    return [f.available for f in FEATURES if words[: len(f.words)] == f.words and f.modifiers <= set(words)]
