"""Bit-field codecs: descriptors of shared memory and instructions, and tensor maps."""

from typing import TYPE_CHECKING

from ptxlab._exports import deferred
from ptxlab.descriptors._bitfields import BitField, BitFormat, DescriptorError, Finding, TensorMapError
from ptxlab.descriptors._instruction import InstructionDescriptor
from ptxlab.descriptors._legality import check_fragment, check_mma
from ptxlab.descriptors._register_operands import TensorMemoryAddress, ZeroColumnMask
from ptxlab.descriptors._shared_memory import SharedMemoryDescriptor, WgmmaDescriptor
from ptxlab.descriptors.tensor_map.codec import TENSOR_MAP_BYTES, TensorMapFields, decode_tensor_map, replace_field
from ptxlab.descriptors.tensor_map.encode import encode_tensor_map
from ptxlab.descriptors.tensor_map.tensor_map import TensorMap

if TYPE_CHECKING:
    from ptxlab.descriptors._tile import OperandTile
    from ptxlab.descriptors.describe.explain import READINGS, explain, format_of
    from ptxlab.descriptors.describe.explanation import Explanation, FieldRow, Hint, Interpretation
else:
    _HOMES = {
        "_tile": ("OperandTile",),
        "describe.explain": ("READINGS", "explain", "format_of"),
        "describe.explanation": ("Explanation", "FieldRow", "Hint", "Interpretation"),
    }
    __getattr__ = deferred(__name__, _HOMES)

__all__ = [
    "READINGS",
    "TENSOR_MAP_BYTES",
    "BitField",
    "BitFormat",
    "DescriptorError",
    "Explanation",
    "FieldRow",
    "Finding",
    "Hint",
    "InstructionDescriptor",
    "Interpretation",
    "OperandTile",
    "SharedMemoryDescriptor",
    "TensorMap",
    "TensorMapError",
    "TensorMapFields",
    "TensorMemoryAddress",
    "WgmmaDescriptor",
    "ZeroColumnMask",
    "check_fragment",
    "check_mma",
    "decode_tensor_map",
    "encode_tensor_map",
    "explain",
    "format_of",
    "replace_field",
]
