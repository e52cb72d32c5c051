"""CUTLASS from the installed wheel, and the files of this folder compiled with it."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import ptxlab
from ptxlab.interop import nvcc
from tests.interop.nvcc_helpers import require_nvcc

HERE = Path(__file__).parent


def cutlass() -> Path:
    """The folder `source` of the wheel `nvidia-cutlass`; skips the test where it, nvcc or a host compiler is not there."""
    spec = find_spec("cutlass_library")
    if spec is None or spec.origin is None:
        pytest.skip("needs nvidia-cutlass")
    require_nvcc()
    return Path(spec.origin).parent / "source"


@cache
def _compiled(file: str, arch: str, macros: tuple[tuple[str, object], ...], example: str) -> nvcc.Host:
    source = cutlass()
    include = [source / "include", source / "tools/util/include", HERE]
    if example:
        include += [source / "examples" / example, source / "examples/common"]
    return nvcc.host(HERE / file, arch=arch, include=include, define=dict(macros), flags=["--expt-relaxed-constexpr"])


def compiled(file: str, arch: str, macros: dict[str, Any], example: str = "", sms: int = 148) -> nvcc.Host:
    """A file of this folder, compiled once; its device is new.

    Lint finds no error in its PTX.
    """
    host = _compiled(file, arch, tuple(macros.items()), example)
    host.device = ptxlab.Device(arch, sms=sms)
    host.launches.clear()
    host.options = {}
    return host


def assert_legal(host: nvcc.Host) -> None:
    """Lint has no error in the PTX that was launched."""
    assert host.modules
    for module in host.modules:
        assert [str(found) for found in ptxlab.lint(module.ast.text) if found.severity == "error"] == []


def call(host: nvcc.Host, name: str, *arguments: Any, known: frozenset[str] = frozenset()) -> None:
    """Call a host function; it succeeds, or what is found in its launches is known."""
    try:
        assert host[name](*arguments) == 0
    except ptxlab.KernelError as error:
        if not {found.code for found in error.diagnostics if found.severity == "error"} <= known:
            raise


def assert_clean(host: nvcc.Host, known: frozenset[str] = frozenset()) -> None:
    """Lint has no error in the PTX that was launched, and the launches found nothing but what is known."""
    assert_legal(host)
    found = [d for launch in host.launches for d in launch.result.diagnostics if d.severity != "note" and d.code not in known]
    assert [str(d) for d in found] == []
