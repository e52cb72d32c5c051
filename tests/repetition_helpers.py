"""The same launch twice: compiled code repeats executions, and handlers execute each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ptxlab
from ptxlab.machine.warp import context_words

__all__ = ["both_ways", "note_handled", "three_ways"]


def note_handled(patch: pytest.MonkeyPatch, module: Any, function: str, handled: list[int]) -> None:
    """Note the lines of the instructions whose handlers go as far as to call a function of a module."""
    issue = getattr(module, function)

    def noted(warp: Any, *rest: Any, **more: Any) -> Any:
        handled.append(warp.op.line)
        return issue(warp, *rest, **more)

    patch.setattr(module, function, noted)


def both_ways(run: Callable[[], tuple[Any, ...]], handled: list[int]) -> tuple[list[NDArray[Any]], ptxlab.Result, list[int], list[int]]:
    """What a launch gives, which is the same if handlers execute each time; and what they have ``handled`` in each of the two launches.

    ``run`` launches, and returns arrays and the result.
    """
    found = []
    for way in (context_words._table_of_repetitions, lambda launch: 0):
        memories: list[Any] = []

        def noted(launch: Any, way: Any = way, memories: list[Any] = memories) -> int:
            memories.append(launch.host_memory)
            address: int = way(launch)
            return address

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(context_words, "_table_of_repetitions", noted)
            handled.clear()
            *arrays, result = run()
        stats = result.stats.instructions, result.stats.services, memories[0].progress[0], result.completed
        found.append((arrays, result, list(handled), stats, [str(d) for d in result.diagnostics]))
    first, second = found
    assert first[3:] == second[3:]
    for one, other in zip(first[0], second[0], strict=True):
        np.testing.assert_array_equal(one.view(np.uint8), other.view(np.uint8))
    return *first[:3], second[2]


def three_ways(run: Callable[[], tuple[Any, ...]], module: Any, function: str) -> tuple[tuple[Any, ...], list[int]]:
    """What a launch gives: a first one, a second one, and one whose handlers execute each time give the same.

    ``run`` launches, and returns the result and arrays. Also how often handlers call a function of ``module`` in each of the launches.
    """
    table, found, handled = context_words._table_of_repetitions, [], []
    for way in (table, table, lambda launch: 0):
        lines: list[int] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(context_words, "_table_of_repetitions", way)
            note_handled(patch, module, function, lines)
            given = result, *arrays = run()
        assert result.completed, result.diagnostics
        same = [each.tobytes() for each in arrays], result.stats.services, result.stats.instructions, [str(d) for d in result.diagnostics]
        found.append((given, same))
        handled.append(len(lines))
    assert found[0][1] == found[1][1] == found[2][1]
    return found[0][0], handled
