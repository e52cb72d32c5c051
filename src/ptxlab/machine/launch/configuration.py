"""The execution configuration of a launch: its grid, block, cluster and shared memory, checked against directives and limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.isa.address_space import SHARED_RESERVED
from ptxlab.machine.launch.options import LaunchOptions, refuse, whole_number

if TYPE_CHECKING:
    from ptxlab.engine.program import Program

__all__ = [
    "CTAS_PER_SM",
    "MOST_SMS",
    "ORDERS",
    "REGISTERS_PER_SM",
    "SHARED_PER_SM",
    "STRONG",
    "THREADS_PER_CTA",
    "THREADS_PER_SM",
    "WRITES",
    "LaunchConfiguration",
    "dimensions",
    "shared_bytes",
]

SHARED_PER_CTA = 227 * 1024
SHARED_PER_SM = 228 * 1024
THREADS_PER_SM = 2048
REGISTERS_PER_SM = 64 * 1024
CTAS_PER_SM = 32
MOST_SMS = 4096
"""The largest number of SMs of a simulated device."""
LOCAL_PER_THREAD = 512 * 1024
PARAMETERS = 32764

Dim3 = tuple[int, int, int]
Progress = Callable[[int, int], None]
THREADS_PER_CTA, _CTAS_PER_CLUSTER = 1024, 16
_LARGEST_GRID, _LARGEST_BLOCK = ((1 << 31) - 1, 65535, 65535), (1024, 1024, 64)


def dimensions(name: str, value: Any) -> Dim3:
    """Return an int, or one to three positive ints, as (x, y, z)."""
    parts = tuple(value) if isinstance(value, Iterable) and not isinstance(value, (str, bytes)) else (value,)
    try:
        numbers = [int(p) for p in parts if not isinstance(p, (bool, float, str))]
    except (TypeError, ValueError):
        numbers = []
    if not 1 <= len(numbers) <= 3 or len(numbers) != len(parts) or any(n < 1 for n in numbers):
        raise refuse("A308", f"{name} must be a positive int or one to three of them, not {value!r}")
    x, y, z = (*numbers, 1, 1)[:3]
    return x, y, z


def _within(name: str, found: Dim3, most: Dim3) -> Dim3:
    """Refuse dimensions of which one is larger than it can be."""
    for axis, size, limit in zip("xyz", found, most, strict=True):
        if size > limit:
            raise refuse("A308", f"{name} is {found}; in {axis} it can be {limit}")
    return found


WRITES, STRONG, ORDERS = 1, 2, 4
"""How a launch has accessed bytes: it has written them; by strong operations only; by such with which launches may order each other."""


class Outside(Protocol):
    """What runs beside a launch and may change the memory that it sees: other launches, and the program."""

    def turn(self) -> None:
        """Let other launches run; called between the time slices of warps."""

    def stalled(self, state: int) -> bool:
        """Wait, because nothing goes on in the launch; return False if nothing outside of it can change that.

        ``state`` is a digest of the state that repeats itself.
        """

    def overlapped(self) -> bool:
        """Whether others may have written memory since the launch began."""

    def wants_accesses(self) -> bool:
        """Whether to call `accessed` when the launch has ended."""

    def accessed(self, ranges: NDArray[np.uint64]) -> None:
        """The launch has accessed these bytes of device memory.

        Rows are the first byte, the end, and how: `WRITES`, `STRONG` and `ORDERS`, together.
        """


@dataclass(frozen=True, kw_only=True)
class LaunchConfiguration(LaunchOptions):
    """Everything that `Kernel.launch` was asked for except the arguments, with defaults resolved.

    Attributes
    ----------
    grid, block, cluster : CTAs, threads of a CTA, CTAs of a cluster, in x, y, z
    explicit_cluster : whether the launch or the kernel has given the cluster's size
    shared_bytes : dynamic shared memory
    progress : called with (CTAs that have ended, all CTAs)
    outside : what runs beside the launch
    grid_workspace : address of the bytes for barriers of the whole grid
    profile : whether the launch is counted
    clusters : indices of the clusters to run, None for all
    """

    grid: Dim3
    block: Dim3
    cluster: Dim3
    explicit_cluster: bool
    shared_bytes: int
    progress: Progress | None = None
    outside: Outside | None = None
    grid_workspace: int = 0
    profile: bool = False
    clusters: frozenset[int] | None = field(init=False)

    def __post_init__(self) -> None:
        LaunchOptions.__post_init__(self)
        whole_number("shared_bytes", self.shared_bytes, 0, 1 << 30)
        if self.progress is not None and not callable(self.progress):
            raise refuse("A310", f"progress must be callable, not {self.progress!r}")
        if not isinstance(self.profile, bool):
            raise refuse("A310", f"profile must be True or False, not {self.profile!r}")
        object.__setattr__(self, "clusters", None if self.only is None else frozenset(map(self._cluster_of, self.only)))

    @cached_property
    def threads(self) -> int:
        """Threads of a CTA."""
        return prod(self.block)

    @cached_property
    def cluster_size(self) -> int:
        """CTAs of a cluster."""
        return prod(self.cluster)

    @cached_property
    def grid_of_clusters(self) -> Dim3:
        """Clusters in x, y, z."""
        x, y, z = (-(-g // c) for g, c in zip(self.grid, self.cluster, strict=True))
        return x, y, z

    @cached_property
    def order(self) -> Sequence[int]:
        """The indices of the clusters to run, in the order in which they start."""
        return range(prod(self.grid_of_clusters)) if self.clusters is None else sorted(self.clusters)

    def _cluster_of(self, cta: tuple[int, ...]) -> int:
        """The index of the cluster that holds a CTA."""
        x, y, z = (*cta, 0, 0)[:3]
        if not (0 <= x < self.grid[0] and 0 <= y < self.grid[1] and 0 <= z < self.grid[2]):
            raise refuse("A310", f"only names CTA {(x, y, z)}, but the grid is {self.grid}")
        across, down, _ = self.grid_of_clusters
        width, height, depth = self.cluster
        return x // width + across * (y // height + down * (z // depth))

    @classmethod
    def of(
        cls,
        program: Program,
        options: LaunchOptions,
        grid: Any,
        block: Any,
        cluster: Any,
        shared_bytes: Any,
        progress: Any,
        outside: Outside | None = None,
        grid_workspace: int = 0,
        profile: bool = False,
    ) -> Self:
        """Check a launch of a kernel, and take what it leaves open from the kernel's directives."""
        grid3 = _within("grid", dimensions("grid", grid), _LARGEST_GRID)
        cluster3, explicit = _cluster(program, cluster, grid3)
        given = options.keywords()
        if options.registers is None and (most := program.directives.get("maxnreg")):
            given["registers"] = int(most[0])
        return cls(
            grid=grid3,
            block=_block(program, block),
            cluster=cluster3,
            explicit_cluster=explicit,
            shared_bytes=shared_bytes,
            progress=progress,
            outside=outside,
            grid_workspace=grid_workspace,
            profile=profile,
            **given,
        )


def _directive(program: Program, name: str) -> Dim3 | None:
    found = program.directives.get(name)
    return dimensions(f".{name}", tuple(map(int, found))) if found else None


def _block(program: Program, block: Any) -> Dim3:
    required, most = _directive(program, "reqntid"), _directive(program, "maxntid")
    if block is None:
        if required is None:
            raise refuse("A308", f"kernel {program.name} has no .reqntid: say how many threads a CTA has", fix="pass block=")
        return required
    found = dimensions("block", block)
    threads = found[0] * found[1] * found[2]
    if required is not None and found != required:
        raise refuse("A308", f"block is {found}, but kernel {program.name} requires {required} (.reqntid)")
    if threads > THREADS_PER_CTA:
        raise refuse("A308", f"block {found} has {threads} threads; a CTA can have {THREADS_PER_CTA}")
    if most is not None and threads > (permitted := most[0] * most[1] * most[2]):
        raise refuse("A308", f"block {found} has {threads} threads; kernel {program.name} permits {permitted} (.maxntid)")
    return _within("block", found, _LARGEST_BLOCK)


def _cluster(program: Program, cluster: Any, grid: Dim3) -> tuple[Dim3, bool]:
    required = _directive(program, "reqnctapercluster")
    found = dimensions("cluster", cluster) if cluster is not None else required or (1, 1, 1)
    if required is not None and found != required:
        raise refuse("A308", f"cluster is {found}, but kernel {program.name} requires {required} (.reqnctapercluster)")
    size = found[0] * found[1] * found[2]
    most = program.directives.get("maxclusterrank")
    if most and size > int(most[0]):
        raise refuse("A308", f"cluster {found} has {size} CTAs; kernel {program.name} permits {most[0]} (.maxclusterrank)")
    if size > _CTAS_PER_CLUSTER:
        raise refuse("A308", f"cluster {found} has {size} CTAs; a cluster can have {_CTAS_PER_CLUSTER}")
    if any(g % c for g, c in zip(grid, found, strict=True)):
        raise refuse("A308", f"grid {grid} is not a multiple of cluster {found}", fix="grid counts CTAs, not clusters")
    return found, required is not None or cluster is not None or "explicitcluster" in program.directives


def shared_bytes(program: Program, dynamic: int) -> int:
    """Return the bytes of shared memory of a CTA, with the reserved ones; a kernel that exceeds a limit is refused."""
    for what, declared, most in (
        ("local memory per thread", program.local_bytes, LOCAL_PER_THREAD),
        ("parameters", program.param_bytes, PARAMETERS),
    ):
        if declared > most:
            raise refuse("A314", f"{program.name} declares {declared} bytes of {what}; there can be {most}")
    layout = program.shared
    end = max(layout.static_end, layout.dynamic + dynamic if dynamic else 0, SHARED_RESERVED)
    if end - SHARED_RESERVED > SHARED_PER_CTA:
        raise refuse(
            "A309",
            f"{program.name} needs {end - SHARED_RESERVED} bytes of shared memory per CTA "
            f"({layout.static_end - SHARED_RESERVED} static, {dynamic} dynamic); a CTA can have {SHARED_PER_CTA}",
            fix="use fewer pipeline stages or smaller tiles",
        )
    return -(-end // 8) * 8
