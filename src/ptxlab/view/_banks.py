"""Pictures of the banks of shared memory that an access uses."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ptxlab.layout import BANKS, bank_conflicts
from ptxlab.view._picture import EMPTY, Panel, Picture

__all__ = ["draw_banks"]

_FREE, _CONFLICT = 2, 3


def draw_banks(addresses: ArrayLike, size: int = 4, what: str = "access") -> Picture:
    """How many words each bank must deliver in each phase of an access; parameters as of `ptxlab.layout.bank_conflicts`.

    Parameters
    ----------
    what : name of the access, for the title

    Examples
    --------
    >>> import numpy as np
    >>> print(draw_banks(np.arange(32) * 8).text().splitlines()[0])
    access: 2 wavefronts, of which conflicts cost 1
    """
    found = bank_conflicts(addresses, size)
    address = np.asarray(addresses, np.int64).reshape(-1)
    together = -(-len(address) // len(found.ways))
    words = address[:, None] // 4 + np.arange(max(size // 4, 1), dtype=np.int64)
    labels, colors, names = [], [], []
    for first in range(0, len(address), together):
        counts = np.bincount(np.unique(words[first : first + together]) % BANKS, minlength=BANKS)
        labels.append([str(n) if n else "" for n in counts.tolist()])
        colors.append([EMPTY if not n else _FREE if n == 1 else _CONFLICT for n in counts.tolist()])
        names.append(f"{first}-{min(first + together, len(address)) - 1}")
    panel = Panel(
        "Words of each bank", labels, colors, names, [str(b) for b in range(BANKS)], "rows: threads (or rows of matrices) served together"
    )
    extra = found.wavefronts - len(found.ways)
    cost = f"of which conflicts cost {extra}" if extra else "no conflicts"
    title = f"{what}: {found.wavefronts} wavefront{'s' * (found.wavefronts > 1)}, {cost}"
    return Picture(
        title, [panel], {"ways": list(found.ways), "wavefronts": found.wavefronts, "free": found.free, "addresses": address.tolist()}
    )
