"""Compiling, and a cache that may cost time but never results."""

from __future__ import annotations

import ctypes
import gc
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import grimp
import llvmlite
import numpy as np
import pytest

from ptxlab import _version, native
from ptxlab.native import caches

IR = "define i32 @f(i32 %x) {\n %y = mul i32 %x, 3\n ret i32 %y\n}\n"


def call(library: native.Library, name: str, *values: int) -> int:
    signature = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_int] * len(values))
    return int(signature(library.address(name))(*values))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PTXLAB_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("PTXLAB_CACHE", raising=False)
    return tmp_path


def files(folder: Path) -> list[Path]:
    return list(folder.glob("*/*.o"))


def test_compiles_and_keeps(cache: Path) -> None:
    assert call(native.compile_ir(IR, ["f"]), "f", 14) == 42
    (kept,) = files(cache)
    before = kept.stat().st_mtime_ns
    assert call(native.compile_ir(IR, ["f"]), "f", 5) == 15
    assert kept.stat().st_mtime_ns == before


def test_external_functions_are_bound_when_loaded(cache: Path) -> None:
    ir = "declare i32 @g(i32)\ndefine i32 @f(i32 %x) {\n %y = call i32 @g(i32 %x)\n ret i32 %y\n}\n"
    for factor in (2, 7):
        callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda v, factor=factor: v * factor)
        address = ctypes.cast(callback, ctypes.c_void_p).value
        assert address is not None
        assert call(native.compile_ir(ir, ["f"], symbols={"g": address}), "f", 3) == 3 * factor
    assert len(files(cache)) == 1


def test_functions_of_the_c_library_resolve(cache: Path) -> None:
    ir = (
        "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)\n"
        "define i32 @f(i32 %n) {\n %p = alloca [64 x i8]\n %m = sext i32 %n to i64\n"
        " call void @llvm.memset.p0.i64(ptr %p, i8 7, i64 %m, i1 false)\n %x = load i32, ptr %p\n ret i32 %x\n}\n"
    )
    for _ in range(2):
        assert call(native.compile_ir(ir, ["f"]), "f", 64) == 0x07070707


def test_equal_names_do_not_meet(cache: Path) -> None:
    libraries = [native.compile_ir(IR.replace("3", str(n)), ["f"]) for n in (3, 4, 5)]
    assert [call(library, "f", 10) for library in libraries] == [30, 40, 50]


@pytest.mark.parametrize("damage", ["empty", "truncated", "flipped", "garbage", "other key"])
def test_damaged_file_is_a_miss(cache: Path, damage: str) -> None:
    native.compile_ir(IR, ["f"])
    (kept,) = files(cache)
    raw = bytearray(kept.read_bytes())
    if damage == "empty":
        raw.clear()
    elif damage == "truncated":
        del raw[-7:]
    elif damage == "flipped":
        raw[len(raw) // 2] ^= 1
    elif damage == "garbage":
        raw[:] = os.urandom(4096)
    else:
        native.compile_ir(IR.replace("3", "9"), ["f"])
        (other,) = set(files(cache)) - {kept}
        raw[:] = other.read_bytes()
    kept.write_bytes(raw)
    assert call(native.compile_ir(IR, ["f"]), "f", 14) == 42
    payload = kept.read_bytes()
    assert payload.startswith(caches.MAGIC)
    assert bytes(raw) != payload


@pytest.mark.parametrize("folder", ["/proc/nothing", "/dev/null/x"])
def test_unwritable_folder(monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    monkeypatch.setenv("PTXLAB_CACHE_DIR", folder)
    assert call(native.compile_ir(IR, ["f"]), "f", 14) == 42


def test_switched_off(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTXLAB_CACHE", "off")
    assert call(native.compile_ir(IR, ["f"]), "f", 14) == 42
    assert not files(cache)


@pytest.fixture
def fresh_key() -> Iterator[Callable[[], str]]:
    """The key of one request, computed anew each time."""

    def compute() -> str:
        caches._toolchain.cache_clear()
        return native.object_key("a", 1)

    yield compute
    caches._toolchain.cache_clear()


def test_key_depends_on_the_request() -> None:
    keys = [native.object_key(*parts) for parts in (("a", 1), ("a", 2), ("a1",), ("b", 1), ("a", "1"))]
    assert len(set(keys)) == len(keys)
    assert native.object_key("a", 1) == keys[0]


@pytest.mark.parametrize("package", [_version, llvmlite], ids=["ptxlab", "llvmlite"])
def test_key_depends_on_versions(fresh_key: Callable[[], str], monkeypatch: pytest.MonkeyPatch, package: ModuleType) -> None:
    first = fresh_key()
    monkeypatch.setattr(package, "__version__", "0.0.0")
    assert fresh_key() != first
    monkeypatch.undo()
    assert fresh_key() == first


@pytest.mark.parametrize("change", [{"cpu": "another"}, {"features": ""}, {"has_fma": False}], ids=str)
def test_key_depends_on_the_processor(fresh_key: Callable[[], str], monkeypatch: pytest.MonkeyPatch, change: dict[str, str | bool]) -> None:
    first = fresh_key()
    host = replace(native.host(), has_fma=True)
    assert dict.fromkeys(change) != change
    monkeypatch.setattr(caches, "host", lambda: replace(host, **change))
    assert fresh_key() != first


def test_key_depends_on_all_that_the_engine_imports(fresh_key: Callable[[], str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    graph = grimp.build_graph("ptxlab")
    packages = {name.split(".")[1] for name in graph.find_upstream_modules("ptxlab.engine", as_package=True)} | {"engine"}
    root = tmp_path / "ptxlab"
    shutil.copytree(caches.ROOT, root, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(caches, "ROOT", root)
    first = fresh_key()
    for package in sorted(packages - {"diagnostics", "_version"}):
        changed = root / package / "__init__.py" if (root / package).is_dir() else root / f"{package}.py"
        text = changed.read_text()
        changed.write_text(text + "# changed")
        assert fresh_key() != first, package
        changed.write_text(text)
    assert fresh_key() == first


def test_many_processes_at_once(cache: Path) -> None:
    script = (
        "import ctypes; from ptxlab import native\n"
        "for n in range(30):\n"
        "    ir = 'define i32 @f(i32 %x) { %y = mul i32 %x, ' + str(n) + '\\n ret i32 %y }'\n"
        "    lib = native.compile_ir(ir, ['f'])\n"
        "    assert ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lib.address('f'))(7) == 7 * n\n"
    )
    workers = [subprocess.Popen([sys.executable, "-c", script], env={**os.environ, "PTXLAB_CACHE_DIR": str(cache)}) for _ in range(4)]
    assert [worker.wait() for worker in workers] == [0] * 4
    assert len(files(cache)) == 30
    assert not list(cache.glob("*/.new-*"))


def test_oldest_files_are_evicted(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(4):
        key = f"{n:02}" + "a" * 62
        native.OBJECTS.write(key, bytes(1000))
        os.utime(cache / key[:2] / f"{key[2:]}.o", (n, n))
    monkeypatch.setattr(native.OBJECTS, "limit_bytes", 2500)
    native.OBJECTS.evict()
    assert sorted(path.parent.name for path in files(cache)) == ["02", "03"]


def test_disk_caches_are_apart(cache: Path) -> None:
    """Folder, version and parts of a key decide what is found."""
    versions = {"first": b"1", "second": b"1"}
    first, second = (native.DiskCache(name, ".bin", lambda name=name: versions[name]) for name in versions)
    key = first.key("a", 1)
    first.write(key, b"payload")
    assert second.key("a", 1) == key
    assert (first.read(key), second.read(key)) == (b"payload", None)
    versions["first"] = b"2"
    assert first.key("a", 1) != key
    assert [path.parts[-3] for path in cache.rglob("*.bin")] == ["first"]


@pytest.mark.parametrize("where", ["/dev/null/x", None], ids=["unwritable", "off"])
def test_disk_cache_without_folder_misses(monkeypatch: pytest.MonkeyPatch, where: str | None) -> None:
    monkeypatch.setenv("PTXLAB_CACHE_DIR", where or "/dev/null")
    monkeypatch.setenv("PTXLAB_CACHE", "" if where else "off")
    found = native.DiskCache("some", ".bin", lambda: b"")
    found.write(found.key(1), b"payload")
    found.evict()
    assert found.read(found.key(1)) is None
    assert (found.directory() is None) == (where is None)


def test_bounded_cache_drops_all_when_full() -> None:
    found = native.BoundedCache[int, str](3)
    for number in range(3):
        found[number] = str(number)
    found[2] = "again"
    assert found == {0: "0", 1: "1", 2: "again"}
    found[3] = "3"
    assert found == {3: "3"}


def test_functions_keep_their_library(cache: Path) -> None:
    function = native.compile_ir(IR, ["f"]).function("f", ctypes.c_int, ctypes.c_int)
    gc.collect()
    assert function(14) == 42


def test_addresses_stay_good_whichever_of_two_threads_keeps_its_library(cache: Path) -> None:
    """Functions that remember libraries may run twice at once, and forget what the first one returned."""
    request = ("a request",), ["f"], lambda: IR
    first, second = (native.compile_or_load(*request, opt=0).address("f") for _ in range(2))
    gc.collect()
    for number in range(20):
        native.compile_ir(IR.replace("3", str(number)), ["f"])
    signature = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)
    assert first != second
    assert signature(first)(14) == signature(second)(14) == 42


@pytest.mark.parametrize("unit", [4, 8, 16, 64])
def test_moves(unit: int) -> None:
    """Units of any size from any places to any others, aligned or not."""
    rng = np.random.default_rng(unit)
    for count in (0, 1, 37):
        source, target = rng.integers(0, 256, 50 * unit + 1, np.uint8), rng.integers(0, 256, 50 * unit + 3, np.uint8)
        taken, put = rng.integers(0, 50, count), rng.permutation(50)[:count]
        wanted = target.copy()
        wanted[3:].reshape(50, unit)[put] = source[1:].reshape(50, unit)[taken]
        native.mover(unit)(*map(native.address_of, (source[1:], taken, target[3:], put)), count)
        assert np.array_equal(target, wanted)


def test_a_folder_of_caches_is_one_of_the_process_if_they_are_switched_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PTXLAB_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("PTXLAB_CACHE", "")
    assert caches.cache_folder("tools") == tmp_path / "tools"
    monkeypatch.setenv("PTXLAB_CACHE", "off")
    own = caches.cache_folder("tools")
    assert own.is_dir()
    assert own == caches.cache_folder("tools")
    assert own != caches.cache_folder("others")
    assert tmp_path not in own.parents


def test_a_file_is_made_once_and_whole(tmp_path: Path) -> None:
    file, calls = tmp_path / "folder" / "file", []

    def make(path: Path) -> None:
        calls.append(path)
        assert not file.exists()
        path.write_text("whole")

    assert [caches.made_once(file, make), caches.made_once(file, make)] == [file, file]
    assert file.read_text() == "whole"
    assert len(calls) == 1
    assert list(file.parent.iterdir()) == [file]


def test_a_file_that_could_not_be_made_leaves_nothing(tmp_path: Path) -> None:
    def make(path: Path) -> None:
        path.write_text("half")
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError):
        caches.made_once(tmp_path / "file", make)
    assert list(tmp_path.iterdir()) == []


def test_light_compilation() -> None:
    """It gives the results of the other levels, and its code is its own."""
    module = native.Module()
    code = native.Function(module, "total", "i64", "ptr numbers, i64 count")
    total = code.variable("i64", 0)
    with code.loop(code["count"]) as i:
        total.set(total.get() + code["numbers"].load("i64", i))
    code.ret(total.get())
    numbers = (ctypes.c_int64 * 100)(*range(100))
    levels = ((0, False), (1, False), (1, True), (2, False), (2, True))
    for opt, light in levels:
        library = native.compile_ir(module.text(), ["total"], opt=opt, light=light)
        found = library.function("total", ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
        assert found(ctypes.addressof(numbers), 100) == sum(range(100)), (opt, light)
    images = [caches.OBJECTS.read(native.object_key(module.text(), opt, light)) for opt, light in levels]
    assert None not in images
    assert images[2] not in (images[0], images[3])
