"""The counters of an instruction as data: each one's name, what it counts, and how it is known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ptxlab.engine.support.counters import Counter

__all__ = ["COLUMNS", "COMPILED", "Column", "Counts"]


@dataclass(frozen=True, slots=True)
class Column:
    """A counter.

    Attributes
    ----------
    name : as in `Counts`
    meaning : what it counts
    fidelity : how it is known that hardware counts the same: see the page about fidelity
    compiled : the column of compiled code that it is; None if the observer counts it
    """

    name: str
    meaning: str
    fidelity: str
    compiled: Counter | None = None


def _column(meaning: str, fidelity: str, compiled: Counter | None = None) -> Any:
    return field(default=0, metadata={"column": (meaning, fidelity, compiled)})


@dataclass(frozen=True, slots=True)
class Counts:
    """The counters of an instruction, a line, a role or a whole kernel. `COLUMNS` says what each one counts."""

    executions: int = _column("warps that execute the instruction; a false guard counts", "spec", Counter.EXECUTIONS)
    threads: int = _column("threads that execute it; a false guard counts", "spec", Counter.THREADS)
    shared_requests: int = _column("executions that access shared memory", "spec", Counter.SHARED_REQUESTS)
    shared_wavefronts: int = _column("wavefronts of shared memory", "hardware", Counter.SHARED_WAVEFRONTS)
    shared_least: int = _column("wavefronts of shared memory that it would have without bank conflicts", "hardware", Counter.SHARED_LEAST)
    shared_bytes: int = _column("bytes of shared memory that threads access", "spec", Counter.SHARED_BYTES)
    global_requests: int = _column("executions that access global memory", "hardware", Counter.GLOBAL_REQUESTS)
    global_sectors: int = _column("sectors of 32 bytes of global memory that requests touch", "hardware", Counter.GLOBAL_SECTORS)
    global_least: int = _column("sectors that would hold the different bytes of each request", "spec", Counter.GLOBAL_LEAST)
    global_lines: int = _column("cache lines of 128 bytes that requests touch", "spec", Counter.GLOBAL_LINES)
    global_bytes: int = _column("bytes of global memory that threads access", "spec", Counter.GLOBAL_BYTES)
    copies: int = _column("bulk copies, one for each box or range", "spec")
    bytes_to_shared: int = _column("bytes that bulk copies write to shared memory, in all CTAs", "spec")
    bytes_from_shared: int = _column("bytes that bulk copies read from shared memory", "spec")
    multicast_saved: int = _column("bytes that multicast writes without reading them once more", "spec")
    copy_wavefronts: int = _column("wavefronts of shared memory of bulk copies: the lines of 128 bytes that each copy touches", "deduced")
    products: int = _column("matrix products that are issued", "spec")
    tensor_operations: int = _column("multiplications and additions of matrix products", "spec")
    operand_wavefronts: int = _column(
        "wavefronts of shared memory of the operands of products and of copies to tensor memory: one for 8 rows of 16 bytes that lie in "
        "different banks",
        "deduced",
    )
    tensor_memory_bytes: int = _column("bytes between registers and tensor memory", "spec")
    barrier_waits: int = _column("executions that wait at a barrier of the CTA or of the cluster", "deduced")
    mbarrier_waits: int = _column("executions that wait for a phase of an mbarrier", "deduced")
    other_waits: int = _column("executions that wait for a group of operations, or for anything else", "deduced")

    @property
    def bank_conflicts(self) -> int:
        """Wavefronts of shared memory that different words in one bank cost."""
        return self.shared_wavefronts - self.shared_least

    @property
    def waits(self) -> int:
        """Executions that have to wait, for whatever."""
        return self.barrier_waits + self.mbarrier_waits + self.other_waits

    @property
    def excess_sectors(self) -> int:
        """Sectors that better coalescing would avoid."""
        return self.global_sectors - self.global_least

    @classmethod
    def of(cls, row: NDArray[np.int64]) -> Self:
        """Those of a row of the table, whose columns are in order."""
        return cls(*row.tolist())

    @classmethod
    def sum(cls, parts: Iterable[Counts]) -> Self:
        """The sum of several."""
        rows = [[getattr(part, column.name) for column in COLUMNS] for part in parts]
        return cls(*map(sum, zip(*rows, strict=True)))

    def as_dict(self) -> dict[str, int]:
        """Plain values for JSON: those that are not zero."""
        return {name: value for name, value in asdict(self).items() if value}


COLUMNS: tuple[Column, ...] = tuple(Column(f.name, *f.metadata["column"]) for f in fields(Counts))
"""The columns of the table of counters, in order."""
COMPILED: tuple[Counter, ...] = tuple(column.compiled for column in COLUMNS if column.compiled is not None)
"""The columns that compiled code counts; they are the first ones."""
