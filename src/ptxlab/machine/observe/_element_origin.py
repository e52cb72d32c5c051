"""Which bytes of shared memory a bulk copy has written to an element: the copy performs again on numbered bytes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ptxlab.isa.context import AsyncOperation
from ptxlab.isa.effects import Asynchronous, Space

__all__ = ["shared_source"]


def shared_source(operation: AsyncOperation, element: NDArray[np.uint8]) -> tuple[int, ...]:
    """The offsets, in the shared memory of the operation's CTA, of the bytes that it has just copied to ``element``.

    The bytes that it reads are filled with the bits of their own numbers, one bit at a time, and it performs again each time; then all is
    as it was. () for what does more than copy.
    """
    effects = operation.op.effects
    copies = isinstance(effects, Asynchronous) and Space.GLOBAL in effects.writes and not effects.atomic
    read = _read(operation) if copies else None
    if read is None:
        return ()
    start, source = read
    kept, numbers = source.copy(), np.arange(source.size)

    def with_bytes(values: NDArray[np.integer] | int) -> NDArray[np.intp]:
        source[:] = values
        operation.perform()
        return element.astype(np.intp)

    try:
        copied = (with_bytes(0) == 0) & (with_bytes(1) == 1)
        found = sum(with_bytes(numbers >> bit & 1) << bit for bit in range(int(source.size).bit_length()))
    finally:
        with_bytes(kept)
    return tuple((start + np.asarray(found)[copied]).tolist())


def _read(operation: AsyncOperation) -> tuple[int, NDArray[np.uint8]] | None:
    """The part of its CTA's shared memory that it reads: the offset and the bytes."""
    shared = operation.cta.shared
    low, high = shared.ctypes.data, shared.ctypes.data + shared.size
    reads = [access for access in operation.accesses() if not access.write] if operation.accesses is not None else []
    if not reads:
        return None
    starts = np.concatenate([access.starts for access in reads]).astype(np.int64)
    stops = starts + np.concatenate([np.broadcast_to(access.sizes, access.starts.shape) for access in reads]).astype(np.int64)
    inside = (starts >= low) & (stops <= high)
    if not inside.any():
        return None
    first, last = int(starts[inside].min()) - low, int(stops[inside].max()) - low
    return first, shared[first:last]
