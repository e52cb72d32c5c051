"""A launch, run again and again with other random bits in everything that nothing has written, and in some bytes of its arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ptxlab.check.race.undefined.device_memory import ObjectOrigins
from ptxlab.check.race.undefined.observer import UndefinedBitsObserver
from ptxlab.check.race.undefined.raced import Raced
from ptxlab.engine import mirrored
from ptxlab.engine.program import Observed
from ptxlab.isa.address_space import SHARED_RESERVED
from ptxlab.isa.native_ops import LaneAccess
from ptxlab.isa.operands import Op
from ptxlab.isa.operations import AsyncOperation, MemoryAccess
from ptxlab.machine.launch.cta import CtaState
from ptxlab.machine.launch.launch import Launch
from ptxlab.machine.memory.global_memory import DeviceMemory
from ptxlab.machine.observe.observer import Observer
from ptxlab.machine.replay.replay import Replay
from ptxlab.machine.warp.warp import Warp

__all__ = ["Bytes", "Followed", "Memories", "differences", "filled", "followed", "interference", "randomised", "some_bits"]

Bytes: TypeAlias = NDArray[np.uint8]
Place: TypeAlias = tuple[str, Any]
"""An allocation of global memory, the shared memory of a CTA, or the tensor memory that it has used, as the CTA leaves it."""
Memories: TypeAlias = dict[Place, Bytes]


def some_bits(replay: Replay, seed: int, kinds: str = "fiu", runs: int = 3) -> dict[int, Bytes]:
    """Masks of bits of the arrays among the arguments, by their addresses: a few runs of bytes, and a few single bits.

    ``kinds``: of the types of elements, as in NumPy; the types of eight bits and fewer that NumPy lacks are ``V``.
    """
    rng = np.random.default_rng(seed)
    masks: dict[int, Bytes] = {}
    for each in replay.arrays:
        allocation = replay.memory.find(each.address)
        if allocation is None or not allocation.size or each.dtype.kind not in kinds or allocation.base in masks:
            continue
        mask = masks[allocation.base] = np.zeros(allocation.size, np.uint8)
        for _ in range(runs):
            first = int(rng.integers(allocation.size))
            mask[first : first + int(rng.integers(1, 33))] = 0xFF
            mask[rng.integers(allocation.size)] |= 1 << int(rng.integers(8))
    return masks


class Ends(Observer):
    """Keeps what is in shared and tensor memory when a CTA ends."""

    def __init__(self) -> None:
        self.memories: Memories = {}

    def ended(self, cta: CtaState) -> None:
        self.memories["shared", cta.ctaid] = cta.shared[SHARED_RESERVED:].copy()
        self.memories["tensor", cta.ctaid] = cta.tensor.words.reshape(-1).view(np.uint8).copy()


class Followed(UndefinedBitsObserver):
    """Follows undefined bits, those of ``masks`` in global memory included, and keeps the mirrors when a CTA ends.

    Attributes
    ----------
    memories : the undefined bits of each place
    ended_by : the first op behind which undefined bits are not followed: they decide a branch, an address, a barrier or a descriptor,
        or go to an atomic. Stores are no such ops
    """

    def __init__(self, launch: Launch, masks: Mapping[int, Bytes]) -> None:
        super().__init__(launch, Raced())
        self.memories: Memories = {}
        self.ended_by: Op | None = None
        self._stores = False
        for held in self._mirrors.allocations():
            held.origins = ObjectOrigins()
        self._global = {each.base: self._mirrors.of(each.data) for each in launch.device.memory.live() if each.size and each.writable}
        for base, mask in masks.items():
            if base in self._global:
                self._global[base][:] = mask

    def ended(self, cta: CtaState) -> None:
        self.memories["shared", cta.ctaid] = self._of_cta[id(cta)].mirror[SHARED_RESERVED:].copy()
        self.memories["tensor", cta.ctaid] = self._tensors[id(cta.tensor)].mirror.copy()
        super().ended(cta)

    def performing(self, operation: AsyncOperation) -> None:
        self._stores = True
        super().performing(operation)

    def accessed(self, warp: Warp, accesses: Iterable[MemoryAccess]) -> None:
        self._stores = False
        super().accessed(warp, accesses)

    def _observed(self, warp: Warp, op: Op, how: Observed, mask: int) -> None:
        self._stores = how is Observed.LEAVE and isinstance(self._launch.program.natives.get(op.index), LaneAccess)
        super()._observed(warp, op, how, mask)

    def _note(self, origins: Iterable[int], op: Op) -> None:
        listed = tuple(origins)
        if listed and not self._stores:
            self.ended_by = self.ended_by or op
        super()._note(listed, op)

    def final(self) -> Memories:
        """With the undefined bits of global memory."""
        return self.memories | {("global", base): mirror for base, mirror in self._global.items()}


def followed(replay: Replay, masks: dict[int, Bytes], make: Any = Followed) -> Any:
    """The undefined bits of a launch, which must come to its end."""
    program = mirrored(replay.kernel.variant(replay.options.contract, False)[0], frozenset())
    result, observer = replay.observe(lambda launch: make(launch, masks), program)
    assert observer.raised is None, observer.raised
    assert result.completed, result.diagnostics
    return observer


_ALIKE = ({"f": 0.0, "i": 0, "u": 0}, {"f": -np.inf, "i": -1, "u": -1}, {"f": np.nan, "i": 1, "u": 1}, {"f": np.inf, "i": -2, "u": -2})
"""By the kind of a NumPy type, the value of all undefined elements in four of 16 fillings: random bits hardly ever give such values."""


_SIZES = (1.0, 4.0, 16.0, 64.0, 2.0**-8, 2.0**8, 2.0**12)
"""Of floats in seven of 16 fillings. Results that are divided by their own norm stay near 1 unless the operands differ much in size."""


def filling(type: np.dtype[Any], size: int, seed: int, rng: np.random.Generator, other: Bytes) -> Bytes:
    """So many bytes: in four of 16 fillings elements of one value, in seven floats of some size, in one ``other``, else random bits."""
    number = seed % 16 - 1
    if type.kind in "fiu" and 0 <= number < 4:
        return np.resize(np.array(_ALIKE[number][type.kind]).astype(type).reshape(1).view(np.uint8), size)
    if type.kind == "f" and 4 <= number < 4 + len(_SIZES):
        found = rng.standard_normal(-(-size // type.itemsize)) * _SIZES[number - 4]
        return found.astype(type).view(np.uint8)[:size]
    return other if number == 11 else np.frombuffer(rng.bytes(size), np.uint8)


def randomised(replay: Replay, masks: Mapping[int, Bytes], seed: int) -> DeviceMemory:
    """The memory of a launch with other bits where ``masks`` say that they are undefined.

    In one of 16 fillings they are those that another array has at the same place: random bits hardly ever make two operands equal.
    """
    rng = np.random.default_rng(seed)
    memory = replay.memory.copy()
    types = {found.base: each.dtype for each in reversed(replay.arrays) if (found := memory.find(each.address)) is not None}
    arrays = {base: found.data.copy() for base in types if (found := memory.find(base)) is not None and found.size}
    for allocation in memory.live():
        mask = masks.get(allocation.base)
        if mask is not None:
            others = [data for base, data in arrays.items() if base != allocation.base] or [allocation.data]
            other = np.resize(others[seed // 16 % len(others)], mask.size)
            bits = filling(types.get(allocation.base, np.dtype(np.uint8)), mask.size, seed, rng, other)
            allocation.data[:] = allocation.data & ~mask | bits & mask
    return memory


def filled(replay: Replay, masks: Mapping[int, Bytes], seed: int) -> Memories:
    """What stands in memory at the end of a launch whose undefined bits are random."""
    memory = randomised(replay, masks, seed)
    ends = Ends()
    program, _ = replay.kernel.variant(replay.options.contract, False, False)
    result, after = replace(replay, memory=memory).run(lambda _: ends, program, undefined="random", seed=seed, check="none", progress=None)
    assert result.completed, result.diagnostics
    return ends.memories | {("global", each.base): each.data for each in after.live()}


def differences(replay: Replay, masks: Mapping[int, Bytes], fillings: int) -> Memories:
    """The bits of memory that differ between fillings."""
    first = filled(replay, masks, 0)
    differ = {place: np.zeros_like(data) for place, data in first.items()}
    for seed in range(1, fillings):
        for place, data in filled(replay, masks, seed).items():
            differ[place] |= data ^ first[place]
    return differ


def interference(undefined: Memories, differ: Memories) -> list[str]:
    """The places in which a bit that is called defined differs."""
    found = []
    for place, change in differ.items():
        wrong = np.flatnonzero(change & ~undefined[place]) if place in undefined else np.zeros(0, np.intp)
        found += [f"{place} byte {at}: {undefined[place][at]:#x} undefined, {change[at]:#x} differs" for at in wrong[:3].tolist()]
        if wrong.size > 3:
            found.append(f"{place}: {wrong.size} bytes")
    return found
