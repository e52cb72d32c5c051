"""How each right kernel is launched; its result is the first argument."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import ptxlab

FOLDER = Path(__file__).parent


def base_text(name: str) -> str:
    """Return the text of a right kernel."""
    return (FOLDER / f"{name}.ptx").read_text()


def _result(threads: int) -> Callable[[], dict[str, Any]]:
    return lambda: {"args": [np.zeros(threads, np.uint32)]}


def _words(count: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    return np.arange(count, dtype=np.uint32)


LAUNCHES: dict[str, Callable[[], dict[str, Any]]] = {
    "accesses": lambda: {"args": [np.zeros(128, np.uint32), 1]},
    "bulk": lambda: {"args": [np.zeros(256, np.uint32), _words(256), 1]},
    "cluster": lambda: {"grid": 2, "args": [np.zeros(128, np.uint32)]},
    "cp_async": lambda: {"args": [np.zeros(128, np.uint32), _words(5 * 512), 4]},
    "pipeline": lambda: {"args": [np.zeros(128, np.uint32), ptxlab.TensorMap(_words(5 * 512).reshape(80, 32), box=(32, 16)), 5]},
    "tcgen05_pair": lambda: {"grid": 2, "args": [np.zeros(256, np.uint32)]},
    "tcgen05_product": _result(128),
    "tcgen05_scaled": _result(128),
    "tcgen05_sparse": _result(128),
    "tensor_map": lambda: {"args": [np.zeros(32, np.uint32), np.zeros(32, np.uint32), _words(256)]},
    "tensor_memory": lambda: {"args": [np.zeros(128, np.uint32), 2]},
    "tensor_memory_called": _result(32),
    "warps": lambda: {"block": 256, "args": [np.zeros(256, np.uint32)]},
    "wgmma": _result(128),
}


def launch(name: str, text: str, **options: Any) -> tuple[ptxlab.Result, np.ndarray[Any, Any]]:
    """Launch a kernel as the right kernel of this name is launched; the result, and what it has stored."""
    given = LAUNCHES[name]()
    result = ptxlab.loads(text, file=f"{name}.ptx").kernel().launch(**given, **options)
    return result, given["args"][0]
