"""The bit formats by the names that `explain` uses, for those who draw or edit bits."""

from __future__ import annotations

from ptxlab.descriptors._bitfields import BitFormat
from ptxlab.descriptors._errors import DescriptorError
from ptxlab.descriptors._instruction import FORMATS
from ptxlab.descriptors._shared_memory import TCGEN05_FORMAT, WGMMA_FORMAT
from ptxlab.descriptors._tensor_address import TENSOR_ADDRESS_FORMAT
from ptxlab.descriptors._zero_columns import ZERO_COLUMN_FORMAT

__all__ = ["format_of"]

_FORMATS = {"smem": TCGEN05_FORMAT, "wgmma": WGMMA_FORMAT, "mask": ZERO_COLUMN_FORMAT, "tmem": TENSOR_ADDRESS_FORMAT}


def format_of(reading: str, kind: str | None = None) -> BitFormat:
    """The fields of a reading; an instruction descriptor needs the kind.

    Examples
    --------
    >>> [item.name for item in format_of("tmem").fields]
    ['column', 'lane']
    >>> format_of("idesc", "mxf4").fields[-1].name
    'k96'
    """
    if reading == "idesc":
        if kind is None or kind not in FORMATS:
            raise DescriptorError(f"no instruction descriptor of .kind::{kind}; the kinds are {', '.join(FORMATS)}")
        return FORMATS[kind]
    if reading not in _FORMATS:
        raise DescriptorError(f"no bit format of {reading!r}; there are idesc, {', '.join(_FORMATS)}")
    return _FORMATS[reading]
