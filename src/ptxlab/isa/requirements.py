"""The requirements of an instruction on the module: a version of the PTX ISA and a target, stated beside the instruction's syntax.

``requires=`` of a catalogue row takes one requirement or several; all that apply must hold::

    requires=needs("7.8")                                        PTX ISA 7.8, on every target
    requires=needs("7.0", "sm_80")                               sm_80 and everything newer
    requires=needs("8.6", "sm_100f sm_120a")                     the targets of the sm_100f family, and sm_120a
    requires=(needs("7.0", "sm_80"), needs("7.8", "sm_90", when={"type": "bf16"}))

``when`` names groups of the pattern and the values for which the requirement applies: ``"bf16"``, ``"f16|bf16"``, or None for an absent
modifier; a flag has its spelling for value (``{"sat": "sat"}``), an optional operand that is there has ``"given"``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, TypeAlias

from ptxlab._records import dataclass
from ptxlab.isa.targets import TARGETS, parse_targets

__all__ = ["Condition", "Needs", "Values", "conditions", "holds", "needs"]

Values: TypeAlias = Mapping[str, str | None]
"""What the groups of a form have matched; a group that is absent has None."""

Condition: TypeAlias = Mapping[str, Any]
"""Group -> the values for which something holds; None means that the group is absent."""


def conditions(when: Mapping[str, str | Iterable[str | None] | None]) -> Condition:
    """A condition with its values as tuples.

    >>> conditions({"type": "f16|bf16", "ftz": None, "rnd": ("rn", None)})
    {'type': ('f16', 'bf16'), 'ftz': (None,), 'rnd': ('rn', None)}
    """
    found: dict[str, tuple[str | None, ...]] = {}
    for group, values in when.items():
        found[group] = tuple(values.split("|")) if isinstance(values, str) else (None,) if values is None else tuple(values)
    return found


def holds(when: Condition, values: Values) -> bool:
    """Whether every group has one of the values."""
    return all(values.get(group) in allowed for group, allowed in when.items())


@dataclass(frozen=True, slots=True)
class Needs:
    """Where ``when`` holds, the module needs one of the targets and at least this version."""

    since: tuple[int, int] = (0, 0)
    targets: frozenset[str] | None = None
    when: Condition = field(default_factory=dict)
    what: str = ""
    """What needs it, for messages; if empty, the opcode, or the modifiers of ``when``."""
    specified: bool = True
    """Whether the specification has it."""

    def missing(self, target: str, version: tuple[int, int]) -> tuple[bool, bool]:
        """Whether the target is none of these, and whether the version is too old. An unknown target is never wrong."""
        return self.targets is not None and target in TARGETS and target not in self.targets, version < self.since

    def described(self, opcode: str, values: Values) -> str:
        """The text for messages: what has this requirement."""
        if self.what:
            return self.what
        named = [f".{values[group]}" for group in self.when if values.get(group) not in (None, "given")]
        return f"{opcode.split('.')[0]} with {' and '.join(named)}" if named else opcode


def needs(
    version: str | None = None,
    targets: str | frozenset[str] | None = None,
    *,
    when: Mapping[str, str | Iterable[str | None] | None] | None = None,
    what: str = "",
    specified: bool = True,
) -> Needs:
    """Make a requirement; the module docstring specifies the notation.

    >>> needs("8.6", "sm_100").missing("sm_90a", (8, 5))
    (True, True)
    """
    major, minor = (version or "0.0").split(".")
    known = parse_targets(targets) if isinstance(targets, str) else targets
    return Needs((int(major), int(minor)), known, conditions(when or {}), what, specified)
