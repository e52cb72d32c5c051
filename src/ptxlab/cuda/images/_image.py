"""Images of modules as programs hand them to the driver: what they hold, and what of it a device takes."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from ptxlab import machine, ptx
from ptxlab.cuda.images import _memory
from ptxlab.cuda.images._cubin import Cubin, read_cubin
from ptxlab.cuda.images._errors import ImageError, ImageResult
from ptxlab.cuda.images._makers import maker_of
from ptxlab.cuda.images._store import PtxStore
from ptxlab.diagnostics import Diagnostic, diagnose
from ptxlab.isa.targets import LATEST_VERSION, runs_on
from ptxlab.ptx import elf, fat_binary

__all__ = ["Image", "best_text", "open_image", "open_image_at", "parse_text", "target_of"]

Container = Literal["PTX", "fat binary", "cubin"]
_WRAPPER_MAGIC = (0x466243B1).to_bytes(4, "little")
_WRAPPER_SIZE = 24
_MOST_WRAPPED = 4096
_VERSION = re.compile(r"^\s*\.version\b", re.MULTILINE)
_ENTRY = re.compile(r"\.entry\s+([\w$]+)")
UNNAMED = "<image>"
"""An image without a file; its text is called after its first kernel."""
_TARGET = re.compile(r"^\s*\.target\s+(sm_\d+[af]?)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Image:
    """What a device takes of an image.

    Attributes
    ----------
    container : what the program has handed over
    module : the PTX, parsed; None if there is only machine code
    cubin : the machine code for the device, which answers questions about registers; None if there is none
    """

    container: Container
    module: machine.Module | None
    cubin: Cubin | None

    @property
    def kernel_names(self) -> tuple[str, ...]:
        """The kernels in the order of the PTX, else of the symbol table."""
        if self.module is not None:
            return tuple(self.module)
        return tuple(self.cubin.kernels) if self.cubin is not None else ()

    def refusal(self, kernel: str) -> Diagnostic | None:
        """Why a kernel of this image cannot be launched: it is machine code only. None if it can."""
        if self.module is not None or self.cubin is None:
            return None
        maker = maker_of(self.cubin, self.container == "fat binary")
        details = (("made by", maker.name), ("target", self.cubin.target), ("SHA-256", self.cubin.digest))
        message = f"{kernel} is machine code for {self.cubin.target} without PTX, and ptxlab executes PTX"
        return diagnose("I401", message, fix=maker.remedy.format(number=self.cubin.target.removeprefix("sm_")), details=details)


def open_image(raw: bytes, device: str, store: PtxStore, file: str = UNNAMED) -> Image:
    """Open an image that is there as bytes, such as the contents of a file.

    Parameters
    ----------
    raw : PTX text, fat binaries that follow one another, or a cubin
    device : the target of the device, ``"sm_100a"``
    store : the PTX of cubins that carry none
    file : the name that diagnostics give the image

    Raises
    ------
    ImageError
        with the driver's result and the diagnostics
    """
    with _refusals():
        return _open([raw], device, store, file)


def open_image_at(address: int, device: str, store: PtxStore, read: _memory.Reader = _memory.own_memory, file: str = UNNAMED) -> Image:
    """Open an image of which a program gives the address: PTX text, a fat binary or its wrapper, or a cubin.

    Parameters
    ----------
    address : where the image begins
    device, store, file : as for `open_image`
    read : reads the memory of the program

    Raises
    ------
    ImageError
        with the driver's result and the diagnostics
    """
    start = read(address, _WRAPPER_SIZE)
    if not start:
        raise ImageError(ImageResult.INVALID_VALUE, diagnose("I402", f"no memory at {address:#x}, where the image should be"))
    with _refusals():
        if start.startswith(_WRAPPER_MAGIC):
            raws = list(_wrapped(start, read))
            if not all(raw.startswith(fat_binary.MAGIC) for raw in raws):
                raise ValueError("the wrapper of a fat binary points to something else")
        else:
            raws = [_memory.bytes_at(read, address)]
        return _open(raws, device, store, file)


def _wrapped(start: bytes, read: _memory.Reader) -> Iterator[bytes]:
    """The fat binary that a wrapper points to; where it points to a list, as after device linking, all of the list too."""
    if len(start) < _WRAPPER_SIZE:
        raise ValueError("the wrapper of the fat binary is cut off")
    version, data, others = struct.unpack_from("<4xIQQ", start)
    yield _memory.bytes_at(read, data)
    for index in range(_MOST_WRAPPED if version >= 2 and others else 0):
        pointer = int.from_bytes(read(others + 8 * index, 8), "little")
        if not pointer:
            break
        yield _memory.bytes_at(read, pointer)


@contextmanager
def _refusals() -> Iterator[None]:
    """Make an `ImageError` of what damaged images and missing packages raise."""
    try:
        yield
    except ValueError as error:
        raise ImageError(ImageResult.INVALID_IMAGE, diagnose("S202", f"the image is damaged: {error}")) from None
    except fat_binary.MissingPackage as missing:
        message = f"the image is compressed with zstd, and {missing} is not installed: pip install {missing}"
        raise ImageError(ImageResult.INVALID_IMAGE, diagnose("S203", message)) from None


def _open(raws: list[bytes], device: str, store: PtxStore, file: str) -> Image:
    if raws[0].startswith(fat_binary.MAGIC):
        return _of_fat_binaries(raws, device, store, file)
    if raws[0].startswith(elf.MAGIC):
        cubin = read_cubin(raws[0])
        if not _executes(cubin.target, device):
            raise _nothing_fits([cubin.target], device)
        return Image("cubin", _text_of(cubin, device, store, file), cubin)
    return Image("PTX", parse_text(_decoded(raws[0]), device, file), None)


def _of_fat_binaries(raws: list[bytes], device: str, store: PtxStore, file: str) -> Image:
    entries = [entry for raw in raws for entry in fat_binary.entries(raw)]
    number = _parts(device)[0]
    cubins = [read_cubin(entry.payload()) for entry in entries if entry.kind == fat_binary.ELF and entry.architecture <= number]
    cubin = max((c for c in cubins if _executes(c.target, device)), key=lambda c: _parts(c.target), default=None)
    text = best_text([entry.text() for entry in entries if entry.kind == fat_binary.PTX and entry.architecture <= number], device)
    if text is not None:
        return Image("fat binary", parse_text(text, device, file), cubin)
    if cubin is None:
        raise _nothing_fits([f"sm_{entry.architecture}" for entry in entries], device)
    return Image("fat binary", _text_of(cubin, device, store, file), cubin)


def best_text(texts: Iterable[str], device: str) -> str | None:
    """The PTX text that the driver takes: of those that run on the device the one for the newest target, specific ones first."""
    fitting = [(_parts(target), text) for text in texts if runs_on(target := target_of(text), device)]
    return max(fitting, key=lambda pair: pair[0])[1] if fitting else None


def target_of(text: str) -> str:
    """The target that a PTX text names, or an empty string."""
    found = _TARGET.search(text)
    return found[1] if found else ""


def parse_text(text: str, device: str, file: str) -> machine.Module:
    """Parse PTX for a device.

    Raises
    ------
    ImageError
        with the diagnostics of the text, or if it is for another device or a version of PTX that ptxlab does not know
    """
    if file == UNNAMED and (kernel := _ENTRY.search(text)):
        file = f"{kernel[1]}.ptx"
    try:
        module = machine.loads(text, file=file)
    except ptx.PtxSyntaxError as error:
        # A text without a version is not taken for PTX.
        result = ImageResult.INVALID_PTX if _VERSION.search(text) else ImageResult.INVALID_IMAGE
        raise ImageError(result, *error.diagnostics) from None
    if module.version > LATEST_VERSION:
        version, latest = (".".join(map(str, v)) for v in (module.version, LATEST_VERSION))
        message = f"the text is for PTX ISA {version}; ptxlab knows the versions up to {latest}"
        raise ImageError(ImageResult.UNSUPPORTED_PTX_VERSION, diagnose("I402", message))
    if not runs_on(module.target, device):
        message = f"the PTX is for {module.target or 'no target'}, and the device is {device}"
        raise ImageError(ImageResult.INVALID_PTX, diagnose("I403", message))
    return module


def _text_of(cubin: Cubin, device: str, store: PtxStore, file: str) -> machine.Module | None:
    text = store.find(cubin.digest) or cubin.text
    return None if text is None else parse_text(text, device, file)


def _nothing_fits(targets: list[str], device: str) -> ImageError:
    listed = ", ".join(dict.fromkeys(targets)) or "nothing"
    arch = device.replace("sm", "compute")
    fix = f"compile for {device} too, and keep the PTX: -gencode arch={arch},code={arch}"
    message = f"the image holds code for {listed}, and the device is {device}"
    return ImageError(ImageResult.NO_BINARY_FOR_GPU, diagnose("I403", message, fix=fix))


def _executes(target: str, device: str) -> bool:
    """Whether a device executes machine code: of its own architecture, or of an earlier one with the same major number."""
    (want, suffix), (have, _) = _parts(target), _parts(device)
    return want == have or (suffix != "a" and want // 10 == have // 10 and want < have)


def _parts(target: str) -> tuple[int, str]:
    """Number and suffix, so that the order is that of the driver's choice: 90, 90a, 100, 100a, 100f."""
    found = re.fullmatch(r"sm_(\d+)([af]?)", target)
    return (int(found[1]), found[2]) if found else (0, "")


def _decoded(raw: bytes) -> str:
    return raw.split(b"\0", 1)[0].decode("utf-8", "replace")
