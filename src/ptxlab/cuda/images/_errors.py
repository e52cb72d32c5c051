"""Why an image cannot be opened, as the driver says it and as ptxlab says it."""

from __future__ import annotations

from enum import IntEnum

from ptxlab.diagnostics import Diagnostic, PtxlabError

__all__ = ["ImageError", "ImageResult"]


class ImageResult(IntEnum):
    """The driver's result codes for images."""

    INVALID_VALUE = 1
    INVALID_IMAGE = 200
    NO_BINARY_FOR_GPU = 209
    INVALID_PTX = 218
    UNSUPPORTED_PTX_VERSION = 222


class ImageError(PtxlabError):
    """An image that cannot be opened; ``result`` is the driver's code."""

    def __init__(self, result: ImageResult, *diagnostics: Diagnostic) -> None:
        super().__init__(*diagnostics)
        self.result = result
