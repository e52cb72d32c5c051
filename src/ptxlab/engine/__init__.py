"""Execution of one warp's instructions: lowering, compiled regions, and the NumPy interpreter that they are compared with."""

from ptxlab.engine.context import WORDS, Context, Status, Word
from ptxlab.engine.faults import FAULTS, Fault
from ptxlab.engine.llvm.executable import Executable
from ptxlab.engine.lowering.frame import mirrored, separate
from ptxlab.engine.lowering.lower import Lowering, lower, resolve
from ptxlab.engine.program import BasicBlock, Parameter, Program, Register, SharedLayout

__all__ = [
    "FAULTS",
    "WORDS",
    "BasicBlock",
    "Context",
    "Executable",
    "Fault",
    "Lowering",
    "Parameter",
    "Program",
    "Register",
    "SharedLayout",
    "Status",
    "Word",
    "lower",
    "mirrored",
    "resolve",
    "separate",
]
