"""Running a kernel of the suite in ptxlab."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ptxlab
from ptxlab.interop import nvcc
from tests.hardware.suite._kernel import HEAD, Kernel


@cache
def _module(text: str) -> ptxlab.Module:
    """A CUDA C++ text, compiled once for all its kernels."""
    return nvcc.compile("suite.cu", text=text, arch="sm_90a", fmad=False)


def replay(kernel: Kernel, policy: str = "eager", check: str = "all") -> tuple[list[NDArray[Any]], list[Any]]:
    """The results, and the findings."""
    copies = {id(a): a.copy() for a in kernel.arrays}
    args = [_renewed(a, copies) for a in kernel.args]
    module = _module(kernel.text) if kernel.cuda else ptxlab.loads(HEAD + kernel.text)
    done = module[kernel.symbol].launch(
        grid=kernel.dims, block=kernel.block, shared_bytes=kernel.shared_bytes, args=args, policy=policy, check=check
    )
    return [copies[id(a)] for a in kernel.outputs], list(done.diagnostics)


def _renewed(argument: Any, copies: dict[int, NDArray[Any]]) -> Any:
    if isinstance(argument, np.ndarray):
        return copies[id(argument)]
    if isinstance(argument, int):
        return argument
    made = type(argument).__new__(type(argument))
    made.base, made.fields = copies[id(argument.base)], argument.fields
    return made
