"""A small machine for engine tests: one warp, one CTA, some allocations; splits are run in scheduling order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ptxlab import ptx
from ptxlab.engine import WORDS, Context, Executable, Fault, Program, Status, Word, lower
from ptxlab.isa.address_space import GLOBAL_BASE

HEADER = ".version 9.0\n.target sm_100a\n.address_size 64\n"
FULL = 0xFFFFFFFF


def program_of(body: str, *, params: str = "", before: str = "", regs: str = "") -> Program:
    """Lower a kernel with the usual registers: %p %h %r %rd %rq %f %fd."""
    usual = (
        ".reg .pred %p<20>; .reg .b16 %h<40>; .reg .b32 %r<80>; .reg .b64 %rd<40>; .reg .b128 %rq<8>; .reg .f32 %f<20>; .reg .f64 %fd<20>;"
    )
    text = f"{HEADER}{before}\n.visible .entry k({params})\n{{\n{usual}\n{regs}\n{body}\n}}\n"
    module = ptx.parse(text)
    return lower(module, module.functions["k"])


@dataclass
class Bench:
    """State of one warp."""

    program: Program
    backend: str = "llvm"
    shared_bytes: int = 0x2000
    lanes: int = FULL
    services: Any = None
    arrays: list[np.ndarray] = field(default_factory=list)
    readonly: tuple[int, ...] = ()
    tensor: bool = True
    rank: int = 0
    cluster: int = 1
    status: Status = Status.EXIT
    fuel: int = 1_000_000

    def __post_init__(self) -> None:
        self.executable = Executable(self.program, backend=self.backend)
        self.frame = self.executable.new_frame()
        c = self.context = Context()
        assert len(c.words) == WORDS
        self.all_shared = [np.zeros(self.shared_bytes, np.uint8) for _ in range(self.cluster)]
        self.shared = self.all_shared[self.rank]
        self.params = np.zeros(max(self.program.param_bytes, 8), np.uint8)
        self.words = np.zeros((512, 128), np.uint32)
        self.owned = np.ones(512, np.uint8)
        self.local = np.zeros(max(self.program.local_bytes, 1) * 32, np.uint8)
        self.pending = np.zeros((256, 3), np.uint64)
        self.rows = np.zeros((max(len(self.arrays), 1), 4), np.uint64)
        self.addresses = [GLOBAL_BASE + 0x10000 * (i + 1) for i in range(len(self.arrays))]
        for i, array in enumerate(self.arrays):
            self.rows[i] = self.addresses[i], array.nbytes, array.ctypes.data, 1 if i in self.readonly else 3
        self.peers = np.array([(s.ctypes.data, s.nbytes) for s in self.all_shared], np.uint64)
        self.symbols = np.array([a for a, _ in zip(self.addresses, self.program.symbols, strict=False)] or [0], np.uint64)
        for word, value in {
            Word.FRAME: self.frame.ctypes.data,
            Word.MASK: self.lanes,
            Word.LIVE: self.lanes,
            Word.LIMIT: 1 << 62,
            Word.FUEL: self.fuel,
            Word.SHARED: self.shared.ctypes.data,
            Word.SHARED_SIZE: self.shared.nbytes,
            Word.SHARED_RANK: self.rank << 24,
            Word.CLUSTER: self.peers.ctypes.data,
            Word.CLUSTER_SIZE: self.cluster,
            Word.PARAM: self.params.ctypes.data,
            Word.PARAM_SIZE: self.program.param_bytes,
            Word.ALLOCATIONS: self.rows.ctypes.data,
            Word.ALLOCATION_COUNT: len(self.arrays),
            Word.SYMBOLS: self.symbols.ctypes.data,
            Word.TENSOR: self.words.ctypes.data if self.tensor else 0,
            Word.TENSOR_OWNED: self.owned.ctypes.data,
            Word.LOCAL: self.local.ctypes.data,
            Word.LOCAL_SIZE: self.program.local_bytes,
            Word.PENDING: self.pending.ctypes.data,
            Word.PENDING_CAPACITY: len(self.pending),
        }.items():
            c.words[word] = value
        for register in self.program.registers:
            if register.special and register.offset >= 0:
                view = register.view(self.frame)
                view[...] = np.arange(32) if register.special in ("%tid.x", "%laneid") else 0

    def set_param(self, name: str, value: int) -> None:
        parameter = next(p for p in self.program.parameters if p.name == name)
        self.params[parameter.offset : parameter.offset + parameter.size] = np.frombuffer(
            int(value).to_bytes(parameter.size, "little", signed=value < 0), np.uint8
        )

    def row(self, name: str) -> np.ndarray:
        register = next(r for r in self.program.registers if r.name == name)
        return register.view(self.frame)

    def run(self) -> Status:
        """Run all splits to the end, the earliest first; stops at a fault."""
        c = self.context.words
        splits: dict[int, int] = {0: int(c[Word.MASK])}
        for _ in range(100_000):
            if not splits:
                self.status = Status.EXIT
                return self.status
            pc = min(splits)
            c[Word.PC], c[Word.MASK] = pc, splits.pop(pc)
            c[Word.LIMIT] = min(splits, default=1 << 62)
            self.status = status = self.executable.run(self.context)
            mask, pc = int(c[Word.MASK]), int(c[Word.PC])
            if status is Status.EXIT:
                continue
            if status is Status.DIVERGE:
                active = int(c[Word.ACTIVE])
                assert (active and active != mask & FULL) or int(c[Word.TAKEN]) != int(c[Word.NEXT])
                for target, lanes in ((int(c[Word.TAKEN]), active), (int(c[Word.NEXT]), mask & ~active)):
                    if lanes:
                        splits[target] = splits.get(target, 0) | lanes
                continue
            if status is Status.SERVICE:
                self.services(self, self.program.ops[int(c[Word.INFO])], int(c[Word.ACTIVE]))
            elif status is Status.CONVERGE:
                if not splits:
                    return status
                other = min(splits)
                splits[pc] = splits.get(pc, 0) | mask
                lanes = splits.pop(other)
                c[Word.PC], c[Word.MASK], c[Word.LIMIT] = other, lanes, 1 << 62
                splits[other] = lanes
                self._advance(splits, other)
                continue
            elif status is not Status.YIELD:
                return status
            splits[pc] = splits.get(pc, 0) | mask
        raise AssertionError("the splits make no progress")

    def _advance(self, splits: dict[int, int], pc: int) -> None:
        """Run one split that is not the earliest, until it stops."""
        c = self.context.words
        c[Word.PC], c[Word.MASK], c[Word.LIMIT] = pc, splits.pop(pc), 1 << 62
        status = self.executable.run(self.context)
        assert status in (Status.EXIT, Status.CONVERGE), status
        if status is Status.CONVERGE:
            at = int(c[Word.PC])
            splits[at] = splits.get(at, 0) | int(c[Word.MASK])

    @property
    def fault(self) -> tuple[Fault, int, int]:
        """Fault, lane, address."""
        c = self.context.words
        return Fault(int(c[Word.FAULT])), int(c[Word.FAULT_LANE]), int(c[Word.FAULT_ADDRESS])
