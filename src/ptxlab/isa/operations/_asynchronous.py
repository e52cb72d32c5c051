"""An asynchronous operation between issue and completion."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.isa.operands import Op

if TYPE_CHECKING:
    from ptxlab.isa.context import Cta
    from ptxlab.isa.operations._accesses import MemoryAccess
    from ptxlab.isa.operations.matrices import MatrixProduct, TensorCopy
    from ptxlab.isa.operations.products import Product
    from ptxlab.isa.operations.tiles import CopiedBytes, CopiedTile

__all__ = ["AsyncOperation", "UndefinedBits"]


class UndefinedBits(Protocol):
    """The undefined bits of memory, which an observer keeps."""

    def of(self, memory: NDArray[Any]) -> NDArray[Any]:
        """Return the undefined bits of a part of memory as an array of the same form. What is written to it changes them."""

    def origin(self, others: Iterable[int]) -> int:
        """Return the origin of undefined bits that come from what the operation reads in memory, and from bits with other origins."""


@dataclass(slots=True, eq=False)
class AsyncOperation:
    """An asynchronous operation between issue and completion.

    ``perform`` moves the data and signals completion; the policy decides when it is called. Operations with the same ``queue`` perform in
    order of issue (all tcgen05 operations of a CTA or CTA pair); operations with queue None perform in any order. If ``after`` is not None,
    the operation only signals the completion of the operations in ``after``, and performs as soon as all of them are done.
    """

    name: str
    op: Op
    cta: Cta
    perform: Callable[[], None]
    queue: Hashable | None = None
    thread: Hashable | None = None
    after: tuple[AsyncOperation, ...] | None = None
    done: bool = field(default=False)
    accesses: Callable[[], Iterable[MemoryAccess]] | None = None
    """Returns what the operation reads and writes; observers call it at issue."""
    undefined: Callable[[UndefinedBits], None] | None = None
    """Does to the undefined bits what ``perform`` does to the data; None: if any bit that is read is undefined, all that is written is."""
    tiles: Callable[[], Iterable[CopiedTile]] | None = None
    """Returns the boxes of arrays that it copies to shared memory."""
    tile_at: Callable[[tuple[int, ...], Cta, int], CopiedTile] | None = None
    """Returns the box of its tensor map at coordinates, as it would be copied to an offset in shared memory."""
    bytes_copied: Callable[[], Iterable[CopiedBytes]] | None = None
    """Returns the contiguous bytes that it copies to shared memory."""
    words: NDArray[np.uint64] | None = None
    """What threads have asked it to copy to shared memory: rows as compiled code notes them (`ptxlab.engine.context.Word.PENDING`)."""
    product: Callable[[], MatrixProduct] | None = None
    """Returns the product of matrices that it computes."""
    tensor_copy: Callable[[], TensorCopy] | None = None
    """Returns what it copies from shared to tensor memory."""
    details: Callable[[], Product] | None = None
    """Returns the same in numbers: shape, descriptors, operands, and where D is."""
    then: Callable[[], object] | None = None
    """Called when it has performed."""
    agent: Any = None
    """Data that an observer attaches to the operation."""
