"""Host code that a Python program calls: what fails while it runs is raised in Python when it has returned."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from ptxlab.cuda._install import Driver
from ptxlab.diagnostics import Diagnostic, Place, PtxlabError
from ptxlab.machine import Device, Kernel, KernelError, Module, Result

__all__ = ["Call", "host_call", "launching"]


@dataclass(frozen=True, slots=True)
class _Settings:
    """A refusal is raised in the end: host code is not told, because it often ends the process then."""

    target: str
    sms: int
    keep_going: ClassVar[bool] = True
    leaks: ClassVar[bool] = False
    follows_memory: ClassVar[bool] = True
    conceals_refusals: ClassVar[bool] = True


class Call:
    """The host of the launches of one call.

    Parameters
    ----------
    device : where they run
    launch : called with the kernel, its place in the program, and by keyword with what the host code says, as `Kernel.launch` takes it

    Attributes
    ----------
    error : the first one; launches after it are refused
    modules : that the call has loaded
    misuses : findings about freed memory, which end nothing
    """

    def __init__(self, device: Device, launch: Callable[..., Result]) -> None:
        self.settings = _Settings(device.target or "", device.sms)
        self.error: BaseException | None = None
        self.modules: list[Module] = []
        self.misuses: list[Diagnostic] = []
        self._launch = launch

    def launch(self, kernel: Kernel, site: Place | None, *, grid: tuple[int, ...], **options: Any) -> Result:
        """Launch a kernel; an error is kept, and raised for the driver too."""
        if self.error is not None:
            raise KernelError(*getattr(self.error, "diagnostics", ()))
        try:
            return self._launch(kernel, site, grid=grid, **options)
        except BaseException as error:
            self.error = error
            raise

    def note(self, diagnostic: Diagnostic) -> None:
        """Keep what the driver refuses."""
        if diagnostic.code == "I504":
            self.misuses.append(diagnostic)
        elif diagnostic.severity != "note" and self.error is None:
            self.error = PtxlabError(diagnostic)

    def loaded(self, module: Module) -> None:
        """Keep a module."""
        self.modules.append(module)


def launching(options: Mapping[str, Any], launched: Callable[[Kernel, dict[str, Any], Result], object]) -> Callable[..., Result]:
    """Make what launches the kernels of a call, with options of `Kernel.launch`, and raises what it finds.

    ``launched`` is called with the kernel, the keyword arguments of the host code, and the result.
    """

    def launch(kernel: Kernel, _: Place | None, **shape: Any) -> Result:
        result = kernel.launch(**shape, **options)
        launched(kernel, shape, result)
        if not result.ok:
            raise KernelError(*result.diagnostics)
        return result

    return launch


@contextmanager
def host_call(driver: Driver, device: Device, launch: Callable[..., Result]) -> Iterator[Call]:
    """Call host code in a ``with`` statement; the first error of its launches and of its calls of the driver is raised at the end."""
    call = Call(device, launch)
    try:
        with driver.calls(device, call):
            yield call
    except Exception:
        if call.error is None:
            raise
    if call.error is not None:
        raise call.error
