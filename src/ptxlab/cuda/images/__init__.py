"""What programs hand to the driver as a module: PTX, fat binaries, cubins; and the PTX behind cubins."""

from ptxlab.cuda.images._cubin import Cubin, CubinKernel, Parameter, read_cubin
from ptxlab.cuda.images._errors import ImageError, ImageResult
from ptxlab.cuda.images._image import Image, best_text, open_image, open_image_at, parse_text, target_of
from ptxlab.cuda.images._log import jit_log
from ptxlab.cuda.images._store import PtxStore

__all__ = [
    "Cubin",
    "CubinKernel",
    "Image",
    "ImageError",
    "ImageResult",
    "Parameter",
    "PtxStore",
    "best_text",
    "jit_log",
    "open_image",
    "open_image_at",
    "parse_text",
    "read_cubin",
    "target_of",
]
