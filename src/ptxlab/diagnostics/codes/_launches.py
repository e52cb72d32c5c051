"""Launches: arguments, memory, progress."""

from __future__ import annotations

from ptxlab.diagnostics.codes._info import CodeInfo

__all__ = ["CODES"]

_PARAMETERS = "Kernel Function Parameters"

CODES = (
    CodeInfo("A301", "error", "the module has no such kernel"),
    CodeInfo("A302", "error", "the number of arguments differs from the number of parameters", _PARAMETERS),
    CodeInfo("A303", "error", "an argument has the wrong type for its parameter", _PARAMETERS),
    CodeInfo("A304", "error", "a number does not fit its parameter", _PARAMETERS),
    CodeInfo("A305", "error", "an argument has the wrong size for its parameter", _PARAMETERS),
    CodeInfo("A306", "error", "an array cannot be used as an argument"),
    CodeInfo("A307", "error", "a buffer was freed or belongs to another device"),
    CodeInfo("A308", "error", "grid, block or cluster is not possible", "Performance-Tuning Directives"),
    CodeInfo("A309", "error", "the launch needs more shared memory than there is"),
    CodeInfo("A310", "error", "an option of the launch is unknown or has a wrong value"),
    CodeInfo("A311", "error", "the device has too little memory"),
    CodeInfo("A312", "error", "the kernel is for another architecture than the device"),
    CodeInfo("A313", "error", "a file cannot be read"),
    CodeInfo("A314", "error", "the kernel declares more local memory or parameters than there can be", "State Spaces"),
    CodeInfo("A315", "error", "a binary file that carries several PTX texts, or none for the wanted target"),
    CodeInfo("A316", "error", "the inputs of the launch were not kept"),
    CodeInfo("A317", "error", "the launch had no such array, or the array has no such element"),
    CodeInfo("A318", "error", "a trace cannot be written"),
    CodeInfo("A319", "note", "a trace does not hold all events"),
    CodeInfo("F107", "error", "the replay bundle cannot be read"),
    CodeInfo("F108", "error", "the replay bundle holds what no launch can be made of"),
    CodeInfo("M401", "error", "access outside every allocation"),
    CodeInfo("M402", "error", "access past the end of an allocation"),
    CodeInfo("M403", "error", "access to freed memory"),
    CodeInfo("M404", "error", "write to read-only memory"),
    CodeInfo("M405", "error", "misaligned access", "Addresses as Operands"),
    CodeInfo("M406", "error", "access outside shared memory", "Shared State Space"),
    CodeInfo("M407", "error", "access to the shared memory of a CTA that is not there", "Shared State Space"),
    CodeInfo("M410", "note", "the result of floating-point additions depends on their order", "Parallel Synchronization: atom, red"),
    CodeInfo("H601", "error", "the launch can make no progress"),
    CodeInfo("H602", "error", "the instruction budget is used up"),
    CodeInfo("H603", "error", "the kernel executed trap", "Miscellaneous Instructions: trap"),
    CodeInfo("H604", "error", "the kernel executed brkpt", "Miscellaneous Instructions: brkpt"),
    CodeInfo("H606", "error", "an assertion of the kernel failed", "Control Flow Instructions: call"),
    CodeInfo("H607", "error", "a call through a pointer that names no function it may reach", "Control Flow Instructions: call"),
    CodeInfo("H605", "error", "part of a warp executed an instruction that all its threads must execute together"),
    CodeInfo("R801", "error", "an operand differs between the threads of a warp where it must be the same"),
)
