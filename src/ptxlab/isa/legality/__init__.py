"""Which forms of instructions there are: qualifiers, combinations, operand kinds, ranges, targets, versions, as declarations."""

from __future__ import annotations

from collections.abc import Mapping

from ptxlab.isa.legality._bulk import BULK_FORMS
from ptxlab.isa.legality._bulk_tensor import BULK_TENSOR_FORMS
from ptxlab.isa.legality._fence import FENCE_FORMS
from ptxlab.isa.legality._form import (
    LONGS,
    SHORTS,
    WORDS,
    Address,
    Form,
    Immediate,
    Kind,
    Operands,
    Predicate,
    Register,
    Rule,
    Sink,
    Slot,
    TensorAddress,
    Vector,
)
from ptxlab.isa.legality._help import help_text
from ptxlab.isa.legality._mbarrier import MBARRIER_FORMS
from ptxlab.isa.legality._tcgen05 import TCGEN05_FORMS
from ptxlab.isa.legality._tcgen05_mma import TCGEN05_MMA_FORMS
from ptxlab.isa.legality._tensormap import TENSORMAP_FORMS
from ptxlab.isa.legality._wgmma import WGMMA_FORMS

__all__ = [
    "FORMS",
    "LONGS",
    "SHORTS",
    "WORDS",
    "Address",
    "Form",
    "Immediate",
    "Kind",
    "Operands",
    "Predicate",
    "Register",
    "Rule",
    "Sink",
    "Slot",
    "TensorAddress",
    "Vector",
    "find_forms",
    "help_text",
    "is_declared",
]


def _by_name() -> Mapping[str, tuple[Form, ...]]:
    found: dict[str, tuple[Form, ...]] = {}
    synchronisation = (*MBARRIER_FORMS, *FENCE_FORMS)
    copies = (*BULK_FORMS, *BULK_TENSOR_FORMS, *TENSORMAP_FORMS)
    for form in (*TCGEN05_FORMS, *TCGEN05_MMA_FORMS, *WGMMA_FORMS, *synchronisation, *copies):
        found[form.name] = (*found.get(form.name, ()), form)
    return found


FORMS: Mapping[str, tuple[Form, ...]] = _by_name()
"""Fixed name -> the forms under it (dense and sparse ones share theirs)."""

_FAMILIES = ("tcgen05", "wgmma", "mbarrier", "fence", "membar", "tensormap", "cp.async.bulk", "cp.async.mbarrier", "cp.reduce")
"""Beginnings of opcodes whose every form stands in `FORMS`."""


def is_declared(opcode: str) -> bool:
    """Whether every form of the opcode's family stands in `FORMS`: another opcode of the family does not exist."""
    return any(f"{opcode}.".startswith(f"{family}.") for family in _FAMILIES)


def find_forms(opcode: str) -> tuple[Form, ...]:
    """The forms that an opcode begins like, those with the longest name.

    >>> [form.name for form in find_forms("tcgen05.ld.red.sync.aligned.32x32b.x2.max.u32")]
    ['tcgen05.ld.red']
    """
    words = opcode.split(".")
    return next((FORMS[name] for length in range(5, 0, -1) if (name := ".".join(words[:length])) in FORMS), ())
