"""Control flow: from instructions in the order of the text to basic blocks in scheduling order.

Blocks are ordered so that every loop is contiguous and its exits come after it (a weak topological order), text order
deciding among equals. A group of converged lanes at a smaller position then always runs first, and groups join again where control flow
joins.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from ptxlab._records import dataclass
from ptxlab.engine.program import BasicBlock
from ptxlab.isa.operands import Op

__all__ = ["Item", "link", "order_blocks"]

_DEEPEST = 24
"""Loops nested deeper than this keep the order of the text, so that no text takes quadratic time."""


Edges = Sequence[Sequence[int]]


def _components(nodes: list[int], successors: Edges, predecessors: Edges, inside: list[int], mark: int) -> list[list[int]]:
    """Strongly connected components of the subgraph whose nodes have ``inside[n] == mark`` (Kosaraju, without recursion)."""
    left: set[int] = set()
    finished: list[int] = []
    for root in nodes:
        work = [] if root in left else [(root, iter(successors[root]))]
        left.add(root)
        while work:
            node, rest = work[-1]
            for to in rest:
                if inside[to] == mark and to not in left:
                    left.add(to)
                    work.append((to, iter(successors[to])))
                    break
            else:
                finished.append(node)
                work.pop()
    found = []
    for root in reversed(finished):
        if root in left:
            left.discard(root)
            component = [root]
            for node in component:
                for before in predecessors[node]:
                    if before in left:
                        left.discard(before)
                        component.append(before)
            found.append(component)
    return found


def _arrange(components: list[list[int]], successors: Edges, inside: list[int], mark: int) -> list[list[int]]:
    """Components in topological order; among those that are ready, the first in the text."""
    of = {node: i for i, component in enumerate(components) for node in component}
    waiting = [0] * len(components)
    edges: list[set[int]] = [set() for _ in components]
    for node, i in of.items():
        for to in successors[node]:
            if inside[to] == mark and of[to] != i and of[to] not in edges[i]:
                edges[i].add(of[to])
                waiting[of[to]] += 1
    first = [min(component) for component in components]
    ready = [(first[i], i) for i in range(len(components)) if not waiting[i]]
    heapify(ready)
    ordered = []
    while ready:
        _, i = heappop(ready)
        ordered.append(components[i])
        for to in edges[i]:
            waiting[to] -= 1
            if not waiting[to]:
                heappush(ready, (first[to], to))
    return ordered


def order_blocks(successors: Edges) -> tuple[list[int], list[int], list[int]]:
    """Order the blocks reachable from block 0.

    Returns
    -------
    the blocks in scheduling order, and for each of these its loop depth and the position in that order of its innermost
    loop's header (-1: none)

    >>> order_blocks([[2], [1, 3], [1], []])      # 1 is a loop
    ([0, 2, 1, 3], [0, 0, 1, 0], [-1, -1, 2, -1])
    """
    count = len(successors)
    inside = [-1] * count
    reached = [0]
    inside[0] = 0
    for node in reached:
        for to in successors[node]:
            if inside[to] < 0:
                inside[to] = 0
                reached.append(to)
    predecessors: list[list[int]] = [[] for _ in range(count)]
    for node in reached:
        for to in successors[node]:
            predecessors[to].append(node)
    order: list[int] = []
    depths: list[int] = []
    headers: list[int] = []
    marks = 0
    # a task is a component of the graph marked `mark`, or a single node; `header` is the position of the innermost loop around it
    tasks: list[tuple[list[int], int, int]] = []

    def push(nodes: list[int], mark: int, depth: int, header: int) -> None:
        found = _arrange(_components(sorted(nodes), successors, predecessors, inside, mark), successors, inside, mark)
        tasks.extend((component, depth, header) for component in reversed(found))

    push(reached, 0, 0, -1)
    while tasks:
        component, depth, header = tasks.pop()
        if len(component) == 1 and component[0] not in successors[component[0]]:
            order.append(component[0])
            depths.append(depth)
            headers.append(header)
            continue
        members = set(component)
        component.sort()
        entered = [n for n in component if n == 0 or any(p not in members for p in predecessors[n])]
        head = min(entered or component)
        position = len(order)
        order.append(head)
        depths.append(depth + 1)
        headers.append(position)
        rest = [n for n in component if n != head]
        if depth >= _DEEPEST:
            order.extend(rest)
            depths.extend([depth + 1] * len(rest))
            headers.extend([position] * len(rest))
        elif rest:
            marks += 1
            inside[head] = -2
            for node in rest:
                inside[node] = marks
            push(rest, marks, depth + 1, position)
    return order, depths, headers


@dataclass(slots=True)
class Item:
    """An instruction in text order, before blocks are ordered; ``targets`` are label numbers."""

    op: Op
    targets: tuple[int, ...] = ()
    ends: bool = False
    falls: bool = True


def link(items: list[Item], labels: list[int]) -> tuple[list[Op], list[BasicBlock]]:
    """Cut the items into blocks, order these, number the ops, and set branch targets.

    Parameters
    ----------
    items : the last one ends a block, and no lane continues after it
    labels : label number -> index of the item after it, -1 for a label that stands nowhere
    """
    leaders = {0, *labels} - {-1}
    leaders.update(i + 1 for i, item in enumerate(items) if item.ends)
    starts = sorted(i for i in leaders if i < len(items))
    block_of = {start: i for i, start in enumerate(starts)}
    stops = [*starts[1:], len(items)]
    successors: list[tuple[int, ...]] = []
    falls: list[int] = []
    for stop in stops:
        last = items[stop - 1]
        fall = block_of[stop] if last.falls and stop < len(items) else -1
        falls.append(fall)
        out = [block_of[labels[target]] for target in last.targets]
        successors.append(tuple(dict.fromkeys([*out, fall] if fall >= 0 else out)))
    order, depths, headers = order_blocks(successors)
    position = {block: i for i, block in enumerate(order)} | {-1: -1}
    ops: list[Op] = []
    blocks: list[BasicBlock] = []
    targets: list[tuple[int, ...]] = []
    for block, depth, header in zip(order, depths, headers, strict=True):
        inside = items[starts[block] : stops[block]]
        following = tuple(position[s] for s in successors[block])
        blocks.append(BasicBlock(len(ops), len(ops) + len(inside), following, depth, header, position[falls[block]]))
        ops += [item.op for item in inside]
        targets += [item.targets for item in inside]
    for index, (op, numbers) in enumerate(zip(ops, targets, strict=True)):
        op.index = index
        if numbers:
            op.targets = tuple(blocks[position[block_of[labels[number]]]].start for number in numbers)
    return ops, blocks
