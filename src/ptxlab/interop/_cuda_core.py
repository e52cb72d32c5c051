"""Programs that compile with cuda.core, as those of numba-cuda do: the PTX of each cubin is entered in the store of the driver.

`Program` and `Linker` get subclasses that ask NVRTC or nvJitLink for PTX beside the machine code; the program sees the machine code.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from ptxlab import cuda
from ptxlab.cuda.images import PtxStore
from ptxlab.cuda.linking import joined
from ptxlab.interop.session import FOR_GOOD, replace_attribute

__all__ = ["prepare"]


@cache
def prepare() -> None:
    """Replace the classes of cuda.core, which has been imported, for good."""
    change(FOR_GOOD)


def change(stack: ExitStack) -> None:
    """Replace the classes of cuda.core until the stack is closed."""
    core = import_module("cuda.core")
    store = cuda.install().bridge.store
    replace_attribute(stack, core, "Program", _program(core.Program, store))
    replace_attribute(stack, core, "Linker", _linker(core.Linker, store))


def _program(base: Any, store: PtxStore) -> Any:
    class Program(base):  # type: ignore[misc]
        __doc__ = base.__doc__

        def __init__(self, code: Any, code_type: str, *arguments: Any, **options: Any) -> None:
            super().__init__(code, code_type, *arguments, **options)
            self._given = code, code_type, arguments, options

        def compile(self, target_type: str, name_expressions: Any = (), *arguments: Any, **options: Any) -> Any:
            made = super().compile(target_type, name_expressions, *arguments, **options)
            if target_type == "cubin":
                store.add(_bytes(made.code), _text(_compiled(base, *self._given, name_expressions)))
            return made

    return Program


def _compiled(base: Any, code: Any, code_type: str, arguments: Any, options: Any, name_expressions: Any) -> bytes:
    """The PTX of a program."""
    if code_type == "ptx":
        return _bytes(code)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # that the driver is older than the compiler
        return _bytes(base(code, code_type, *arguments, **options).compile("ptx", name_expressions).code)


def _linker(base: Any, store: PtxStore) -> Any:
    class Linker(base):  # type: ignore[misc]
        __doc__ = base.__doc__

        def __init__(self, *codes: Any, options: Any = None) -> None:
            super().__init__(*codes, **{} if options is None else {"options": options})
            self._given = codes, options

        def link(self, target_type: str, *arguments: Any, **named: Any) -> Any:
            made = super().link(target_type, *arguments, **named)
            text = _linked(base, *self._given) if target_type == "cubin" else None
            if text is not None:
                store.add(_bytes(made.code), _text(text))
            return made

    return Linker


def _linked(linker: Any, codes: Sequence[Any], options: Any) -> bytes | None:
    """The PTX of what is linked: its texts, or what the linker makes of LTO-IR; None if there is machine code among it."""
    kinds = {code.code_type for code in codes}
    if kinds == {"ptx"}:
        return joined([_bytes(code.code) for code in codes])
    if not kinds <= {"ptx", "ltoir"} or options is None:
        return None
    made: bytes = _bytes(linker(*codes, options=replace(options, ptx=True, link_time_optimization=True)).link("ptx").code)
    return made


def _bytes(code: Any) -> bytes:
    """The bytes of a text or of machine code; a name of a file stands for what it holds."""
    if isinstance(code, str):
        return code.encode() if "\n" in code else Path(code).read_bytes()
    return bytes(code)


def _text(ptx: bytes) -> str:
    """PTX without the null bytes at its end."""
    return ptx.split(b"\0", 1)[0].decode(errors="replace")
