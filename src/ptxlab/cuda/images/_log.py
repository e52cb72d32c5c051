"""The logs that the driver's just-in-time compiler gives back, with ptxlab's diagnostics in them."""

from __future__ import annotations

from collections.abc import Iterable

from ptxlab.diagnostics import Diagnostic, render_text

__all__ = ["jit_log"]


def jit_log(diagnostics: Iterable[Diagnostic], size: int) -> bytes:
    r"""The text for a log buffer of a size: the diagnostics, cut off where the buffer ends, and a zero byte.

    Parameters
    ----------
    diagnostics : the errors for ``CU_JIT_ERROR_LOG_BUFFER``, the others for ``CU_JIT_INFO_LOG_BUFFER``
    size : of the buffer in bytes; 0 gives no bytes

    Examples
    --------
    >>> jit_log((), 8)
    b'\x00'
    """
    if size <= 0:
        return b""
    text = render_text(list(diagnostics)).encode()[: size - 1]
    return text.decode("utf-8", "ignore").encode() + b"\0"
