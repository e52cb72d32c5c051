"""Object code is generated in several threads at once, and one module at a time where llvmlite is not as it is known."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from ptxlab import native
from ptxlab.native import _compile, _emission
from ptxlab.native._llvm import llvm

IR = "define i32 @f(i32 %x) {\n %y = mul i32 %x, 3\n ret i32 %y\n}\n"
PATIENCE = 60


@pytest.fixture
def module() -> Iterator[tuple[Any, Any]]:
    """A target machine, and a module in a context of its own."""
    binding = _compile._initialise()
    with _compile._machine(0, native.host()) as machine, binding.create_context() as context, binding.parse_assembly(IR, context) as found:
        found.triple, found.data_layout = machine.triple, str(machine.target_data)
        yield machine, found


@pytest.fixture
def other_llvmlite(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    _emission._unlocked.cache_clear()
    yield monkeypatch
    monkeypatch.undo()
    _emission._unlocked.cache_clear()


def test_the_installed_llvmlite_is_as_it_is_known() -> None:
    assert _emission.is_concurrent()


def test_the_code_is_that_of_llvmlite(module: tuple[Any, Any]) -> None:
    machine, found = module
    assert _emission.emit_object(machine, found) == machine.emit_object(found)


def test_the_lock_of_llvmlite_is_not_taken(module: tuple[Any, Any]) -> None:
    """A thread generates code while another one holds the lock."""
    machine, found = module
    made: list[bool] = []
    with llvm().ffi.OutputString() as error:

        def emit() -> None:
            made.append(bool(_emission._unlocked()(machine, found, 1, error)))

        _emission._unlocked()
        thread = threading.Thread(target=emit, daemon=True)
        with llvm().ffi.lib._lock:
            thread.start()
            thread.join(PATIENCE)
            assert made == [True]


@pytest.mark.parametrize("name", ["LLVMPY_Missing", "LLVMPY_GetBufferSize"])
def test_another_llvmlite_generates_one_module_at_a_time(module: tuple[Any, Any], other_llvmlite: pytest.MonkeyPatch, name: str) -> None:
    machine, found = module
    other_llvmlite.setattr(_emission, "_EMIT", name)
    assert not _emission.is_concurrent()
    assert native.spare_compilers() == 0
    assert _emission.emit_object(machine, found) == machine.emit_object(found)


def test_code_that_cannot_be_generated_is_an_error(module: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(machine: Any, module: Any, kind: int, error: Any) -> None:
        create = llvm().ffi.lib.LLVMPY_CreateString
        create.restype, create.argtypes = ctypes.c_void_p, [ctypes.c_char_p]
        error._ptr.value = create(b"no such instruction")

    monkeypatch.setattr(_emission, "_unlocked", lambda: fail)
    with pytest.raises(RuntimeError, match="no such instruction"):
        _emission.emit_object(*module)


def test_threads_compile_what_one_thread_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTXLAB_CACHE", "off")
    texts = [f"define i32 @f(i32 %x) {{\n %y = mul i32 %x, {n}\n ret i32 %y\n}}\n" for n in range(40)]
    kinds = [{"opt": 0}, {"opt": 1, "light": True}, {"opt": 2}]
    alone = [native.compile_object(text, **kind) for text in texts for kind in kinds]
    made: dict[int, list[bytes]] = {}

    def work(number: int) -> None:
        made[number] = [native.compile_object(text, **kind) for text in texts for kind in kinds]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(made[number] == alone for number in range(4))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_process_forked_while_threads_compile_can_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTXLAB_CACHE", "off")
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            native.compile_object(IR, opt=2)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            pid = os.fork()
            if not pid:
                f = native.compile_ir(IR, ["f"]).function("f", ctypes.c_int, ctypes.c_int)
                os._exit(0 if f(14) == 42 else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()
