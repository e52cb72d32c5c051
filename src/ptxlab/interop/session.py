"""Sessions: the settings that all launches of a program share, and what the launches have found."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from ptxlab.cuda.products import PRODUCTS, Product
from ptxlab.diagnostics import Diagnostic, Place, diagnose, render_report
from ptxlab.interop._selection import first_ctas, is_selected, launch_numbers, name_patterns
from ptxlab.interop._sites import launch_site, raise_site
from ptxlab.interop.profiles import Profiles
from ptxlab.machine import Device, Kernel, KernelError, Module, Result, Stats
from ptxlab.machine.launch.configuration import MOST_SMS
from ptxlab.machine.launch.options import LaunchOptions, Option, flag, option, refuse, whole
from ptxlab.machine.observe.observer import Tracing, tracing

if TYPE_CHECKING:
    from ptxlab.machine.replay.replay import Placed, Replay

__all__ = [
    "FOR_GOOD",
    "Debugger",
    "Inspector",
    "LaunchRecord",
    "Session",
    "Settings",
    "activate",
    "current",
    "launch_site",
    "launched_at",
    "left_out",
    "raise_site",
    "replace_attribute",
]

_MORE = "the findings of the session, or ptxlab exec --json, have all"

_LONGEST_NAME = 200
"""The most characters of a kernel's name in the name of a file: file systems take 255, with a number and the suffix."""

_launch = Kernel.launch
"""The method itself: `ptxlab.interop.compilers.switched` may replace the attribute while a session is active."""


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise refuse("A310", f"{name} must be a text, not {value!r}")
    return value


@dataclass(frozen=True, kw_only=True)
class Settings(LaunchOptions):
    """The options of all launches of a run, with those of its device.

    Examples
    --------
    >>> Settings.from_environment({"PTXLAB_POLICY": "lazy", "PTXLAB_ONLY": "0,0;1,0"}).only
    ((0, 0), (1, 0))
    """

    target: str = option("sm_100a", "The architecture that kernels are compiled for.", partial(Option, accept=_text, read=str, form="NAME"))
    sms: int | None = option(
        None, "Streaming multiprocessors; default: as many as a product with the target has.", whole(1, MOST_SMS, optional=True)
    )
    conceals_refusals: ClassVar[bool] = False
    """Programs are told what the driver refuses."""
    keep_going: bool = option(False, "Report errors of a kernel that ran to its end, instead of raising them.", flag)
    leaks: bool = option(False, "Note the memory of the driver that the program does not free.", flag)
    limit_ctas: int | None = option(None, "Run only so many CTAs of each launch, in whole clusters.", whole(1, 1 << 40, optional=True))
    launches: tuple[int, int | None] | None = option(None, "Run only these launches, counted from 1.", launch_numbers)
    estimate_time: bool = option(False, "Benchmarks, autotuning and events give the estimated times of launches.", flag)
    skip_kernels: tuple[str, ...] = option((), "Do not run kernels with these names; fill_* is a pattern.", name_patterns)

    @property
    def follows_memory(self) -> bool:
        """Whether memory of the driver that nothing has written is followed: only if all kernels run, and are checked."""
        whole = self.only is None and self.limit_ctas is None and self.launches is None and not self.skip_kernels
        return self.confirms and self.tracked and whole

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Settings:
        """Return what the variables ask for: ``PTXLAB_TARGET``, ``PTXLAB_CHECK`` and so on, one for each setting."""
        found = os.environ if environment is None else environment
        variables = {name: f"PTXLAB_{name.upper()}" for name in cls.described()}
        return cls().read({name: found[variable] for name, variable in variables.items() if variable in found})


Progress = Callable[[int, int], None]
"""Called with the CTAs that have ended, and all CTAs."""


@dataclass(slots=True)
class LaunchRecord:
    """One launch of a run: the kernel's name, where in the program it was launched, its grid in CTAs, and how it ended."""

    kernel: str
    site: Place | None
    grid: tuple[int, ...]
    result: Result

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "kernel": self.kernel,
            "site": None if self.site is None else {"file": self.site.file, "line": self.site.line},
            "grid": list(self.grid),
            "ok": self.result.ok,
            "stats": self.result.stats.as_dict(),
            "stdout": self.result.stdout,
        }


_NO_PROGRESS = nullcontext()
Inspector = Callable[["Replay", Result], Iterable[Diagnostic]]
"""Looks at a launch that has ended: at what it was started with, and at its result."""


class Debugger(Protocol):
    """Debugs launches of a program."""

    @property
    def wanted(self) -> bool:
        """Whether the next launch may be debugged, of whatever kernel."""

    def stops_in(self, kernel: Kernel) -> bool:
        """Whether the kernel says where it is to be debugged."""

    def __call__(self, replay: Replay, result: Result, /) -> None:
        """Debug a launch that has ended, if that is wanted."""


@dataclass(slots=True)
class Session:
    """A run: one device, its launches and all that they found.

    Attributes
    ----------
    settings : the options of all launches
    launches : the launches so far
    diagnostics : findings of all launches, and notes about the run, in order
    report : called with every finding; default: the findings of each launch are written to standard error
    keep : where the PTX of kernels with findings is written to, and with ``keep_inputs`` a replay bundle of each launch
    inspectors : called with each launch that ran to its end, and kept its inputs; their findings are recorded with those of the launch
    debugger : called with each launch that kept its inputs, whether it ran to its end or not
    profiles : of launches, if they are asked for
    arrays : the arrays of the launches that the program makes now, where an adapter knows them
    progress : called with the name and the number of a kernel's launch; gives what shows the progress of the launch, until it has ended
    asked : the launches that the program has asked for
    skipped : those of them that the settings leave out
    estimated : nanoseconds that the launches would take on a GPU, one after the other, if the settings ask for that
    """

    settings: Settings = field(default_factory=Settings)
    report: Callable[[Diagnostic], None] | None = None
    keep: Path | None = None
    inspectors: list[Inspector] = field(default_factory=list)
    debugger: Debugger | None = None
    profiles: Profiles = field(default_factory=Profiles)
    arrays: tuple[Placed, ...] = ()
    progress: Callable[[str, int], AbstractContextManager[Progress]] | None = None
    asked: int = 0
    skipped: int = 0
    estimated: float = 0.0
    launches: list[LaunchRecord] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    device: Device = field(init=False)
    trace: Tracing | None = field(init=False)

    def __post_init__(self) -> None:
        self.trace = tracing(self.settings.trace)
        target, product = self.settings.target, PRODUCTS.get(self.settings.target)
        self.device = Device(target, sms=self.settings.sms or (product.sms if product is not None else 148))

    @property
    def ok(self) -> bool:
        """Whether no launch failed and nothing of severity error was found."""
        return all(launch.result.ok for launch in self.launches) and not any(d.severity == "error" for d in self.diagnostics)

    @property
    def keeps_inputs(self) -> bool:
        """Whether launches keep their inputs: because a setting says so, for the inspectors, or for the debugger."""
        debugged = self.debugger is not None and self.debugger.wanted
        return self.settings.keep_inputs or bool(self.inspectors) or debugged

    @property
    def product(self) -> Product:
        """What the device is sold as."""
        found = PRODUCTS.get(self.settings.target)
        if found is None:
            raise refuse("I303", f"no device has the target {self.settings.target!r}", fix=f"take one of {', '.join(PRODUCTS)}")
        return found

    @property
    def seconds(self) -> float:
        """The time of the device: that of the simulation, or what its launches would take."""
        return self.estimated * 1e-9 if self.settings.estimate_time else time.perf_counter()

    def launch_options(self, kernel: Kernel) -> dict[str, Any]:
        """Return the keyword arguments for `ptxlab.Kernel.launch` of a kernel."""
        kept = self.keeps_inputs or (self.debugger is not None and self.debugger.stops_in(kernel))
        options = self.settings.keywords()
        options.update(trace=self.trace, keep_inputs=kept, profile=self._counts)
        return options

    @property
    def _counts(self) -> bool:
        """Whether launches are counted."""
        return self.settings.estimate_time or self.profiles.kept is not None

    @contextmanager
    def with_arrays(self, arrays: Iterable[Placed]) -> Iterator[None]:
        """Give launches of a ``with`` statement the arrays that they have been called with, if they keep their inputs."""
        self.arrays = tuple(arrays) if self.keeps_inputs else ()
        try:
            yield
        finally:
            self.arrays = ()

    def launch(self, kernel: Kernel, site: Place | None, **geometry: Any) -> Result:
        """Launch a kernel with the settings unless these leave it out, write what it prints, and record what was found.

        Raises
        ------
        KernelError
            if an error was found, or, with ``keep_going``, if the kernel did not run to its end
        """
        selected = self.select(kernel, geometry["grid"], geometry.get("cluster"))
        if selected is None:
            return left_out()
        options = self.launch_options(kernel)
        options["device"] = self.device
        options.update(selected)
        with _NO_PROGRESS if self.progress is None else self.progress(kernel.name, self.asked) as options["progress"]:
            options.update(geometry)
            result = _launch(kernel, **options)
        if result.replay is not None:
            result.replay = replace(result.replay, arrays=self.arrays)
        if result.stdout:
            sys.stdout.write(result.stdout)
        self.record(kernel, site, geometry["grid"], result)
        return result

    def select(self, kernel: Kernel, grid: Any, cluster: Any) -> dict[str, Any] | None:
        """Count a launch; return the options that its selection changes, or None if it is left out."""
        self.asked += 1
        settings = self.settings
        chosen = settings.launches is not None or settings.skip_kernels
        if chosen and not is_selected(self.asked, kernel.name, settings.launches, settings.skip_kernels):
            self.skipped += 1
            return None
        return {} if settings.limit_ctas is None else {"only": first_ctas(kernel, settings.limit_ctas, grid, cluster)}

    def record(self, kernel: Kernel, site: Place | None, grid: tuple[int, ...], result: Result) -> None:
        """Record a launch and its findings; errors are raised as in `launch`."""
        counts = self._counts
        if result.completed and counts:
            self._take_profile(kernel, site, result)
        kept = result if self.settings.keep_inputs or result.replay is None else replace(result, replay=None)
        if counts:
            kept = replace(kept, profile=None)
        self.launches.append(LaunchRecord(kernel.name, site, grid, kept))
        listed = list(result.diagnostics)
        if result.completed and result.replay is not None:
            listed += [d for inspector in self.inspectors for d in inspector(result.replay, result)]
        if self.debugger is not None and result.replay is not None:
            self.debugger(result.replay, result)
        found = [launched_at(d, site) for d in listed]
        if self.keep is not None:
            self._keep(self.keep, kernel, result, bool(found))
        self._show([diagnostic for diagnostic in found if self._add(diagnostic)])
        errors = [d for d in found if d.severity == "error"]
        if errors and not (self.settings.keep_going and result.completed):
            raise KernelError(*errors)

    def _take_profile(self, kernel: Kernel, site: Place | None, result: Result) -> None:
        profile = self.profiles.take(kernel, site, result)
        if self.settings.estimate_time and profile.estimate is not None:
            result.estimated = profile.estimate.nanoseconds
            self.estimated += result.estimated

    def _keep(self, folder: Path, kernel: Kernel, result: Result, found: bool) -> None:
        """Write the PTX of a kernel with findings, and the bundle of a launch; those of one kernel are numbered."""
        bundle = self.settings.keep_inputs and result.replay is not None
        name = _file_name(kernel.name)
        if found or bundle:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{name}.ptx").write_text(kernel.module.ast.text)
        if bundle:
            number = sum(launch.kernel == kernel.name for launch in self.launches)
            result.save_bundle(folder / (f"{name}.ptxlab" if number == 1 else f"{name}.{number}.ptxlab"))

    def note(self, diagnostic: Diagnostic) -> None:
        """Record a finding and report it, once."""
        if self._add(diagnostic):
            self._show([diagnostic])

    def note_run_once(self, what: str) -> None:
        """Say that a benchmark has run a function once, unless times are estimated."""
        if not self.settings.estimate_time:
            message = f"{what} ran the function once; the times are those of the simulation on this computer"
            self.note(diagnose("I306", message, fix="--estimate-time gives estimated times; or measure on a GPU"))

    def note_unmeasured(self, code: str, message: str, fix: str = "") -> None:
        """Say what is not measured."""
        self.note(diagnose(code, message, reason="times in ptxlab say nothing about a GPU", fix=fix))

    def loaded(self, module: Module) -> None:
        """Take notice of a module that the driver has loaded."""

    def _add(self, diagnostic: Diagnostic) -> bool:
        """Record a finding; return whether it is new."""
        if diagnostic in self.diagnostics:
            return False
        self.diagnostics.append(diagnostic)
        return True

    def _show(self, found: list[Diagnostic]) -> None:
        if self.report is not None:
            for diagnostic in found:
                self.report(diagnostic)
            return
        shown = [d for d in found if d.severity != "error" or self.settings.keep_going]
        if shown:
            print(render_report(shown, sys.stderr.isatty(), _MORE), file=sys.stderr)


def _file_name(kernel: str) -> str:
    """The name of a kernel as the name of a file. A long one is truncated and gets a digest of the whole, so that names stay distinct."""
    digest = hashlib.sha256(kernel.encode()).hexdigest()[:16]
    return kernel if len(kernel) <= _LONGEST_NAME else f"{kernel[: _LONGEST_NAME - len(digest) - 1]}-{digest}"


def left_out() -> Result:
    """The result of a launch that is not run."""
    return Result((), Stats(0, {}, 0, 0.0), completed=True)


def launched_at(diagnostic: Diagnostic, site: Place | None) -> Diagnostic:
    """Add the place of the launch in the program to a diagnostic."""
    return diagnostic if site is None else replace(diagnostic, details=(*diagnostic.details, ("launched at", str(site))))


_current: list[Session] = []


def current() -> Session:
    """Return the active session; without one, make one from the environment's settings."""
    if not _current:
        _current.append(Session(Settings.from_environment()))
    return _current[-1]


@contextmanager
def activate(session: Session) -> Iterator[Session]:
    """Make a session the current one for a ``with`` statement."""
    _current.append(session)
    try:
        yield session
    finally:
        _current.remove(session)


def replace_attribute(stack: ExitStack, owner: Any, name: str, value: Any) -> None:
    """Set an attribute until the stack is closed."""
    stack.callback(setattr, owner, name, getattr(owner, name))
    setattr(owner, name, value)


FOR_GOOD = ExitStack()
"""What is never closed: for changes that last as long as the process."""
