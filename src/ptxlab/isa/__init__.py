"""The instructions: for each family its syntax, accesses, effects and semantics, and what they need of engine and machine as contracts.

To declare instructions: `catalogue` (rows and decorators), `form` and `kinds` (syntax and operands), `requirements` and `targets` (PTX ISA
versions and targets), `effects` (order, synchronisation, asynchronous operations), `native_ops` (accesses that the engine executes).
For the engine: `catalogue.match`, `operands` (instructions after lowering), `native_ops`. For the machine: `context` (what a service sees),
`address_space`, `effects`. For the linter and for help: `form.FORMS`, `catalogue.forms_of`, `help_text`.

Each family is a subpackage, which `load_all` imports; what its own ``__init__`` names is for the machine and the checks.
"""

from __future__ import annotations

from functools import cache

from ptxlab.isa._unsupported import is_known, refusal
from ptxlab.isa.catalogue import CATALOGUE
from ptxlab.native.collection import collection_paused

__all__ = ["CATALOGUE", "is_known", "load_all", "refusal"]


@cache
def load_all() -> None:
    """Enter all instruction families into `CATALOGUE` and `isa.form.FORMS`."""
    with collection_paused():
        from ptxlab.isa import bulk, control, memory, mma, scalar, sync, tcgen05, warp, wgmma  # noqa: F401
