"""``breakpoint()`` in a Triton or Gluon kernel: an instruction at which the debugger stops."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from triton.compiler.code_generator import CodeGenerator
from triton.language import core

from ptxlab.debug import BREAKPOINT
from ptxlab.interop.session import current, replace_attribute
from ptxlab.machine.launch.options import refuse

__all__ = ["change_breakpoints"]

_MARKER = f"{BREAKPOINT}; mov.b32 $0, 0;"
"""The instruction, and the result that Triton wants."""


def change_breakpoints(stack: ExitStack) -> None:
    """Let kernels call ``breakpoint()`` until the stack is closed: it becomes `ptxlab.debug.BREAKPOINT`."""
    known: dict[str, Any] = CodeGenerator.builtin_namespace
    replace_attribute(stack, CodeGenerator, "builtin_namespace", known | {"breakpoint": core.builtin(_stop)})


def _stop(_semantic: Any = None) -> None:
    if current().debugger is None:
        raise refuse("I310", "a kernel calls breakpoint(), and no debugger is there", fix="run the script under `ptxlab exec`")
    core.inline_asm_elementwise(_MARKER, "=r", [], dtype=core.int32, is_pure=False, pack=1, _semantic=_semantic)
