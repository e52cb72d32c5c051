"""Code for each level of processors: executed here if this processor has what it needs, or emulated."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from ptxlab import native
from ptxlab.native import Host, _compile, compiling_for, processor, tasks
from ptxlab.native._host import this_processor

if TYPE_CHECKING:
    from .aarch64_helpers import Emulator

__all__ = ["AARCH64", "LEVELS", "X86_LEVELS", "emulated", "functions_of"]


def _x86(cpu: str, *features: str) -> Host:
    return processor("x86_64-unknown-linux-gnu", cpu, dict.fromkeys(features, True))


_SSE4 = ("sse", "sse2", "sse3", "ssse3", "sse4.1", "sse4.2")
_AVX2 = (*_SSE4, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
_AVX512 = (*_AVX2, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
_VNNI = (*_AVX512, "avx512vnni")
_VBMI2 = (*_VNNI, "avx512vbmi", "avx512vbmi2")
X86_LEVELS = {
    "SSE2": _x86("x86-64", "sse", "sse2"),
    "SSE4": _x86("x86-64-v2", *_SSE4),
    "AVX2": _x86("x86-64-v3", *_AVX2),
    "AVX-512": _x86("x86-64-v4", *_AVX512),
    "AVX-512 VNNI": _x86("x86-64-v4", *_VNNI),
    "AVX-512 VBMI2": _x86("x86-64-v4", *_VBMI2),
    "AVX-512 BITALG": _x86("x86-64-v4", *_VBMI2, "avx512bitalg"),
}
AARCH64 = processor("aarch64-unknown-linux-gnu", "generic", {})
"""What every AArch64 processor has."""
LEVELS = {**X86_LEVELS, "NEON": AARCH64}

_CACHES = ("ptxlab.numerics.", "ptxlab.engine.support.compiled", "ptxlab.native._byte_moves")
"""The modules that keep functions which they have compiled."""


@contextmanager
def functions_of(level: str) -> Iterator[None]:
    """In this thread, compile for a level; skip the test if nothing here can execute the code."""
    target, here = LEVELS[level], this_processor()
    if target is AARCH64:
        with emulated():
            yield
        return
    if target.triple.partition("-")[0] != here.triple.partition("-")[0]:
        pytest.skip(f"{level} needs an x86-64 processor")
    missing = sorted(_present(target) - _present(here))
    if missing:
        pytest.skip(f"this processor does not have {', '.join(missing)}")
    with _fresh(), compiling_for(target):
        yield


@contextmanager
def emulated(*, notes: bool = False) -> Iterator[Emulator]:
    """Compile for AArch64, and emulate what would be loaded."""
    pytest.importorskip("unicorn", reason="unicorn, which emulates AArch64, is not installed")
    from .aarch64_helpers import EmulatedLibrary, Emulator

    emulator = Emulator(notes=notes)

    def library(image: bytes, exports: Iterable[str], symbols: Mapping[str, int]) -> EmulatedLibrary:
        return EmulatedLibrary(emulator, image, exports, symbols)

    with _fresh() as patch, compiling_for(AARCH64):
        for module in (_compile, native):
            patch.setattr(module, "Library", library)
        yield emulator


@contextmanager
def _fresh() -> Iterator[pytest.MonkeyPatch]:
    """No function is known that has been compiled before, and none that is compiled now will be; this thread compiles all."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks._pool, "most", 0)
        _forget()
        yield patch
        _forget()


def _forget() -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith(_CACHES):
            for value in list(vars(module).values()):
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


def _present(host: Host) -> set[str]:
    return {feature for feature in host.features.split(",") if feature.startswith("+")}
