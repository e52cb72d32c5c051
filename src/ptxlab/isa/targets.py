"""Targets, the PTX ISA version that has each first, their families, and the sets of targets that instructions name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from ptxlab.tables import TENSOR_MEMORY_TARGETS

__all__ = [
    "ARCHITECTURE_SPECIFIC",
    "FAMILIES",
    "LATEST_VERSION",
    "RENAMED",
    "SCALE_INPUT",
    "SM_107",
    "TARGETS",
    "TCGEN05",
    "VERSIONS",
    "WGMMA",
    "at_least",
    "name_targets",
    "parse_targets",
    "runs_on",
]

VERSIONS: Mapping[int, int] = {1: 5, 2: 3, 3: 2, 4: 3, 5: 0, 6: 5, 7: 8, 8: 8, 9: 5}
"""Major number -> the last minor number: section "Release Notes"."""
LATEST_VERSION = max(VERSIONS.items())

TARGETS: Mapping[str, tuple[int, int]] = {
    **dict.fromkeys(("sm_10", "sm_11", "sm_12", "sm_13", "sm_20", "sm_21", "sm_30", "sm_32", "sm_35", "sm_37"), (1, 0)),
    **dict.fromkeys(("sm_50", "sm_52", "sm_53", "sm_60", "sm_61", "sm_62", "sm_70", "sm_72", "sm_75"), (4, 0)),
    "sm_80": (7, 0), "sm_86": (7, 1), "sm_87": (7, 4),
    "sm_88": (9, 0),
    "sm_89": (7, 8), "sm_90": (7, 8), "sm_90a": (8, 0),
    "sm_100": (8, 6), "sm_100a": (8, 6), "sm_100f": (8, 8),
    "sm_101": (8, 6), "sm_101a": (8, 6), "sm_101f": (8, 8),
    "sm_103": (8, 8), "sm_103a": (8, 8), "sm_103f": (8, 8),
    "sm_107": (9, 4), "sm_107a": (9, 4), "sm_107f": (9, 4),
    "sm_110": (9, 0), "sm_110a": (9, 0), "sm_110f": (9, 0),
    "sm_120": (8, 7), "sm_120a": (8, 7), "sm_120f": (8, 8),
    "sm_121": (8, 8), "sm_121a": (8, 8), "sm_121f": (8, 8),
}  # fmt: skip
"""Target -> the version of the PTX ISA that introduced it: section "PTX Module Directives: .target"."""

RENAMED: Mapping[str, str] = {"sm_101": "sm_110", "sm_101a": "sm_110a", "sm_101f": "sm_110f"}
"""Old name -> name from PTX ISA 9.0 on."""

FAMILIES = ((100, 103, 107), (101, 110), (120, 121))
"""Numbers of the targets that share family-specific features: one such feature is there from the number that it names on."""

WGMMA = frozenset({"sm_90a"})
SM_107 = frozenset({"sm_107a", "sm_107f"})
TCGEN05 = TENSOR_MEMORY_TARGETS
ARCHITECTURE_SPECIFIC = frozenset(target for target in TCGEN05 if target.endswith("a"))
SCALE_INPUT = TCGEN05 - {"sm_101a", "sm_101f", "sm_110a", "sm_110f"}


@cache
def at_least(number: int, suffixes: str = "") -> frozenset[str]:
    """The targets from sm_``number`` on, those with one of the suffixes if there are any.

    >>> sorted(at_least(120, "a"))
    ['sm_120a', 'sm_121a']
    """
    found = set()
    for target in TARGETS:
        m = re.fullmatch(r"sm_(\d+)([af]?)", target)
        if m and int(m[1]) >= number and (not suffixes or (m[2] and m[2] in suffixes)):
            found.add(target)
    return frozenset(found)


@cache
def runs_on(target: str, device: str) -> bool:
    """Return whether code for ``target`` runs on ``device``.

    Plain targets run on all later devices, family-specific ones in their family, architecture-specific ones on that architecture.

    >>> runs_on("sm_80", "sm_100a"), runs_on("sm_100f", "sm_103a"), runs_on("sm_100a", "sm_103a")
    (True, True, False)
    """
    wanted, given = re.fullmatch(r"sm_(\d+)([af]?)", target), re.fullmatch(r"sm_(\d+)[af]?", device)
    if not wanted or not given:
        return False
    want, have = int(wanted[1]), int(given[1])
    if wanted[2] == "a":
        return want == have
    if wanted[2] == "f":
        return have >= want and any(want in family and have in family for family in FAMILIES)
    return have >= want


@cache
def parse_targets(text: str) -> frozenset[str]:
    """The targets that a text of words names: ``sm_80`` and everything newer, ``sm_100a`` alone, ``sm_100f`` with its family.

    >>> sorted(parse_targets("sm_120f sm_90a"))
    ['sm_120a', 'sm_120f', 'sm_121a', 'sm_121f', 'sm_90a']
    """
    found: set[str] = set()
    for word in text.split():
        m = re.fullmatch(r"sm_(\d+)([af]?)", word)
        if m is None:
            raise ValueError(f"{word!r} is no target")
        number, suffix = int(m[1]), m[2]
        if not suffix:
            found |= at_least(number)
        elif suffix == "a":
            found.add(word)
        else:
            family = next((f for f in FAMILIES if number in f), (number,))
            found |= {f"sm_{n}{s}" for n in family if n >= number for s in "af"} & TARGETS.keys()
    return frozenset(found)


def name_targets(targets: frozenset[str]) -> str:
    """A set of targets in few words; old names of renamed targets are left out, where the new ones are there.

    >>> name_targets(at_least(90)), name_targets(parse_targets("sm_90a sm_100f"))
    ('sm_90 and newer', 'sm_100f family, sm_90a')
    """
    renamed = {old for old, new in RENAMED.items() if new in targets}
    numbers = sorted({int(re.findall(r"\d+", target)[0]) for target in TARGETS})
    newer = next((number for number in numbers if at_least(number) <= targets | set(RENAMED)), None)
    words = [] if newer is None else [f"sm_{newer} and newer"]
    left = targets - renamed - (frozenset() if newer is None else at_least(newer))
    for number in numbers:
        family = parse_targets(f"sm_{number}f") & TARGETS.keys()
        if f"sm_{number}f" in left and family - renamed <= targets:
            words.append(f"sm_{number}f family")
            left -= family
    return ", ".join([*words, *sorted(left)])
