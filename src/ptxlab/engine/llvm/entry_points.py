"""The places where execution may enter compiled code, and which of them are compiled together."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.engine.lowering.frame import members
from ptxlab.engine.lowering.register_use import go_back, is_inline
from ptxlab.engine.program import Program
from ptxlab.isa.catalogue import Control
from ptxlab.isa.native_ops import Collective, MatrixAccess, TensorAccess
from ptxlab.isa.operands import Op

__all__ = ["Node", "Nodes", "exchanges_lanes"]

_REGION_OPS = 600
_NODE_OPS, _STEPPED_NODE_OPS = 300, 128


@dataclass(slots=True)
class Node:
    """Ops ``start <= index < stop`` of one block; execution may enter at ``start``. ``head`` if the block starts here."""

    start: int
    stop: int
    block: int
    head: bool


def exchanges_lanes(program: Program, op: Op) -> bool:
    """Whether lanes of a warp execute an op together, so that some may have to wait at it for others."""
    return isinstance(program.natives.get(op.index), Collective | MatrixAccess | TensorAccess)


class Nodes:
    """All nodes of a program in order.

    A node starts with every block, after every service, elect and bar.warp.sync, at every exchange between lanes and at every indexed
    branch (where groups of converged lanes wait for each other), at every cut in a long run, and where a node would become too long to
    compile quickly. Those of a stepped program are short: a debugger executes a part of a node op by op.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.nodes: list[Node] = []
        self._regions: dict[int, list[int]] = {}
        self._live: dict[int, dict[int, NDArray[np.int32]]] = {}
        most = _STEPPED_NODE_OPS if program.stepped else _NODE_OPS
        for number, block in enumerate(program.blocks):
            start = block.start
            for i in range(block.start, block.stop):
                op = program.ops[i]
                cut = i > start and (i in program.cuts or self._entered(i))
                if i > start and not cut and i - start >= most and (program.stepped or not is_inline(program, op)):
                    cut = True
                if cut:
                    self.nodes.append(Node(start, i, number, start == block.start))
                    start = i
                if (op.row.kind == "service" or self._pairs_up(i)) and i + 1 < block.stop:
                    self.nodes.append(Node(start, i + 1, number, start == block.start))
                    start = i + 1
            self.nodes.append(Node(start, block.stop, number, start == block.start))
        self.starts = [node.start for node in self.nodes]

    def _entered(self, index: int) -> bool:
        op = self.program.ops[index]
        if op.row.kind == "control":
            return op.row.semantics is Control.INDEXED_BRANCH
        return exchanges_lanes(self.program, op)

    def _pairs_up(self, index: int) -> bool:
        """Whether this exchange can be executed together with one at a different op; the machine then continues after it."""
        native = self.program.natives.get(index)
        return isinstance(native, Collective) and native.anywhere

    def at(self, pc: int) -> int:
        """The number of the node that an op index lies in."""
        return bisect_right(self.starts, pc) - 1

    def behind(self, node: Node, index: int) -> int:
        """The op index that follows an op of a node."""
        block = self.program.blocks[node.block]
        return index + 1 if index + 1 < block.stop else self.program.blocks[block.fall].start

    def charge(self, node: Node) -> int:
        """The instructions that count as executed where a node begins: those of a long run at its start, and none at its cuts."""
        cuts = self.program.cuts
        if node.start in cuts:
            return 0
        stop = node.stop
        while stop in cuts:
            stop = self.nodes[self.at(stop)].stop
        return stop - node.start

    def live_behind(self, node: Node) -> set[int]:
        """The registers that are live where a node ends."""
        program, block = self.program, self.program.blocks[node.block]
        if node.stop == block.stop:
            return set(members(program.live_out[node.block], program.crossing))
        if node.block not in self._live:
            self._live[node.block] = self._live_at_ends(node.block)
        return set(self._live[node.block][node.stop].tolist())

    def _live_at_ends(self, number: int) -> dict[int, NDArray[np.int32]]:
        """The registers that are live where the second and later nodes of a block begin."""
        program, block = self.program, self.program.blocks[number]
        live = set(members(program.live_out[number], program.crossing))
        starts = self.starts[self.at(block.start) + 1 : self.at(block.stop - 1) + 1]
        found = {}
        stop = block.stop
        for start in reversed(starts):
            go_back(program, start, stop, live)
            found[start] = np.fromiter(live, np.int32, len(live))
            stop = start
        return found

    def following(self, number: int) -> list[int]:
        """Nodes that may come next, the likeliest first."""
        node = self.nodes[number]
        block = self.program.blocks[node.block]
        if node.stop < block.stop:
            return [number + 1]
        return [self.at(self.program.blocks[s].start) for s in block.successors]

    def behind_all_ways(self, number: int) -> Iterator[int]:
        """Nodes behind one that all lanes pass which go on from it, unless they trap: found in the order of nodes, so perhaps not all."""
        first = furthest = at = number
        while at < len(self.nodes) and at <= furthest:
            if at == furthest and at > number:
                yield at
            work = [at]
            while work:
                each = work.pop()
                last = self.program.ops[self.nodes[each].stop - 1].row
                if last.kind == "control" and last.semantics in (Control.EXIT, Control.RETURN):
                    return
                targets = self.following(each)
                furthest = max(furthest, *targets, each)
                back = min(targets, default=each)
                work += range(back, first)
                first = min(first, back)
            at += 1

    def region_of(self, number: int) -> list[int]:
        """The nodes that are compiled together with one: the same in every run, so that code compiled ahead is found again."""
        if not self._regions:
            for each in range(len(self.nodes)):
                if each not in self._regions:
                    together = self._gather(each)
                    self._regions.update(dict.fromkeys(together, together))
        return self._regions[number]

    def _gather(self, number: int) -> list[int]:
        """Nodes near one in the control flow that belong to no region yet, inner loops first."""
        depth = self.program.blocks[self.nodes[number].block].depth
        chosen: list[int] = []
        seen = {number}
        work = deque([number])
        size = 0
        while work and size < _REGION_OPS:
            at = work.popleft()
            chosen.append(at)
            size += self.nodes[at].stop - self.nodes[at].start
            for to in self.following(at):
                if to not in seen and to not in self._regions:
                    seen.add(to)
                    if self.program.blocks[self.nodes[to].block].depth >= max(depth, 1):
                        work.appendleft(to)
                    else:
                        work.append(to)
        return sorted(chosen)
