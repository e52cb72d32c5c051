"""The options of a launch: each one's default, type, allowed values and help text are defined here, once.

`Kernel.launch`, launch files, the command line, the variables ``PTXLAB_*`` and the pytest mark take their options from `LaunchOptions`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import field, fields, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ptxlab._records import dataclass
from ptxlab.diagnostics import PtxlabError, diagnose

if TYPE_CHECKING:
    from ptxlab.machine.observe.observer import Tracing

__all__ = [
    "CHECKS",
    "LaunchError",
    "LaunchOptions",
    "Option",
    "flag",
    "option",
    "processors",
    "refuse",
    "selected_checks",
    "whole",
    "whole_number",
]

CHECKS: dict[str, str] = {"memory": "M", "barrier": "B", "tmem": "T", "descriptor": "D", "register": "R", "operands": "O", "race": "X"}
"""The checks by name, with the letter of the codes that they report."""

Cta = tuple[int, ...]
_MOST_WORKERS = 1024


class LaunchError(PtxlabError):
    """A launch that was refused before anything ran."""


def refuse(code: str, message: str, fix: str = "") -> LaunchError:
    """Make the error of a refused launch."""
    return LaunchError(diagnose(code, message, fix=fix))


def whole_number(name: str, value: Any, low: int, high: int) -> int:
    """Return ``value`` as an int, or refuse it if it is not one from ``low`` to ``high``."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or not low <= int(value) <= high:
        raise refuse("A310", f"{name} must be an int from {low} to {high}, not {value!r}")
    return int(value)


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def selected_checks(check: str | Collection[str] | None) -> frozenset[str]:
    """Return the checks that a ``check`` argument names; an unknown name is refused."""
    if check is None or check == "none":
        return frozenset()
    if check == "all":
        return frozenset(CHECKS)
    names = set(check.split(",") if isinstance(check, str) else check)
    unknown = sorted(str(n) for n in names if n not in CHECKS)
    if unknown:
        raise refuse(
            "A310",
            f"there is no check named {', '.join(map(repr, unknown))}",
            fix=f"check takes 'all', 'none', or names out of {', '.join(map(repr, CHECKS))}",
        )
    return frozenset(names)


# ------------------------------------------------------------------------------------------------------- kinds of options


@dataclass(frozen=True, slots=True)
class Option:
    """What the metadata of a field of `LaunchOptions` says about the option.

    Attributes
    ----------
    help : one sentence for ``--help`` and for readers of this file
    accept : called with the option's name and a value; returns the value to keep, or raises A310
    read : turns text, from the command line or the environment, into a value for ``accept``; text that cannot be read stays text
    form : how text is written, for ``--help``; None for a switch, which is ``1`` or ``0``
    """

    help: str
    accept: Callable[[str, Any], Any]
    read: Callable[[str], Any]
    form: str | None


def option(default: Any, help: str, kind: Callable[[str], Option]) -> Any:
    """Make a field of `LaunchOptions`."""
    return field(default=default, metadata={"option": kind(help)})


def one_of(*allowed: str) -> Callable[[str], Option]:
    """Options that are one of a few words."""

    def accept(name: str, value: Any) -> str:
        if value not in allowed:
            raise refuse("A310", f"{name} must be one of {', '.join(map(repr, allowed))}, not {value!r}")
        return str(value)

    return lambda help: Option(help, accept, str, f"[{'|'.join(allowed)}]")


def whole(low: int, high: int, optional: bool = False) -> Callable[[str], Option]:
    """Options that are whole numbers in a range; None is allowed if they are ``optional``."""

    def accept(name: str, value: Any) -> int | None:
        return None if optional and value is None else whole_number(name, value, low, high)

    def read(text: str) -> int | str:
        try:
            return int(text)
        except ValueError:
            return text

    return lambda help: Option(help, accept, read, "N")


def flag(help: str) -> Option:
    """Make an option that is on or off."""

    def accept(name: str, value: Any) -> bool:
        if not isinstance(value, bool | int | np.bool_) or value not in (False, True):
            raise refuse("A310", f"{name} must be True or False, not {value!r}", fix="as text: 1 or 0")
        return bool(value)

    return Option(help, accept, lambda text: {"1": True, "0": False}.get(text, text), None)


def _accept_ctas(name: str, value: Any) -> tuple[Cta, ...] | None:
    if value is None:
        return None
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise _no_cta(name, value)
    return tuple(_cta(name, entry) for entry in value)


def _cta(name: str, entry: Any) -> Cta:
    at = tuple(entry) if isinstance(entry, Iterable) else (entry,)
    if not 1 <= len(at) <= 3 or any(isinstance(i, bool) or not hasattr(i, "__index__") for i in at):
        raise _no_cta(name, entry)
    return tuple(map(int, at))


def _no_cta(name: str, value: Any) -> LaunchError:
    return refuse(
        "A310", f"{name} takes CTA coordinates (x, y, z), not {value!r}", fix="as text, with semicolons between CTAs: 0,0,0;1,0,0"
    )


def _read_ctas(text: str) -> Any:
    try:
        return tuple(tuple(int(part) for part in entry.split(",")) for entry in text.split(";"))
    except ValueError:
        return text


def _accept_trace(name: str, value: Any) -> Any:
    if value is not None and not isinstance(value, str | os.PathLike) and not hasattr(value, "observe"):
        raise refuse("A310", f"{name} must be a path or a ptxlab.Trace, not {value!r}")
    return value


def _accept_workers(name: str, value: Any) -> int | str:
    return "auto" if isinstance(value, str) and value == "auto" else whole_number(name, value, 1, _MOST_WORKERS)


_ctas = partial(Option, accept=_accept_ctas, read=_read_ctas, form="X,Y,Z;...")
_check = partial(Option, accept=lambda name, value: value if value in ("all", "none") else selected_checks(value), read=str, form="NAMES")
_workers = partial(Option, accept=_accept_workers, read=lambda text: int(text) if text.isdecimal() else text, form="N|auto")
_trace = partial(Option, accept=_accept_trace, read=str, form="FILE")


# ------------------------------------------------------------------------------------------------------------ the options


@dataclass(frozen=True, kw_only=True)
class LaunchOptions:
    """How a kernel is launched, besides its grid, its shared memory and its arguments.

    A wrong value is refused with A310.

    Examples
    --------
    >>> LaunchOptions(policy="lazy").changed(seed=3).policy
    'lazy'
    >>> LaunchOptions().read({"check": "memory,race", "only": "0,0;1,0"}).only
    ((0, 0), (1, 0))
    """

    policy: str = option("eager", "When asynchronous operations perform.", one_of("eager", "lazy", "random"))
    seed: int = option(0, "Seed of the random policy, and of undefined=random.", whole(-(1 << 63), 1 << 64))
    model: str = option("practice", "Rules of ordering: what compilers rely on, or the letter of the PTX ISA.", one_of("practice", "spec"))
    check: str | Collection[str] | None = option("all", "all, none, or names of checks separated by commas.", _check)
    only: Iterable[Any] | None = option(None, "Run only the clusters that hold these CTAs.", _ctas)
    registers: int | None = option(None, "Registers per thread, the pool of setmaxnreg; default: .maxnreg.", whole(1, 512, optional=True))
    contract: bool = option(False, "Fuse unmarked multiplications and additions.", flag)
    tmem_offset: int = option(0, "The first column that tcgen05.alloc tries.", whole(0, 511))
    max_instructions: int | None = option(
        None, "Budget of warp-instructions; default: finite, growing with the number of warps.", whole(0, 1 << 62, optional=True)
    )
    trace: str | os.PathLike[str] | Tracing | None = option(None, "Write a timeline for Perfetto to this file.", _trace)
    keep_inputs: bool = option(False, "Copy the device memory before a launch, for provenance and replay bundles.", flag)

    undefined: str = option(
        "report", "What registers and memory hold that nothing has written: report its use, or fill it.", one_of("report", "zero", "random")
    )

    workers: int | str = option(1, "Processes that run clusters at the same time; auto: one for each processor.", _workers)

    def __post_init__(self) -> None:
        for name, each in self.described().items():
            object.__setattr__(self, name, each.accept(name, getattr(self, name)))

    @classmethod
    def described(cls) -> dict[str, Option]:
        """Return the description of every option by its name."""
        return {f.name: f.metadata["option"] for f in fields(cls) if "option" in f.metadata}

    @cached_property
    def checks(self) -> frozenset[str]:
        """The names of the selected checks."""
        return selected_checks(self.check)

    @cached_property
    def letters(self) -> frozenset[str]:
        """The letters of the codes that the selected checks report."""
        return frozenset(CHECKS[name] for name in self.checks)

    @property
    def processes(self) -> int:
        """How many processes run clusters at most."""
        return processors() if isinstance(self.workers, str) else self.workers

    @cached_property
    def tracked(self) -> bool:
        """Whether undefined bits of registers are followed."""
        return self.undefined == "report" and "register" in self.checks

    @cached_property
    def confirms(self) -> bool:
        """Whether findings that hold only if a value is used are tested by a second run."""
        return self.undefined == "report" and "race" in self.checks

    def changed(self, **values: Any) -> Self:
        """Replace options; an unknown name is refused."""
        known = self.described()
        unknown = [name for name in values if name not in known]
        if unknown:
            raise refuse("A310", f"there is no option named {', '.join(map(repr, unknown))}", fix=f"options are {', '.join(known)}")
        return replace(self, **values)

    def read(self, texts: Mapping[str, str]) -> Self:
        """Replace options by what texts say, from the command line or the environment."""
        known = self.described()
        return self.changed(**{name: known[name].read(text) for name, text in texts.items()})

    def keywords(self) -> dict[str, Any]:
        """Return the options as keyword arguments of `Kernel.launch`."""
        return dict(self._keywords)

    @cached_property
    def _keywords(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(LaunchOptions)}
