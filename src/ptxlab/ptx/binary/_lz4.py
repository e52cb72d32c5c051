"""LZ4 blocks, which older fatbins and ``--compress-mode=speed`` use: literals and back references alternate."""

from __future__ import annotations

__all__ = ["decompress"]

_LEAST_MATCH = 4


def decompress(block: bytes, size: int) -> bytes:
    r"""The bytes that a block decompresses to.

    Raises
    ------
    ValueError
        if the block is damaged or does not give exactly ``size`` bytes

    Examples
    --------
    >>> decompress(b"\x24ab\x02\x00\x10!", 11)
    b'ababababab!'
    """
    out = bytearray()
    at = 0
    try:
        while True:
            token = block[at]
            literals, at = _length(block, at + 1, token >> 4)
            if at + literals > len(block) or len(out) + literals > size:
                raise ValueError("literals run past the end")
            out += block[at : at + literals]
            at += literals
            if at == len(block):
                break
            distance = block[at] | block[at + 1] << 8
            match, at = _length(block, at + 2, token & 15)
            match += _LEAST_MATCH
            if not 0 < distance <= len(out) or len(out) + match > size:
                raise ValueError("a back reference points outside")
            start = len(out) - distance
            repeated = bytes(out[start : start + match])
            out += (repeated * (match // len(repeated) + 1))[:match]
    except IndexError:
        raise ValueError("the block ends early") from None
    if len(out) != size:
        raise ValueError(f"{len(out)} bytes instead of {size}")
    return bytes(out)


def _length(block: bytes, at: int, length: int) -> tuple[int, int]:
    """A length whose first four bits are 15 continues in bytes, up to the first that is not 255."""
    if length == 15:
        while True:
            more = block[at]
            at += 1
            length += more
            if more != 255:
                break
    return length, at
