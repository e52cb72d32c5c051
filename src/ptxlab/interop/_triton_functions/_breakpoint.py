"""Kernels may call ``breakpoint()``: the debugger stops there."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from triton.compiler.code_generator import CodeGenerator
from triton.language import core

from ptxlab.debug import BREAKPOINT
from ptxlab.interop.session import current, replace_attribute
from ptxlab.machine.launch.options import refuse

__all__ = ["change"]


def _stop(_semantic: Any = None) -> None:
    """What ``breakpoint()`` becomes: an instruction at which the debugger stops, and the result that Triton wants."""
    if current().debugger is None:
        raise refuse("I310", "a kernel calls breakpoint(), and no debugger is there", fix="run the script under `ptxlab exec`")
    core.inline_asm_elementwise(f"{BREAKPOINT}; mov.b32 $0, 0;", "=r", [], dtype=core.int32, is_pure=False, pack=1, _semantic=_semantic)


def change(stack: ExitStack) -> None:
    """Add the function to those that kernels may call until the stack is closed."""
    known: dict[str, Any] = CodeGenerator.builtin_namespace
    replace_attribute(stack, CodeGenerator, "builtin_namespace", known | {"breakpoint": core.builtin(_stop)})
