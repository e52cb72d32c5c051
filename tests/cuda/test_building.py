"""Libraries that are compiled at first use."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ptxlab.cuda import building
from ptxlab.cuda.building import BuildError, build, compiler
from ptxlab.cuda.libraries import DRIVER, NativeLibrary
from tests.cuda.driver_helpers import needs_compiler


def test_no_compiler_is_a_diagnostic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(BuildError) as raised:
        build(DRIVER)
    (found,) = raised.value.diagnostics
    assert found.code == "I501"
    assert found.message == "libcuda.so.1 must be compiled, and there is no C compiler"
    assert found.fix == "install gcc or clang, set CC, or pip install ziglang"


def test_the_message_of_the_compiler_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("#!/bin/sh\necho the reason >&2\nexit 3\n")
    wrong.chmod(0o755)
    monkeypatch.setenv("CC", f"{wrong} -option")
    monkeypatch.setenv("PTXLAB_CACHE_DIR", str(tmp_path))
    with pytest.raises(BuildError) as raised:
        build(DRIVER)
    (found,) = raised.value.diagnostics
    assert (found.code, found.message) == ("I502", "libcuda.so.1 cannot be compiled")
    assert found.details == (("compiler", f"{wrong} -option"), ("message", "the reason"))


@needs_compiler
def test_a_library_is_compiled_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "seven.c").write_text('__attribute__((visibility("default"))) int seven(void) { return 7; }\n')
    monkeypatch.setattr(building, "SOURCES", sources)
    monkeypatch.setattr("ptxlab.cuda.libraries.SOURCES", sources)
    monkeypatch.setenv("PTXLAB_CACHE_DIR", str(tmp_path / "cache"))
    library = NativeLibrary("libseven.so")
    first = build(library)
    made = first.stat().st_mtime_ns
    assert build(library) == first
    assert first.stat().st_mtime_ns == made
    (sources / "seven.c").write_text("int seven(void) { return 8; }\n")
    assert build(library) != first
    monkeypatch.setenv("PTXLAB_CACHE", "off")
    assert tmp_path not in build(library).parents


def test_a_prebuilt_library_needs_no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / DRIVER.soname).write_bytes(b"")
    monkeypatch.setattr(building, "PREBUILT", tmp_path)
    monkeypatch.setenv("CC", "no-such-compiler")
    assert build(DRIVER) == tmp_path / DRIVER.soname


@pytest.mark.sweep
@needs_compiler
@pytest.mark.parametrize("name", ["gcc", "clang"])
def test_the_sources_have_no_warnings(name: str, tmp_path: Path) -> None:
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    command = [name, *DRIVER.arguments(), "-Werror", "-o", str(tmp_path / DRIVER.soname)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"LC_ALL": "C"})
    assert (done.returncode, done.stderr) == (0, "")


@needs_compiler
def test_only_the_api_and_what_the_core_calls_is_exported() -> None:
    if compiler() is None or shutil.which("nm") is None:
        pytest.skip("nm is not installed")
    listed = subprocess.run(["nm", "-D", "--defined-only", str(build(DRIVER))], capture_output=True, text=True, check=True).stdout
    names = {line.split()[-1] for line in listed.splitlines()}
    assert {name for name in names if not name.startswith(("cu", "ptxlab_"))} == set()
    assert not {name for name in names if name.startswith("ptxlab_cu")}
