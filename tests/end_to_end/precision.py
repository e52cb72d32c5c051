"""How many of the bits that are called undefined are the same in 64 fillings: ``python -m tests.end_to_end.precision [KERNEL ...]``.

Counted by the family of the instruction that computed them, and apart: the bits of global memory at the end of a launch (stores), and the
bits that decide branches and addresses. At stores a kernel counts if at least 1,000 bits are called undefined; undefined are what nothing
has written, and some elements of the arguments, as a load whose guard is false leaves them. At branches and addresses only the first
decision of each thread can be compared (see `decisions`): few bits for each kernel, so that all are shown.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np

from ptxlab.engine.lowering.register_use import flatten
from ptxlab.engine.program import Observed, Program
from ptxlab.isa.native_ops import LaneAccess
from ptxlab.isa.operands import Op, Reg
from ptxlab.machine.launch.launch import Launch
from ptxlab.machine.replay.replay import Replay
from ptxlab.machine.warp.warp import Warp
from tests.check.race.filling_helpers import Bytes, Followed, differences, followed

from .decisions import KINDS, Decisions, decided, decisive
from .replay_cases import KERNELS as EVERY

__all__ = ["DECIDING", "KERNELS", "decisions_over", "elements", "measured", "over", "table"]

LEAST = 1000
FILLINGS = 64
OTHER = "asynchronous copies and reductions"
KERNELS = (
    *("vector_add_fp32", "layer_norm_fp16", "softmax_fp32", "gl_packed_fp32", "gl_packed_fp16", "sm90_layer_norm_fp16"),
    *("h200_cluster_layer_norm", "h200_cluster_softmax", "h200_log_softmax_fast", "h200_layer_norm_welford", "h200_layer_norm_backward"),
    *("h200_rms_norm_fast", "h200_group_norm", "h200_selective_scan", "h200_linear_recurrence", "h200_fourier", "h200_hadamard"),
    *("h200_bit_operations", "h200_carry_flags", "h200_approximations", "h200_adam", "h200_arithmetic_f16", "h200_arithmetic_bf16"),
)
DECIDING = (
    *("h200_bitonic_sort.full", "h200_sparse_vector", "h200_histogram", "h200_radix_sort", "h200_top_k", "histogram_i32"),
    *("h200_reductions", "h200_scan_segments", "h200_warp_operations", "h200_colliding_atomics", "h200_lu_decomposition"),
    *("h200_softmax_online", "h200_rotary", "h200_quantise", "h200_attention_causal", "h200_attention_exact", "h200_big_integers"),
)
"""Kernels in which undefined bits of the arguments decide branches or addresses; those of the last line compare floats, or long numbers."""


def elements(replay: Replay) -> dict[int, Bytes]:
    """Masks of one in 32 elements of the floating-point arguments, or of all arguments if none is of floating point."""
    rng = np.random.default_rng(1)
    floats = [each for each in replay.arrays if each.dtype.kind == "f"]
    masks: dict[int, Bytes] = {}
    for each in floats or replay.arrays:
        allocation = replay.memory.find(each.address)
        if allocation is not None and allocation.size and allocation.base not in masks:
            size = each.dtype.itemsize
            chosen = rng.random(-(-allocation.size // size)) < 1 / 32
            masks[allocation.base] = np.repeat(np.where(chosen, 0xFF, 0).astype(np.uint8), size)[: allocation.size]
    return masks


def families(program: Program) -> Callable[[Op, int], str]:
    """The family of the last instruction before an op that writes a register, or of the last one."""
    writers: dict[int, list[int]] = {}
    for op in program.ops:
        for register in program.writes[op.index]:
            writers.setdefault(register, []).append(op.index)

    def family(reader: Op, register: int) -> str:
        found = writers.get(register, [])
        before = [index for index in found if index < reader.index]
        if not found:
            return OTHER
        semantics = program.ops[(before or found)[-1]].row.semantics
        return str(getattr(semantics, "__module__", "")).removeprefix("ptxlab.isa.").replace("._", ".")

    return family


class Producers(Followed):
    """Notes for each byte of global memory the family of the instruction that computed it."""

    def __init__(self, launch: Launch, masks: dict[int, Bytes]) -> None:
        super().__init__(launch, masks)
        self.families: list[str] = [OTHER]
        self.producers: dict[int, Bytes] = {}
        """By the address of an allocation the number of the family for each byte."""
        self._family = families(launch.program)

    def _number(self, store: Op, register: int) -> int:
        family = self._family(store, register)
        if family not in self.families:
            self.families.append(family)
        return self.families.index(family)

    def _observed(self, warp: Warp, op: Op, how: Observed, mask: int) -> None:
        super()._observed(warp, op, how, mask)
        native = self._launch.program.natives.get(op.index)
        if how is Observed.STORED and isinstance(native, LaneAccess):
            size = native.bits // 8
            numbers = [self._number(op, item.index) if isinstance(item, Reg) else 0 for item in flatten(op.operands[native.value])]
            for host in self._hosts(warp, mask).values():
                for held, _, _ in self._reached(warp, op, {0: host}):
                    base = getattr(held.owner, "base", None)
                    if base is not None:
                        places = self.producers.setdefault(base, np.zeros(held.mirror.size, np.uint8))
                        for k, number in enumerate(numbers):
                            places[host - held.start + k * size : host - held.start + (k + 1) * size] = number


def measured(replay: Replay, masks: dict[int, Bytes]) -> tuple[Counter[str], Counter[str]]:
    """By family the bits that are called undefined, and those of them that are the same in all fillings."""
    called: Counter[str] = Counter()
    same: Counter[str] = Counter()
    observer = followed(replay, masks, make=Producers)
    if observer.ended_by is not None:
        return called, same
    undefined, differ = observer.final(), differences(replay, masks, FILLINGS)
    for place, change in differ.items():
        kind, base = place
        if kind != "global" or place not in undefined:
            continue
        found = undefined[place] & ~masks.get(base, np.uint8(0))
        producers = observer.producers.get(base, np.zeros(change.size, np.uint8))
        for number, family in enumerate(observer.families):
            here = np.where(producers == number, found, 0).astype(np.uint8)
            called[family] += int(np.bitwise_count(here).sum())
            same[family] += int(np.bitwise_count(here & ~change).sum())
    return called, same


def table(called: Counter[str], same: Counter[str]) -> str:
    """The figures of each family, and of all together."""
    rows = [(family, called[family], same[family]) for family, _ in called.most_common() if called[family]]
    rows.append(("all", sum(called.values()), sum(same.values())))
    lines = [f"{'family':40} {'undefined':>10} {'the same':>10} {'':>7}"]
    return "\n".join(lines + [f"{family:40} {bits:10} {equal:10} {100 * equal / max(bits, 1):6.2f}%" for family, bits, equal in rows])


def over(names: Iterable[str]) -> tuple[Counter[str], Counter[str]]:
    """The same over kernels, one line for each."""
    called: Counter[str] = Counter()
    same: Counter[str] = Counter()
    for name in names:
        replay = EVERY[name]()
        here, equal = measured(replay, elements(replay))
        total, unchanged = sum(here.values()), sum(equal.values())
        print(f"{name:40} {total:10} {unchanged:10} {100 * unchanged / max(total, 1):6.2f}%", "(too few)" * (total < LEAST), flush=True)
        if total >= LEAST:
            called, same = called + here, same + equal
    return called, same


def decisions_over(names: Iterable[str]) -> Decisions:
    """The same for the bits that decide branches and addresses, one line for each kernel and kind."""
    result = Decisions({kind: Counter() for kind in KINDS}, {kind: Counter() for kind in KINDS})
    for name in names:
        replay = EVERY[name]()
        program = replay.kernel.variant(replay.options.contract, False)[0]
        found = decided(replay, decisive(replay), FILLINGS, families(program))
        for kind in KINDS:
            if found.called[kind]:
                print(f"{name:40} {sum(found.called[kind].values()):10} {sum(found.same[kind].values()):10}  {kind}", flush=True)
            result.called[kind] += found.called[kind]
            result.same[kind] += found.same[kind]
    return result


if __name__ == "__main__":
    print("stores", table(*over(sys.argv[1:] or KERNELS)), sep="\n")
    made = decisions_over(sys.argv[1:] or DECIDING)
    for kind in KINDS:
        print(kind, table(made.called[kind], made.same[kind]), sep="\n")
