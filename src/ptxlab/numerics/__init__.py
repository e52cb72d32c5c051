"""Bit-accurate products of the tensor cores: one fused step per instruction."""

from ptxlab.numerics import reference
from ptxlab.numerics._double import mma_f64
from ptxlab.numerics._errors import NumericsError
from ptxlab.numerics._mma import mma
from ptxlab.numerics._mma_kernel import Product, product_of
from ptxlab.numerics._mma_program import Cells, Chain, Source
from ptxlab.numerics._prepared import Prepared, mma_prepared, prepare
from ptxlab.numerics._sparse import expand as expand_sparse
from ptxlab.numerics._sparse import legal_codes
from ptxlab.numerics.ir.kernels import warmup_parts

__all__ = [
    "Cells",
    "Chain",
    "NumericsError",
    "Prepared",
    "Product",
    "Source",
    "expand_sparse",
    "legal_codes",
    "mma",
    "mma_f64",
    "mma_prepared",
    "prepare",
    "product_of",
    "reference",
    "warmup_parts",
]
