"""The PTX front end (S1xx), and binary files that carry PTX (S2xx)."""

from __future__ import annotations

from ptxlab.diagnostics.codes._info import CodeInfo

__all__ = ["CODES"]


CODES = (
    CodeInfo("S101", "error", "the text does not follow the grammar"),
    CodeInfo("S102", "error", "a character that PTX does not use"),
    CodeInfo("S103", "error", "a comment, string or section that does not end"),
    CodeInfo("S104", "error", "no .version directive", "PTX Module Directives: .version"),
    CodeInfo("S105", "error", "no .target directive", "PTX Module Directives: .target"),
    CodeInfo("S106", "error", "an unknown or misplaced directive", "Directives"),
    CodeInfo("S107", "error", "a name declared twice in one scope", "Identifiers"),
    CodeInfo("S108", "error", "a malformed number", "Constants"),
    CodeInfo("S109", "error", "a constant expression that has no value", "Constant Expressions"),
    CodeInfo("S110", "error", "nested too deeply"),
    CodeInfo("S111", "error", "an unknown type", "Fundamental Types"),
    CodeInfo("S112", "error", "a subtracted address offset", "Addresses as Operands"),
    CodeInfo("S113", "error", "a module header that contradicts itself", "PTX Module Directives"),
    CodeInfo("S114", "error", "an indexed array element as operand", "Arrays as Operands"),
    CodeInfo("S201", "error", "a binary file that carries no PTX"),
    CodeInfo("S202", "error", "a binary file that is damaged"),
    CodeInfo("S203", "error", "compressed PTX that needs a package which is not installed"),
)
