"""Wavefronts of shared memory of what no thread accesses: bulk copies, and the operands of matrix products.

No GPU has counted them. They follow from the banks of shared memory: a wavefront gives or takes one 16-byte chunk of each of eight groups
of four banks.
"""

from __future__ import annotations

import numpy as np

from ptxlab.isa.operations import MemoryAccess
from ptxlab.isa.operations.matrices import MatrixOperand
from ptxlab.isa.operations.tiles import CHUNK

__all__ = ["copy_wavefronts", "operand_wavefronts"]

_LINE = 128
_GROUPS = _LINE // CHUNK
"""Groups of banks, each as wide as a chunk."""
_CORE = 8
"""Rows of a core matrix, of 16 bytes each."""


def copy_wavefronts(access: MemoryAccess, start: int, size: int) -> int:
    """How many lines of 128 bytes of a part of host memory an access touches; its ranges lie whole in it or not at all.

    Examples
    --------
    >>> ranges = np.array([0, 64, 1000], np.uint64), np.array([64, 64, 100], np.uint32)
    >>> copy_wavefronts(MemoryAccess(*ranges, write=True), 0, 2048)
    3
    """
    inside = (access.starts >= np.uint64(start)) & (access.starts < np.uint64(start + size))
    starts = (access.starts[inside] - np.uint64(start)).astype(np.int64)
    sizes = np.broadcast_to(access.sizes, access.starts.shape)[inside]
    first, last = starts[sizes > 0] // _LINE, (starts + sizes - 1)[sizes > 0] // _LINE
    counts = last - first + 1
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return len(np.unique(np.repeat(first, counts) + within))


def operand_wavefronts(operand: MatrixOperand) -> int:
    """How many wavefronts give a matrix operand, one core matrix of 8 rows of 16 bytes after the other.

    A core matrix needs as many wavefronts as the group of banks from which it wants most has different chunks to give. In the canonical
    layouts this is one.
    """
    if "wavefronts" not in operand.known:
        rows, columns = operand.chunks.shape
        padded = np.concatenate([operand.chunks, np.repeat(operand.chunks[-1:], -rows % _CORE, axis=0)])
        cores = np.sort(padded.reshape(-1, _CORE, columns), axis=1)
        different = np.concatenate([np.ones_like(cores[:, :1], bool), cores[:, 1:] != cores[:, :-1]], axis=1)
        wanted = (different[..., None] & (cores[..., None] % _GROUPS == np.arange(_GROUPS))).sum(axis=1)
        operand.known["wavefronts"] = int(wanted.max(axis=-1).sum())
    return int(operand.known["wavefronts"])
