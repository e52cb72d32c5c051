"""Problems, each with the configurations of its kernel that are timed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

__all__ = ["PROBLEMS", "Configuration", "Problem", "held_out"]


@dataclass(frozen=True)
class Configuration:
    """Constants of a kernel, its warps, and the stages of its loops."""

    constants: dict[str, int]
    warps: int = 4
    stages: int = 3

    @property
    def name(self) -> str:
        """``128x64.w4.s3``: the constants, the warps, the stages."""
        return "x".join(map(str, self.constants.values())) + f".w{self.warps}.s{self.stages}"


@dataclass(frozen=True)
class Problem:
    """A kernel on data of one size.

    ``sizes`` are the integers of its signature; ``types`` the element types of its pointers; ``family`` the class of the error table.
    """

    name: str
    kernel: str
    family: str
    sizes: dict[str, int]
    types: tuple[str, ...]
    configurations: tuple[Configuration, ...]
    fixed: dict[str, Any] = field(default_factory=dict)

    def binary(self, configuration: Configuration) -> str:
        """The name of the compiled kernel, which problems of the same types share."""
        kind = "_".join(dict.fromkeys(self.types))
        extra = "".join(f"_{key.lower()}{int(value)}" for key, value in self.fixed.items())
        return f"{self.kernel}_{kind}{extra}_{configuration.name}"

    def cases(self) -> Iterator[tuple[str, Configuration]]:
        """Each configuration with the name of the case."""
        for configuration in self.configurations:
            yield f"{self.name}/{configuration.name}", configuration


def held_out(case: str) -> bool:
    """Whether a case is in the half that no parameter is fitted to: decided by a hash of its name."""
    return hashlib.sha256(case.encode()).digest()[0] % 2 == 1


def _tiles(*listed: tuple[int, int, int, int, int]) -> tuple[Configuration, ...]:
    return tuple(Configuration({"BM": m, "BN": n, "BK": k}, warps, stages) for m, n, k, warps, stages in listed)


def _pairs(*listed: tuple[int, int, int]) -> tuple[Configuration, ...]:
    return tuple(Configuration({"BM": m, "BN": n}, warps) for m, n, warps in listed)


def _blocks(*listed: tuple[int, int]) -> tuple[Configuration, ...]:
    return tuple(Configuration({"BLOCK": block}, warps) for block, warps in listed)


_GEMM = _tiles(
    (64, 64, 64, 4, 2),
    (64, 64, 64, 4, 4),
    (64, 128, 64, 4, 3),
    (128, 128, 32, 4, 3),
    (128, 128, 64, 4, 3),
    (128, 128, 64, 8, 4),
    (128, 256, 64, 8, 3),
)
_TMA = _tiles(
    (64, 64, 64, 4, 3), (64, 128, 64, 4, 4), (128, 128, 64, 4, 2), (128, 128, 64, 8, 3), (128, 256, 64, 8, 3), (128, 128, 64, 8, 4)
)
_FP8 = _tiles((64, 64, 128, 4, 3), (128, 128, 64, 4, 3), (128, 128, 128, 8, 3), (128, 256, 128, 8, 3))
_FLASH = _pairs((64, 32, 4), (64, 64, 4), (64, 128, 4), (128, 64, 4), (128, 64, 8), (128, 128, 8))
_F16 = ("fp16", "fp16", "fp16")


def _gemm(
    name: str,
    m: int,
    n: int,
    k: int,
    types: tuple[str, ...] = _F16,
    configurations: tuple[Configuration, ...] = _GEMM,
    kernel: str = "gemm",
) -> Problem:
    return Problem(name, kernel, "GEMM", {"M": m, "N": n, "K": k}, types, configurations)


PROBLEMS = (
    _gemm("gemm_f16_2048", 2048, 2048, 2048),
    _gemm("gemm_f16_wide", 4096, 4096, 512),
    _gemm("gemm_f16_deep", 512, 512, 4096),
    _gemm("gemm_tma_4096", 4096, 4096, 2048, configurations=_TMA, kernel="gemm_tma"),
    _gemm("gemm_tma_small", 1024, 1024, 1024, configurations=_TMA, kernel="gemm_tma"),
    _gemm("gemm_e4m3_2048", 2048, 2048, 4096, ("fp8e4nv", "fp8e4nv", "fp16"), _FP8),
    Problem("attention", "attention", "attention", {"S": 2048}, ("fp16",) * 4, _FLASH, {"D": 64, "CAUSAL": False}),
    Problem("attention_causal", "attention", "attention", {"S": 2048}, ("fp16",) * 4, _FLASH[:5], {"D": 64, "CAUSAL": True}),
    Problem("softmax", "softmax", "softmax", {"N": 4096}, ("fp32",) * 2, _blocks((4096, 1), (4096, 4), (4096, 8), (4096, 16))),
    Problem(
        "softmax_loop", "softmax_loop", "softmax", {"N": 16384}, ("fp32",) * 2, _blocks((256, 4), (512, 4), (1024, 4), (2048, 8), (4096, 8))
    ),
    Problem(
        "layer_norm",
        "layer_norm",
        "norms",
        {"N": 4096},
        ("fp16", "fp32", "fp32", "fp16"),
        _blocks((4096, 1), (4096, 4), (4096, 8), (4096, 16)),
    ),
    Problem(
        "rms_norm",
        "rms_norm",
        "norms",
        {"N": 8192},
        ("fp16", "fp32", "fp16"),
        _blocks((512, 4), (1024, 4), (2048, 8), (4096, 8), (1024, 1)),
    ),
    Problem("add", "add", "element-wise", {}, ("fp32",) * 3, _blocks((128, 4), (256, 4), (1024, 4), (1024, 8), (4096, 8))),
    Problem("add_small", "add", "element-wise", {}, ("fp32",) * 3, _blocks((128, 4), (1024, 4), (4096, 8))),
    Problem("gelu", "gelu", "element-wise", {}, ("fp16",) * 2, _blocks((256, 1), (1024, 1), (1024, 4), (4096, 4), (4096, 8))),
    Problem("row_sum", "row_sum", "reductions", {"N": 8192}, ("fp32",) * 2, _blocks((128, 4), (512, 4), (1024, 4), (4096, 8), (1024, 1))),
    Problem(
        "column_sum",
        "column_sum",
        "reductions",
        {"M": 8192, "N": 4096},
        ("fp32",) * 2,
        _pairs((32, 32, 4), (64, 32, 4), (128, 32, 8), (16, 64, 4)),
    ),
    Problem(
        "transpose_f32",
        "transpose",
        "transposes",
        {"M": 4096, "N": 4096},
        ("fp32",) * 2,
        _pairs((32, 32, 4), (64, 32, 4), (64, 64, 4), (64, 64, 8), (128, 64, 8)),
    ),
    Problem(
        "transpose_f16",
        "transpose",
        "transposes",
        {"M": 4096, "N": 8192},
        ("fp16",) * 2,
        _pairs((32, 32, 4), (64, 64, 4), (64, 128, 8), (128, 128, 8)),
    ),
)
