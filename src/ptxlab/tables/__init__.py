"""The specification's tables as data. Each names the section of the specification that it comes from."""

from ptxlab.tables._data_paths import (
    DATA_PATHS,
    DataPath,
    data_path_of,
)
from ptxlab.tables._fragments import (
    COPY_LAYOUTS,
    FRAGMENT_LANES,
    FRAGMENT_REGISTERS,
    LOAD_REGISTERS,
    MATRIX_FRAGMENTS,
    TENSOR_FRAGMENTS,
)
from ptxlab.tables._mma_kinds import (
    BLOCK_SCALED_KINDS,
    K96_TARGETS,
    KINDS,
    MMA_KINDS,
    SHAPES,
    SPARSE_GRANULARITY,
    TENSOR_MEMORY_TARGETS,
    TRANSPOSED_8_BIT_N,
    TYPE_BITS,
    Kind,
    Shapes,
)
from ptxlab.tables._operand_layouts import (
    CANONICAL_LAYOUTS,
    STRIDE_ROLES,
    SWIZZLE_ATOMS,
    TRANSPOSED_SWIZZLES,
    Canonical,
)
from ptxlab.tables._packing import DECOMPRESSIONS, PACKINGS, Packing
from ptxlab.tables._scaling import (
    SCALE_IDS,
    SCALE_VECTOR_TYPES,
    SCALE_VECTORS,
    ScaleVector,
    scale_vector_of,
)
from ptxlab.tables._swizzles import (
    PHASE_SHIFT,
    SWIZZLES,
    TENSOR_MAP_SWIZZLES,
    SwizzleMode,
)
from ptxlab.tables._tensor_map import (
    ELEMENT_TYPE_NAMES,
    ELEMENT_TYPES,
    INTERLEAVES,
    L2_PROMOTIONS,
    OOB_FILLS,
    REPLACE_ELEMENT_TYPES,
    ElementType,
)
from ptxlab.tables._wgmma import (
    WGMMA_KINDS,
    WGMMA_M,
    WgmmaKind,
)

__all__ = [
    "BLOCK_SCALED_KINDS",
    "CANONICAL_LAYOUTS",
    "COPY_LAYOUTS",
    "DATA_PATHS",
    "DECOMPRESSIONS",
    "ELEMENT_TYPES",
    "ELEMENT_TYPE_NAMES",
    "FRAGMENT_LANES",
    "FRAGMENT_REGISTERS",
    "INTERLEAVES",
    "K96_TARGETS",
    "KINDS",
    "L2_PROMOTIONS",
    "LOAD_REGISTERS",
    "MATRIX_FRAGMENTS",
    "MMA_KINDS",
    "OOB_FILLS",
    "PACKINGS",
    "PHASE_SHIFT",
    "REPLACE_ELEMENT_TYPES",
    "SCALE_IDS",
    "SCALE_VECTORS",
    "SCALE_VECTOR_TYPES",
    "SHAPES",
    "SPARSE_GRANULARITY",
    "STRIDE_ROLES",
    "SWIZZLES",
    "SWIZZLE_ATOMS",
    "TENSOR_FRAGMENTS",
    "TENSOR_MAP_SWIZZLES",
    "TENSOR_MEMORY_TARGETS",
    "TRANSPOSED_8_BIT_N",
    "TRANSPOSED_SWIZZLES",
    "TYPE_BITS",
    "WGMMA_KINDS",
    "WGMMA_M",
    "Canonical",
    "DataPath",
    "ElementType",
    "Kind",
    "Packing",
    "ScaleVector",
    "Shapes",
    "SwizzleMode",
    "WgmmaKind",
    "data_path_of",
    "scale_vector_of",
]
