"""The processor that code is compiled for."""

from __future__ import annotations

from functools import cache

from ptxlab._records import dataclass
from ptxlab.native._llvm import llvm

__all__ = ["Host", "host"]

AVX512 = ("avx512f", "avx512bw", "avx512dq", "avx512vl")


@dataclass(frozen=True, slots=True)
class Host:
    """Name and features as LLVM states them, the widest vector in bits, and what it has.

    That is: fused multiply-add, 16-bit floats, sums of two products of 16-bit integers, of two products of bytes, sums of two products of
    16-bit integers and of four products of bytes that are added to a number, funnel shifts, the control register MXCSR, and with how many
    instructions that select 32 halves from registers a look-up of 32 entries takes no longer than with gathers from memory.
    """

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


@cache
def host() -> Host:
    """Look at this processor; needs llvmlite, so call it no sooner than code is to be compiled.

    Examples
    --------
    >>> host().vector_bits in (128, 256, 512)
    True
    """
    binding = llvm()
    features = binding.get_host_cpu_features()
    if all(features.get(name) for name in AVX512):
        bits = 512
    else:
        bits = 256 if features.get("avx2") else 128
    name = binding.get_host_cpu_name()
    return Host(
        name,
        features.flatten(),
        bits,
        bool(features.get("fma") or features.get("neon")),
        bool(features.get("f16c") or features.get("neon")),
        bool(features.get("sse2")),
        bool(features.get("ssse3")),
        bool(features.get("avx512vnni") and features.get("avx512vl")),
        bool(features.get("avx512vbmi2")),
        bool(features.get("sse")),
        0 if bits < 512 else 8 if name.startswith("znver") else 4,
    )
