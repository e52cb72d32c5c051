"""Running a kernel of the suite in ptxlab."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ptxlab
from ptxlab.interop import nvcc
from tests.hardware.suite._kernel import HEAD, Kernel, packed


@cache
def _module(text: str, cuda: bool) -> ptxlab.Module:
    """A text in CUDA C++ or a module in PTX, compiled once for all its kernels."""
    return nvcc.compile("suite.cu", text=text, arch="sm_90a", fmad=False) if cuda else ptxlab.loads(text)


def launched(kernel: Kernel, **options: Any) -> tuple[Any, dict[int, Any]]:
    """The result of a launch, and the buffers by the ``id`` of the arrays that they hold."""
    device = ptxlab.Device("sm_90a")
    buffers = {id(a): device.array(a) for a in kernel.arrays}
    args = [_placed(a, buffers) for a in kernel.args]
    module = _module(kernel.text, kernel.cuda) if kernel.cuda or kernel.module else ptxlab.loads(HEAD + kernel.text)
    result = module[kernel.symbol].launch(
        grid=kernel.dims,
        block=kernel.block,
        cluster=kernel.cluster if kernel.cluster != (1, 1, 1) else None,
        shared_bytes=kernel.shared_bytes,
        args=args,
        registers=kernel.registers,
        device=device,
        **options,
    )
    return result, buffers


def replay(kernel: Kernel, policy: str = "eager", check: str = "all") -> tuple[list[NDArray[Any]], list[Any]]:
    """The results, and the findings but the note that the same bits are written twice (X123)."""
    done, buffers = launched(kernel, policy=policy, check=check)
    return [buffers[id(a)].numpy() for a in kernel.outputs], [d for d in done.diagnostics if d.code != "X123"]


def _placed(argument: Any, buffers: dict[int, Any]) -> Any:
    """The argument with buffers of the device in place of arrays."""
    if isinstance(argument, np.ndarray):
        return buffers[id(argument)]
    if argument is None or isinstance(argument, (int, np.generic)):
        return argument
    return packed(argument, {name: buffer.address for name, buffer in buffers.items()})
