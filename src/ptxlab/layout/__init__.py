"""Coordinates in, addresses out. Pure functions over arrays.

Shared-memory layouts of matrix operands, tensor memory and register fragments; `cute` has the algebra of layouts.
"""

from ptxlab.layout import cute
from ptxlab.layout._banks import BANKS, BankConflicts, bank_conflicts, matrix_rows
from ptxlab.layout._canonical import atom_shape, canonical_layout, exact_layout
from ptxlab.layout._columns import Ownership, ZeroColumns, pair_ownership, zero_column_mask
from ptxlab.layout._fragments import (
    Fragment,
    MatrixFragment,
    fragment,
    matrix_fragment,
    matrix_fragment_layout,
    tensor_fragment_layout,
    wgmma_a_fragment,
    wgmma_fragment,
)
from ptxlab.layout._im2col import im2col_walk, wide_positions
from ptxlab.layout._operands import (
    Major,
    OperandDescriptor,
    OperandIndex,
    PlacedOperand,
    linear_addresses,
    operand_addresses,
    operand_index,
)
from ptxlab.layout._sparsity import (
    MetadataFragment,
    MetadataLocation,
    metadata_chunks,
    metadata_fragment,
    metadata_location,
    metadata_positions,
)
from ptxlab.layout._swizzle import matrix_base_offset, swizzle_addresses, swizzle_bytes
from ptxlab.layout._tensor_memory import (
    SCALE_TILE_BYTES,
    CopyDestination,
    Decompression,
    OperandLocation,
    ScaleLocation,
    TensorLocation,
    a_location,
    accumulator_location,
    copy_destination,
    data_path_lanes,
    decompression,
    scale_factor_location,
    scale_factor_offset,
)
from ptxlab.layout.cute import ComposedLayout, Layout, LayoutError, Swizzle, parse_layout

__all__ = [
    "BANKS",
    "SCALE_TILE_BYTES",
    "BankConflicts",
    "ComposedLayout",
    "CopyDestination",
    "Decompression",
    "Fragment",
    "Layout",
    "LayoutError",
    "Major",
    "MatrixFragment",
    "MetadataFragment",
    "MetadataLocation",
    "OperandDescriptor",
    "OperandIndex",
    "OperandLocation",
    "Ownership",
    "PlacedOperand",
    "ScaleLocation",
    "Swizzle",
    "TensorLocation",
    "ZeroColumns",
    "a_location",
    "accumulator_location",
    "atom_shape",
    "bank_conflicts",
    "canonical_layout",
    "copy_destination",
    "cute",
    "data_path_lanes",
    "decompression",
    "exact_layout",
    "fragment",
    "im2col_walk",
    "linear_addresses",
    "matrix_base_offset",
    "matrix_fragment",
    "matrix_fragment_layout",
    "matrix_rows",
    "metadata_chunks",
    "metadata_fragment",
    "metadata_location",
    "metadata_positions",
    "operand_addresses",
    "operand_index",
    "pair_ownership",
    "parse_layout",
    "scale_factor_location",
    "scale_factor_offset",
    "swizzle_addresses",
    "swizzle_bytes",
    "tensor_fragment_layout",
    "wgmma_a_fragment",
    "wgmma_fragment",
    "wide_positions",
    "zero_column_mask",
]
