"""Memories, barriers and outstanding asynchronous operations of a launch, as plain values; a digest of its whole state."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.debug._points import refuse, warp_name
from ptxlab.debug._registers import dtype_of
from ptxlab.engine.context import Word
from ptxlab.engine.turns.words import BARRIERS, BarrierCell
from ptxlab.isa.address_space import SHARED_RANK_SHIFT, SHARED_WINDOW
from ptxlab.isa.context import Misuse
from ptxlab.isa.operations import AsyncOperation, MemoryAccess
from ptxlab.machine.memory.tensor_memory import COLUMNS, LANES

if TYPE_CHECKING:
    from ptxlab.debug._execution import Execution
    from ptxlab.machine.launch.cta import CtaState
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.warp.warp import ConvergedLanes, Warp

__all__ = ["SPACES", "barriers_of", "digest", "memory_bytes", "operations_of", "shared_offset", "tensor_words", "typed", "variables"]

SPACES = ("global", "shared", "local", "param")
_TURN_WORDS = Word.QUEUED, Word.LAST_SLICE, Word.FUEL_LEFT, Word.SEEN_PROGRESS


def variables(launch: Launch) -> dict[tuple[str, str], int]:
    """The addresses of variables and parameters by state space and name; constants count as global."""
    program = launch.program
    known = launch.symbol_addresses.items()
    found = {("global" if space == "const" else space, name): address for (space, name), address in known if space != "func"}
    found |= {("shared", name): offset for name, offset in program.shared.variables.items()}
    found |= {("local", name): offset for name, offset in program.local_variables.items()}
    return found | {("param", each.name): each.offset for each in program.parameters}


def shared_offset(address: int) -> int:
    """The offset in the window of a CTA of an address in shared memory, generic or not."""
    return (address - SHARED_WINDOW if address >= SHARED_WINDOW else address) & (1 << SHARED_RANK_SHIFT) - 1


def memory_bytes(
    launch: Launch, space: str, address: int, size: int, cta: CtaState | None, warp: Warp | None, lane: int
) -> NDArray[np.uint8]:
    """Bytes of a memory as a view; what is not there is refused."""
    if space == "global":
        try:
            return launch.device.memory.view(address, size)
        except Misuse as misuse:
            raise refuse("G103", misuse.message) from None
    if space == "shared":
        if cta is None:
            raise refuse("G103", "no CTA is chosen, or it is not resident", fix="choose one that is")
        held, start = cta.shared, shared_offset(address)
    elif space == "local":
        if warp is None:
            raise refuse("G103", "no warp is chosen, or it has ended", fix="choose one that has not")
        held, start = warp.local_memory(lane), address
    elif space == "param":
        held, start = launch.parameter_bytes, address
    else:
        raise refuse("G103", f"there is no memory {space}", fix=f"memories are {', '.join(SPACES)}, and tensor memory")
    if start < 0 or start + size > len(held):
        raise refuse("G103", f"{size} bytes at {start:#x} are not inside the {len(held)} bytes of {space} memory")
    return held[start : start + size]


def typed(held: NDArray[np.uint8], type: str) -> NDArray[Any]:
    """A copy of bytes as an array of a type."""
    found: NDArray[Any] = held.copy().view(dtype_of(type))
    return found


def tensor_words(cta: CtaState, lane: int, column: int, lanes: int, columns: int) -> NDArray[np.uint32]:
    """A copy of cells of tensor memory as [lane, column]."""
    if lane < 0 or column < 0 or lanes < 1 or columns < 1 or lane + lanes > LANES or column + columns > COLUMNS:
        raise refuse(
            "G103", f"lanes {lane} to {lane + lanes - 1} and columns {column} to {column + columns - 1} are not all in tensor memory"
        )
    return np.ascontiguousarray(cta.tensor.words[column : column + columns, lane : lane + lanes].T)


# ------------------------------------------------------------------------------------------------------------------ barriers


def barriers_of(cta: CtaState) -> list[dict[str, Any]]:
    """The mbarriers of a CTA, the barriers that it has used, and that of its cluster."""
    found: list[dict[str, Any]] = []
    for offset, each in sorted(cta.mbarriers.items()):
        state = {"kind": "mbarrier", "offset": offset, "phase": each.phase, "parity": each.phase & 1, "pending": each.pending}
        found.append(state | {"expected": each.expected, "bytes": each.transactions, "waiting": _groups(each.waiters)})
    for number in range(BARRIERS):
        if not cta.memory.barriers[BarrierCell.GENERATION + number] and number not in cta.named:
            continue
        named = cta.named[number]
        expected = cta.live_threads if named.expected is None else named.expected
        state = {"kind": "barrier", "number": number, "arrived": named.arrived, "expected": expected}
        found.append(state | {"waiting": _groups(named.waiters)})
    cluster = cta.group.barrier
    if len(cta.cluster) > 1 or cluster.phase or cluster.arrived:
        state = {"kind": "cluster barrier", "phase": cluster.phase, "arrived": cluster.arrived, "expected": cluster.expected}
        found.append(state | {"waiting": _groups(cluster.waiters)})
    return found


def _groups(groups: Iterable[ConvergedLanes]) -> list[dict[str, Any]]:
    return [
        {"cta": group.warp.cta.ctaid, "warp": group.warp.warp_id, "lanes": hex(group.mask), "line": group.instruction.line}
        for group in groups
    ]


# ---------------------------------------------------------------------------------------------------------------- operations


def operations_of(execution: Execution) -> list[dict[str, Any]]:
    """The outstanding asynchronous operations in the order of issue, with the one that is about to perform."""
    order, current = execution.launch.scheduler, execution.point.operation
    heads: set[Any] = set()
    found = []
    for operation in (*([] if current is None else [current]), *order.pending, *order.signals):
        first = operation.queue is None or operation.queue not in heads
        performs = operation.after is None and first and operation is not current
        if operation.queue is not None and operation.after is None:
            heads.add(operation.queue)
        author = execution.issuers[operation]
        about: dict[str, Any] = {
            "number": execution.numbers[operation],
            "opcode": operation.op.opcode,
            "line": operation.op.line,
            "cta": operation.cta.ctaid,
            "warp": None if author.warp is None else warp_name(author.warp)[1],
            "can perform": performs,
        }
        if operation is current:
            about["performs next"] = True
        if operation.after is not None:
            about["after"] = [execution.numbers[o] for o in operation.after if o in execution.numbers]
        found.append(about | {"accesses": _accesses(execution.launch, operation)})
    return sorted(found, key=lambda about: about["number"])


def _accesses(launch: Launch, operation: AsyncOperation) -> list[dict[str, Any]]:
    """What an operation reads and writes: for each memory the first byte, the end of the last one, and the number of bytes."""
    accesses = () if operation.accesses is None else operation.accesses()
    return [
        {"does": "write" if access.write else "read", "memory": memory, "from": first, "to": last, "bytes": count}
        for access in accesses
        for memory, first, last, count in _ranges(launch, access)
    ]


def _ranges(launch: Launch, access: MemoryAccess) -> Iterator[tuple[str, int, int, int]]:
    starts = access.starts.astype(np.int64)
    sizes = np.broadcast_to(access.sizes, starts.shape).astype(np.int64)
    for memory, host, size, base in _memories(launch):
        inside = (starts >= host) & (starts < host + size)
        if inside.any():
            ends = starts[inside] + sizes[inside]
            yield memory, int(starts[inside].min()) - host + base, int(ends.max()) - host + base, int(sizes[inside].sum())


def _memories(launch: Launch) -> Iterator[tuple[str, int, int, int]]:
    """Name, host address, size and first address of every memory."""
    for cta in launch.resident:
        yield f"shared of CTA {cta.describe()}", cta.shared_address, len(cta.shared), 0
    for tensor in {id(cta.tensor): cta for cta in launch.resident}.values() if launch.uses_tensor_memory else ():
        yield f"tensor of CTA {tensor.describe()}", tensor.tensor_address, 4 * COLUMNS * LANES, 0
    for allocation in launch.device.memory.live():
        yield "global", allocation.data.ctypes.data, allocation.size, allocation.base


# ---------------------------------------------------------------------------------------------------------------- the whole state


def digest(execution: Execution) -> str:
    """A digest of memories, registers, barriers, waiting and running lanes, queues of operations and of warps."""
    launch, order = execution.launch, execution.order
    found = hashlib.sha256()

    def add(*values: Any) -> None:
        found.update(repr(values).encode())

    add(execution.point.step, execution.point.event, order.instructions, order.rounds, launch.progress, launch.done_ctas, launch.printed)
    for allocation in launch.device.memory.live():
        add(allocation.base)
        found.update(allocation.data.data)
    for cta in launch.resident:
        _add_cta(found, add, cta)
        for warp in cta.warps:
            _add_warp(found, add, warp, execution.stepper.register_rows, warp is order.current)
            found.update(execution.written[warp.context.address].data)
    numbers = execution.numbers
    add([numbers[o] for o in order.pending], [numbers[o] for o in order.signals])
    add([(w.cta.ctaid, w.warp_id) for w in order.ready], [(w.cta.ctaid, w.warp_id) for w in order.held])
    add(sorted(order.frozen), order.alone)
    return found.hexdigest()


def _add_cta(found: Any, add: Any, cta: CtaState) -> None:
    add(cta.ctaid, cta.live_threads, cta.tensor.allocations_of(cta), cta.group.barrier.phase, cta.group.barrier.state(cta.group))
    found.update(cta.shared.data)
    for start, columns in cta.tensor.allocations_of(cta):
        found.update(cta.tensor.words[start : start + columns].data)
    for offset, each in sorted(cta.mbarriers.items()):
        add(offset, each.phase, each.expected, each.pending, each.transactions, len(each.waiters))
    for number in range(BARRIERS):
        completed, named = cta.memory.barriers[BarrierCell.GENERATION + number], cta.named.get(number)
        if named is not None and named.arrived:
            add(number, completed, named.arrived, named.expected, len(named.waiters))
        elif completed:
            add(number, completed)


def _add_warp(found: Any, add: Any, warp: Warp, register_rows: Iterable[slice], runs: bool) -> None:
    """Of lanes that run `ConvergedLanes.pc` is only where they began."""
    frame = warp.rows.reshape(-1).view(np.uint8).data
    for rows in register_rows:
        found.update(frame[rows])
    found.update(b"" if warp.local is None else warp.local.data)
    words = warp.words
    add(warp.warp_id, warp.live, *(words[word] for word in _TURN_WORDS))
    for group in warp.converged:
        add(
            words[Word.PC] if runs and not group.state and group.mask & words[Word.MASK] else group.pc,
            group.mask,
            group.turn,
            group.state,
            (group.op, group.active) if group.state or group.again else None,
            group.again,
            group.expired,
            group.retried is None,
            group.wait is None,
        )
