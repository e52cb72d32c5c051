"""The processor that code is compiled for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

from ptxlab._records import dataclass
from ptxlab.native._llvm import llvm

__all__ = ["Host", "compiling_for", "host", "processor", "this_processor"]

AVX512 = ("avx512f", "avx512bw", "avx512dq", "avx512vl")


@dataclass(frozen=True, slots=True)
class Host:
    """Target triple, name and features as LLVM states them, the widest vector in bits, and what it has.

    That is: fused multiply-add, 16-bit floats, sums of two products of 16-bit integers, of two products of bytes, sums of two products of
    16-bit integers and of four products of bytes that are added to a number, funnel shifts, the control register MXCSR, with how many
    instructions that select 32 halves from registers a look-up of 32 entries takes no longer than with gathers from memory, and whether
    products are truncated and added faster in float64 than as integers. That is so where one instruction counts the bits of each lane, and
    where integer and floating-point instructions of 512 bits share execution ports. On AMD's processors they have ports of their own.
    """

    triple: str
    cpu: str
    features: str
    vector_bits: int
    has_fma: bool
    has_half: bool
    has_dot: bool
    has_pair_byte_dot: bool
    has_added_dots: bool
    has_funnel_shift: bool
    has_mxcsr: bool
    table_permutations: int
    prefers_float64_sums: bool


_TARGET: ContextVar[Host | None] = ContextVar("target", default=None)
"""What `compiling_for` has chosen in this thread."""


def host() -> Host:
    """The processor that this thread compiles for: this one, unless `compiling_for` has chosen another.

    Looking at this processor needs llvmlite, so call it no sooner than code is to be compiled.

    Examples
    --------
    >>> host().vector_bits in (128, 256, 512)
    True
    """
    return _TARGET.get() or this_processor()


@contextmanager
def compiling_for(target: Host) -> Iterator[None]:
    """In this thread, generate code for another processor; `compile_object` returns its object code.

    Code for this architecture can also be loaded, and runs if this processor has what it uses.

    Examples
    --------
    >>> with compiling_for(processor("aarch64-unknown-linux-gnu", "generic", {})):
    ...     host().vector_bits, host().has_mxcsr
    (128, False)
    """
    before = _TARGET.set(target)
    try:
        yield
    finally:
        _TARGET.reset(before)


@cache
def this_processor() -> Host:
    """The processor that executes this process."""
    binding = llvm()
    return processor(binding.get_default_triple(), binding.get_host_cpu_name(), binding.get_host_cpu_features())


def processor(triple: str, cpu: str, features: Mapping[str, bool]) -> Host:
    """A processor with these features; those that are not listed it has as LLVM says of its name, but no code is written for them."""
    if all(features.get(name) for name in AVX512):
        bits = 512
    else:
        bits = 256 if features.get("avx2") else 128
    is_zen = cpu.startswith("znver")
    is_aarch64 = triple.partition("-")[0] in ("aarch64", "arm64")
    return Host(
        triple,
        cpu,
        ",".join(f"{'+' if features[name] else '-'}{name}" for name in sorted(features)),
        bits,
        bool(features.get("fma") or is_aarch64),
        bool(features.get("f16c") or is_aarch64),
        bool(features.get("sse2")),
        bool(features.get("ssse3")),
        bool(features.get("avx512vnni") and features.get("avx512vl")),
        bool(features.get("avx512vbmi2")),
        bool(features.get("sse")),
        0 if bits < 512 else 8 if is_zen else 4,
        bool(bits == 512 and features.get("avx512bitalg") and features.get("avx512vnni") and not is_zen),
    )
