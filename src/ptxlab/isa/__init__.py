"""The instructions: for each family its syntax, accesses, effects and semantics, and what they need of engine and machine as contracts.

To declare instructions: `catalogue` (rows and decorators), `form` and `kinds` (syntax and operands), `requirements` and `targets` (PTX ISA
versions and targets), `effects` (order, synchronisation, asynchronous operations), `native_ops` (accesses that the engine executes).
For the engine: `catalogue.match`, `operands` (instructions after lowering), `native_ops`. For the machine: `context` (what a service sees),
`address_space`, `effects`. For the linter and for help: `form.FORMS`, `help_text.forms_of`, `help_text.help_text`.

Each family is a subpackage, which `load_all` imports, and `load_families` as far as a program needs it; what its own ``__init__`` names is
for the machine and the checks.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from ptxlab._exports import deferred
from ptxlab.isa.catalogue import CATALOGUE
from ptxlab.native.collection import collection_paused

if TYPE_CHECKING:
    from ptxlab.isa._unsupported import is_known, refusal
else:
    __getattr__ = deferred(__name__, {"_unsupported": ("is_known", "refusal")})

__all__ = ["CATALOGUE", "is_known", "load_all", "load_families", "refusal"]


@cache
def load_all() -> None:
    """Enter all instruction families into `CATALOGUE` and `isa.form.FORMS`."""
    load_families()
    with collection_paused():
        _load_mma()
        _load_tcgen05()
        _load_wgmma()


@cache
def load_families() -> None:
    """Enter the instruction families into `CATALOGUE`; those of the tensor cores are loaded when they are asked for."""
    with collection_paused():
        from ptxlab.isa import bulk, control, memory, scalar, sync, warp  # noqa: F401
    CATALOGUE.declare_family("mma", _load_mma)
    CATALOGUE.declare_family("tcgen05", _load_tcgen05)
    CATALOGUE.declare_family("wgmma", _load_wgmma)


def _load_mma() -> None:
    from ptxlab.isa import mma  # noqa: F401


def _load_tcgen05() -> None:
    from ptxlab.isa import tcgen05  # noqa: F401


def _load_wgmma() -> None:
    from ptxlab.isa import wgmma  # noqa: F401
