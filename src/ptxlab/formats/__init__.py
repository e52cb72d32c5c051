"""Element types: bit patterns to values and back, and how they are packed."""

from ptxlab.formats._arrays import ArrayError, array_of, bytes_of, is_host_memory, set_host_view
from ptxlab.formats._conversions import Rounding, Saturation, decode, encode
from ptxlab.formats._pack import CONTAINER_SHIFT, Packing, pack, unpack
from ptxlab.formats._table import FORMATS, NUMPY_TYPES, Format, FormatError, bits_of

__all__ = [
    "CONTAINER_SHIFT",
    "FORMATS",
    "NUMPY_TYPES",
    "ArrayError",
    "Format",
    "FormatError",
    "Packing",
    "Rounding",
    "Saturation",
    "array_of",
    "bits_of",
    "bytes_of",
    "decode",
    "encode",
    "is_host_memory",
    "pack",
    "set_host_view",
    "unpack",
]
