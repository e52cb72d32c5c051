"""The CUDA device of torch's CPU build: tensors on ``cuda`` are in memory that ptxlab's kernels use, and operators run on the CPU.

With a C++ compiler, a library is compiled once for each torch, and tensors are true CUDA tensors. Without one, and in a CUDA build of
torch, arguments that name a CUDA device mean the memory of the computer, and tensors say that they are on ``cpu``.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from typing import Any

from ptxlab import cuda
from ptxlab.formats import set_host_view
from ptxlab.interop.optional_packages import after_import, before_import
from ptxlab.interop.session import current
from ptxlab.interop.torch._build import CannotBuild, installed_torch, library_file
from ptxlab.interop.torch._host_device import HostDevice
from ptxlab.interop.torch._inductor import adapt_on_import, set_environment
from ptxlab.interop.torch._interface import device_interface, tensor_device
from ptxlab.interop.torch._library import DeviceLibrary
from ptxlab.interop.torch._state import is_prepared, library, set_device
from ptxlab.interop.torch._streams import HostEvent
from ptxlab.machine.launch.options import refuse

__all__ = ["HostEvent", "capture_call", "device_interface", "install", "install_on_import", "tensor_device"]

_VARIABLE = "PTXLAB_TORCH_DEVICE"
"""``cpu`` asks for the way without a compiler."""


def install() -> None:
    """Make ``device="cuda"`` work in torch, which must not have been imported yet.

    Raises
    ------
    LaunchError
        I308 if torch has been imported

    Examples
    --------
    >>> import ptxlab.interop.torch                                                     # doctest: +SKIP
    >>> ptxlab.interop.torch.install()                                                  # doctest: +SKIP
    >>> import torch                                                                    # doctest: +SKIP
    >>> torch.ones(2, device="cuda")                                                    # doctest: +SKIP
    tensor([1., 1.], device='cuda:0')
    """
    if is_prepared():
        return
    if "torch" in sys.modules:
        raise refuse(
            "I308", "torch was imported before its CUDA device was installed", fix="call install() before the first import of torch"
        )
    install_on_import()


def install_on_import() -> Callable[[], None]:
    """Do what `install` does for a program that may import torch; returns a function to call at the program's end.

    A torch that has been imported stays as it is.
    """
    return before_import("torch", _prepare)


def capture_call(function: Callable[[], object]) -> bool:
    """While a CUDA graph is captured, add a call to it and return true; the call is made at each replay."""
    from ptxlab.interop.torch._graphs import capture_call

    return capture_call(function)


def _prepare() -> None:
    """Before torch is imported: load the library, and fill the gaps of torch's extension module when it is there."""
    if is_prepared():
        return
    why = _load()
    after_import("torch._C", _fill_names)
    after_import("torch", lambda: _finish(why))


def _load() -> str:
    """Load the library; if there is none, return why."""
    why = ""
    torch = installed_torch()
    if torch is None:
        why = "torch is not installed"
    elif torch.cuda is not None:
        why = f"torch {torch.version} is a CUDA build"
    elif os.environ.get(_VARIABLE) == "cpu":
        why = f"{_VARIABLE} is cpu"
    else:
        try:
            found = DeviceLibrary(library_file(torch))
            driver = cuda.installed()
            if driver is not None:
                found.use_driver(driver.library._name)
                driver.host_writes()
            found.register(1 if driver is None else len(driver.bridge.devices), current().product.memory)
            set_device(found)
            set_host_view("cuda", _host_view)
            set_environment()
            return ""
        except (CannotBuild, OSError, RuntimeError) as error:
            why = str(error)
    set_device(HostDevice())
    return why


def _host_view(tensor: Any) -> Any:
    import torch

    return torch.ops.ptxlab_cuda.host_view(tensor)


def _fill_names() -> None:
    from ptxlab.interop.torch._names import names

    extension: Any = sys.modules["torch._C"]
    for name, value in names(extension).items():
        setattr(extension, name, value)


def _initialise(driver: cuda.Driver) -> None:
    """Make the primary context of the first device current, as torch does in a program that uses it; other packages count on that."""
    context = ctypes.c_void_p()
    driver.library.cuInit(0)
    driver.library.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    driver.library.cuCtxSetCurrent(context)


def _finish(why: str) -> None:
    import torch

    from ptxlab.interop.torch._names import RUNTIME_VERSION

    driver = cuda.installed()
    if driver is not None:
        _initialise(driver)
    if torch.version.cuda is None:
        torch.version.cuda = f"{RUNTIME_VERSION // 1000}.{RUNTIME_VERSION % 1000 // 10}"
        torch.backends.cudnn.enabled = False
    if library() is None:
        from ptxlab.interop.torch._redirection import redirect

        redirect(why)
    else:
        from ptxlab.interop.torch._profiler import allow_cuda_activities
        from ptxlab.interop.torch._storage import allow_cuda

        allow_cuda()
        allow_cuda_activities()
        adapt_on_import()
