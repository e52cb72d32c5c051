"""Bit-accurate products of the tensor cores: one fused step per instruction."""

from typing import TYPE_CHECKING

from ptxlab._exports import deferred
from ptxlab.numerics._double import mma_f64
from ptxlab.numerics._mma import mma
from ptxlab.numerics._mma_kernel import AccumulatorRef, MetadataGather, MmaKernel, OperandGather, ScaleGather, mma_kernel
from ptxlab.numerics._mma_program import MmaProgram, expand_program, move_program
from ptxlab.numerics._operand import Prepared
from ptxlab.numerics._prepared import mma_prepared, prepare
from ptxlab.numerics._sparse import expand as expand_sparse
from ptxlab.numerics._sparse import legal_codes
from ptxlab.numerics._steps import NumericsError
from ptxlab.numerics.ir.kernels import warmup_parts

if TYPE_CHECKING:
    from ptxlab.numerics import reference
else:
    __getattr__ = deferred(__name__, {"reference": ("reference",)})

__all__ = [
    "AccumulatorRef",
    "MetadataGather",
    "MmaKernel",
    "MmaProgram",
    "NumericsError",
    "OperandGather",
    "Prepared",
    "ScaleGather",
    "expand_program",
    "expand_sparse",
    "legal_codes",
    "mma",
    "mma_f64",
    "mma_kernel",
    "mma_prepared",
    "move_program",
    "prepare",
    "reference",
    "warmup_parts",
]
