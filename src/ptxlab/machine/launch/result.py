"""The result of a launch: findings, statistics, and which instructions wrote an element."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from ptxlab._records import dataclass
from ptxlab.diagnostics import Diagnostic, Place, PtxlabError, ranges
from ptxlab.machine.launch.options import refuse

if TYPE_CHECKING:
    from ptxlab.machine.launch.contributions import Contribution
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.launch.mma_records import MmaRecords
    from ptxlab.machine.replay.replay import Replay

__all__ = ["KernelError", "Provenance", "Result", "Stats", "Writer", "shortened"]

_MOST_CHARACTERS = 160
"""Of a line of the PTX."""


def shortened(excerpt: str) -> str:
    """A line of the PTX, cut if it is very long."""
    text = excerpt.strip()
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 1] + "…"


class KernelError(PtxlabError):
    """The findings of a launch, raised by `Result.raise_for_errors`."""


@dataclass(slots=True)
class Writer:
    """One write to the element.

    Attributes
    ----------
    opcode : the instruction
    asynchronous : whether it is an asynchronous operation (a bulk copy, a reduction); warp and lanes are then those that issued it
    cta, warp, lanes : who executed it; several lanes may write to one element
    place, excerpt, source : where it stands in the PTX, that line, and its source line
    value : what the element held afterwards
    behind : for a bulk copy out of shared memory, who wrote the bytes there, the last one first; of a matrix store the lanes are those that
        gave the addresses of the rows, and values are None
    """

    opcode: str
    asynchronous: bool
    cta: tuple[int, int, int]
    warp: int
    lanes: tuple[int, ...]
    place: Place
    excerpt: str
    source: Place | None
    value: Any = None
    behind: tuple[Writer, ...] = ()

    def __str__(self) -> str:
        lanes = "lane" if len(self.lanes) == 1 else "lanes"
        who = f"CTA {self.cta} warp {self.warp}" + (f" {lanes} {', '.join(ranges(self.lanes))}" if self.lanes else "")
        how = f"asynchronous {self.opcode}" if self.asynchronous else self.opcode
        then = "" if self.value is None else f", then {self.value}"
        lines = [f"{who}: {how}{then}", f"  {self.place} | {shortened(self.excerpt)}"]
        if self.source is not None:
            lines.append(f"  source: {self.source}")
        for writer in self.behind:
            first, *rest = str(writer).splitlines()
            lines += [f"  copied from what was written by {first}", *(f"  {line}" for line in rest)]
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "opcode": self.opcode,
            "asynchronous": self.asynchronous,
            "cta": list(self.cta),
            "warp": self.warp,
            "lanes": list(self.lanes),
            "place": str(self.place),
            "excerpt": self.excerpt.strip(),
            "source": None if self.source is None else str(self.source),
            "value": None if self.value is None else str(self.value),
            "behind": [writer.as_dict() for writer in self.behind],
        }


@dataclass(frozen=True, slots=True)
class Provenance:
    """The instructions that wrote an element of an array.

    Attributes
    ----------
    array, index : the element
    before, after : what it held before the launch, and at its end
    writers : the last writes to it, the very last first
    count : how many writes there were in all
    contributions : the products of matrices that the element is a sum of, if they were asked for
    loaded : the tcgen05.ld that read the sum from tensor memory
    several : whether the element depends on several elements of such sums; then ``contributions`` are of the one that was complete last
    """

    array: str
    index: tuple[int, ...]
    before: Any
    after: Any
    writers: tuple[Writer, ...]
    count: int
    contributions: tuple[Contribution, ...] = ()
    loaded: Writer | None = None
    several: bool = False

    @property
    def element(self) -> str:
        """``C[3, 5]``."""
        return f"{self.array}[{', '.join(map(str, self.index))}]"

    def __str__(self) -> str:
        if not self.writers:
            return f"{self.element} is {self.after}: the kernel never wrote it"
        times = {1: "once", 2: "twice"}.get(self.count, f"{self.count} times")
        lines = [f"{self.element} is {self.after}, written {times}" + (", the last write first" if self.count > 1 else "")]
        for writer in self.writers:
            lines += ["  " + line for line in str(writer).splitlines()]
        if self.count > len(self.writers):
            lines.append(f"  and {self.count - len(self.writers)} writes before")
        return "\n".join([*lines, *(f"  {line}" for line in self._sum()), f"  before the launch: {self.before}"])

    def _sum(self) -> Iterator[str]:
        """The products, what they multiplied, and how the sum has reached a register."""
        if self.several:
            yield "it depends on several elements of matrices D" + (", of which this was complete last:" if self.contributions else "")
        if not self.contributions:
            return
        first, last = self.contributions[0], self.contributions[-1]
        if self.loaded is not None:
            head, *rest = str(self.loaded).splitlines()
            yield f"read from {last.place} by {head}"
            yield from rest
        count = len(self.contributions)
        what = f"D[{last.m}, {last.n}] of {last.mma.opcode}, {last.mma.shape}, {last.mma.types}"
        yield f"a sum of {count} products: {what}" if count > 1 else what
        yield f"  {last.mma.place} | {shortened(last.mma.excerpt)}"
        if last.mma.source is not None:
            yield f"  source: {last.mma.source}"
        if first.mma.accumulate:
            yield "  the first of them adds to what D held"
        from ptxlab.machine.launch.contributions import operand_lines

        for name, lines in (("A", [each.a for each in self.contributions]), ("B", [each.b for each in self.contributions])):
            yield from (f"  {line}" for line in operand_lines(name, lines))

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "array": self.array,
            "index": list(self.index),
            "before": str(self.before),
            "after": str(self.after),
            "count": self.count,
            "writers": [w.as_dict() for w in self.writers],
            "contributions": [each.as_dict() for each in self.contributions],
            "loaded": None if self.loaded is None else self.loaded.as_dict(),
            "several": self.several,
        }


@dataclass(slots=True)
class Stats:
    """What a launch cost.

    Attributes
    ----------
    instructions : warp-instructions executed
    services : calls of machine services (barriers, asynchronous copies, tensor-core operations) by opcode
    ctas : CTAs that ran to their end
    seconds : wall time of the launch, compilation included
    workers : processes that have run clusters
    why_alone : why there was one, where several were asked for
    """

    instructions: int = 0
    services: dict[str, int] = field(default_factory=dict)
    ctas: int = 0
    seconds: float = 0.0
    workers: int = 1
    why_alone: str = ""

    @classmethod
    def total(cls, each: Sequence[Stats]) -> Stats:
        """What several launches cost together, in this process."""
        services = sum((Counter(stats.services) for stats in each), Counter[str]())
        return cls(sum(s.instructions for s in each), dict(services), sum(s.ctas for s in each), sum(s.seconds for s in each))

    @classmethod
    def of(cls, launch: Launch, started: float) -> Stats:
        """Those of a launch that started at a time of `time.perf_counter`."""
        services: dict[str, int] = {}
        for op, count in zip(launch.program.ops, launch.scheduler.services, strict=True):
            if count:
                services[op.opcode] = services.get(op.opcode, 0) + count
        seconds = time.perf_counter() - started
        return cls(launch.scheduler.instructions, services, launch.done_ctas, seconds, launch.workers, launch.why_alone)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        counted = {"instructions": self.instructions, "services": dict(self.services), "ctas": self.ctas, "seconds": self.seconds}
        return counted | {"workers": self.workers, "why_alone": self.why_alone}

    def __str__(self) -> str:
        calls = sum(self.services.values())
        return f"{self.ctas} CTAs, {self.instructions:,} warp-instructions, {calls:,} machine services, {self.seconds:.3f} s" + (
            f", {self.workers} workers" if self.workers > 1 else ""
        )


@dataclass(slots=True)
class Result:
    """How a launch ended.

    Attributes
    ----------
    ok : whether nothing of severity error was found
    diagnostics : everything that was found
    completed : whether the kernel ran to its end (then arrays were written back)
    stats : what it cost
    stdout : what the kernel has printed (``printf``)
    replay : the launch, to be run again, if its inputs were kept (``keep_inputs=True``)
    profile : a `ptxlab.Profile`, if the launch was counted (``profile=True``)
    estimated : nanoseconds that it would take on a GPU, if the session that launched it asks for that, else 0
    """

    diagnostics: tuple[Diagnostic, ...]
    stats: Stats
    completed: bool
    stdout: str = ""
    replay: Replay | None = field(default=None, repr=False)
    profile: Any = field(default=None, repr=False)
    estimated: float = 0.0

    @classmethod
    def of_several(cls, results: Sequence[Result]) -> Result:
        """The results of launches that host code has made, as one; the replay and the profile are those of the first."""
        if len(results) == 1:
            return results[0]
        total = Stats.total([result.stats for result in results])
        return replace(
            results[0] if results else cls((), total, completed=True),
            diagnostics=tuple(found for result in results for found in result.diagnostics),
            stats=total,
            completed=all(result.completed for result in results),
            stdout="".join(result.stdout for result in results),
        )

    @property
    def ok(self) -> bool:
        """Whether nothing of severity error was found."""
        return self.completed and not any(d.severity == "error" for d in self.diagnostics)

    def raise_for_errors(self) -> None:
        """Raise `KernelError` with the errors, if there are any."""
        errors = [d for d in self.diagnostics if d.severity == "error"]
        if errors:
            raise KernelError(*errors)

    def provenance(self, array: Any, index: Any, inputs: bool = False) -> Provenance:
        """Who wrote an element of an array argument, last first; the launch runs again to find out.

        Parameters
        ----------
        array : an array argument, a part of one (a NumPy view), a device buffer, or the name of the parameter
        index : an int, or a tuple of one for each dimension
        inputs : go on to the products of matrices that the element is a sum of, and to the elements of the inputs that they multiplied; the
            CTA that wrote the element runs again a hundred times or so

        Raises
        ------
        LaunchError
            A316 if the launch did not keep its inputs, A317 if it had no such array or the array has no such element

        Examples
        --------
        >>> import numpy as np, ptxlab
        >>> kernel = ptxlab.loads('''
        ... .version 9.0
        ... .target sm_100a
        ... .address_size 64
        ... .visible .entry k(.param .u64 a) {
        ...   .reg .b64 %rd<2>;
        ...   ld.param.u64 %rd1, [a];
        ...   st.global.u32 [%rd1+4], 7;
        ...   ret;
        ... }''', file="k.ptx").kernel()
        >>> a = np.zeros(4, np.uint32)
        >>> print(kernel.launch(block=1, args=[a], keep_inputs=True).provenance(a, 1))
        a[1] is 7, written once
          CTA (0, 0, 0) warp 0 lane 0: st.global.u32, then 7
            k.ptx:8:3 | st.global.u32 [%rd1+4], 7;
          before the launch: 0
        """
        return self._kept().provenance(array, index, inputs)

    def mmas(self, cta: tuple[int, int, int] | None = None, line: int | None = None, writers: bool = False) -> MmaRecords:
        """The matrix instructions that were executed (tcgen05.mma, wgmma, mma.sync); the launch runs again to record them.

        Parameters
        ----------
        cta : only those that use the memory of this CTA
        line : only those of the instruction at this line of the PTX
        writers : whether to find out who wrote the operands, in shared memory, registers or tensor memory; the launch runs again several
            times, slowly

        Returns
        -------
        a sequence of `ptxlab.MmaRecord` in the order in which the products were computed; printed, it is a table

        Raises
        ------
        LaunchError
            A316 if the launch did not keep its inputs

        Examples
        --------
        >>> import numpy as np, ptxlab
        >>> kernel = ptxlab.loads('''
        ... .version 9.0
        ... .target sm_90a
        ... .address_size 64
        ... .visible .entry k(.param .u64 d) {
        ...   .reg .b32 %r<9>; .reg .f32 %f<5>; .reg .b64 %rd<2>;
        ...   mov.b32 %r1, 0x3C003C00;
        ...   mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32
        ...     {%f1, %f2, %f3, %f4}, {%r1, %r1}, {%r1}, {0f00000000, 0f00000000, 0f00000000, 0f00000000};
        ...   ld.param.u64 %rd1, [d];
        ...   st.global.f32 [%rd1], %f1;
        ...   ret;
        ... }''', file="k.ptx").kernel()
        >>> d = np.zeros(1, np.float32)
        >>> found = kernel.launch(block=32, args=[d], keep_inputs=True).mmas()
        >>> print(found)
        product  CTA        warp  line  shape   types              A          B          D[0, 0]                              adds
        0        (0, 0, 0)  0     8     16x8x8  f16 * f16 -> f32   registers  registers  register 0 of D in warp 0, lane 0
        >>> found[0].matrices().d[0, 0]
        np.float32(8.0)
        """
        from ptxlab.machine.observe.mmas import records

        found = records(self._kept(), cta, line)
        if not writers:
            return found
        from ptxlab.machine.observe.operand_writers import with_writers

        return with_writers(self._kept(), found)

    def save_bundle(self, path: str | os.PathLike[str]) -> None:
        """Write the launch to a file that ``ptxlab run`` runs: PTX, arguments, device memory, options, versions.

        Raises
        ------
        LaunchError
            A316 if the launch did not keep its inputs
        OSError
            if the file cannot be written
        """
        from ptxlab.machine.replay.bundle import write_bundle

        write_bundle(path, self._kept())

    def _kept(self) -> Replay:
        if self.replay is None:
            raise refuse("A316", "the launch did not keep its inputs", fix="launch with keep_inputs=True, which copies the device memory")
        return self.replay
