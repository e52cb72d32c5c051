"""The emulator of AArch64 does what other tests need of it."""

from __future__ import annotations

import ctypes
import mmap
from ctypes import c_int32, c_int64, c_uint64, c_void_p

import numpy as np
import pytest

from ptxlab.native import Function, Module, Value, address_of, callback_address, compile_ir

from .level_helpers import emulated

unicorn = pytest.importorskip("unicorn")


def test_arguments_on_the_stack_and_of_32_bits() -> None:
    module = Module()
    code = Function(module, "f", "i64", ", ".join([*(f"i64 p{i}" for i in range(7)), *(f"i32 q{i}" for i in range(3)), "ptr last"]))
    total = code.const("i64", 0)
    for number, each in enumerate(code.parameters[:-1]):
        total = total + (each.sext("i64") if each.type == "i32" else each) * (number + 1)
    code.ret(total + code["last"].load("i64"))
    values = [*range(100, 107), -5, 6, -7]
    last = np.array([1 << 40])
    with emulated():
        function = compile_ir(module.text(), ["f"]).function("f", c_int64, *[c_int64] * 7, *[c_int32] * 3, c_void_p)
        assert function(*values, address_of(last)) == sum((i + 1) * value for i, value in enumerate(values)) + (1 << 40)


@pytest.mark.parametrize("opt", [0, 2])
def test_constants_words_outside_and_callbacks(opt: int) -> None:
    """Relocations of each sort, a call of this process in emulated code, and a call of emulated code in that."""
    table, word, seen = [3, 1, 4, 1, 5, 9, 2, 6], ctypes.c_int64(1000), []
    module = Module()
    code = Function(module, "f", "i64", "i64 i, ptr callback")
    module.declare("@word", "@word = external global i64")
    found = code.constants("i64", table).load("i64", code["i"]) + Value(code, "ptr", "@word").load("i64")
    code.ret(code.call(code["callback"], "i64", found, code["i"]) + code.call("g", "i64", found))
    code, (x,) = module.define("i64 g(i64 x)")
    code.ret(x * 2)
    with emulated():
        library = compile_ir(module.text(), ["f", "g"], opt=opt, symbols={"word": ctypes.addressof(word)})

        def callback(one: int, other: int) -> int:
            seen.append((one, other, library.function("g", c_int64, c_int64)(7)))
            return 1 << 40

        kept = ctypes.CFUNCTYPE(c_int64, c_int64, c_int64)(callback)
        assert library.function("f", c_int64, c_int64, c_void_p)(5, callback_address(kept)) == (1 << 40) + 2 * 1009
    assert seen == [(1009, 5, 14)]


def test_memory_that_nothing_has_is_refused() -> None:
    ir = "define i64 @f(ptr %p) nounwind {\n %x = load i64, ptr %p\n ret i64 %x\n}"
    with emulated():
        function = compile_ir(ir, ["f"]).function("f", c_uint64, c_void_p)
        with pytest.raises(unicorn.UcError, match="READ_UNMAPPED"):
            function(1 << 20)


def test_a_word_on_two_pages_that_code_has_not_accessed() -> None:
    memory = mmap.mmap(-1, 4 * mmap.PAGESIZE)
    at = ctypes.addressof(ctypes.c_char.from_buffer(memory)) + 2 * mmap.PAGESIZE - 3
    ctypes.c_uint64.from_address(at).value = 0x0123456789ABCDEF
    ir = "define i64 @f(ptr %p) nounwind {\n %x = load i64, ptr %p, align 1\n ret i64 %x\n}"
    with emulated():
        assert compile_ir(ir, ["f"]).function("f", c_uint64, c_void_p)(at) == 0x0123456789ABCDEF


def test_a_mode_that_is_left_is_found() -> None:
    body = "call void @llvm.set.rounding(i32 0) strictfp\n ret void"
    ir = f"declare void @llvm.set.rounding(i32)\ndefine void @f() strictfp nounwind {{\n {body}\n}}"
    with emulated(), pytest.raises(AssertionError):
        compile_ir(ir, ["f"]).function("f", None)()
