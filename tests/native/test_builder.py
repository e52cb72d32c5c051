"""Functions written with the LLVM builder compute what Python computes."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ptxlab import native
from ptxlab.native import Function, Module, Value, _values, address_of, vector
from ptxlab.numerics.ir.prepare import transposed

I64 = ctypes.c_int64


def compiled(parameters: str, write: Callable[[Function], None], opt: int, result: str = "i64") -> Any:
    """A function of 64-bit integers and addresses."""
    module = Module()
    code = Function(module, "f", result, parameters)
    write(code)
    return native.compile_ir(module.text(), ["f"], opt=opt).function("f", None if result == "void" else I64, *[I64] * len(code.parameters))


@pytest.fixture(params=[0, 2], ids=["opt0", "opt2"])
def opt(request: pytest.FixtureRequest) -> int:
    return int(request.param)


OPERATIONS: dict[str, tuple[Callable[[Value, Value], Value], Callable[[int, int], int]]] = {
    "add": (lambda a, b: a + b, lambda a, b: a + b),
    "sub": (lambda a, b: a - b, lambda a, b: a - b),
    "mul": (lambda a, b: a * b, lambda a, b: a * b),
    "logic": (lambda a, b: ((a & b) | 0x1000) ^ ~b, lambda a, b: ((a & b) | 0x1000) ^ ~b),
    "shifts": (lambda a, b: (a << 5) + (b >> 7), lambda a, b: (a << 5) + ((b & 2**64 - 1) >> 7)),
    "signed": (lambda a, b: a.lt(b).select(a, b) - a.max(b), lambda a, b: min(a, b) - max(a, b)),
    "unsigned": (lambda a, b: a.ult(b).select(a, b), lambda a, b: min(a, b, key=lambda x: x & 2**64 - 1)),
    "comparisons": (
        lambda a, b: sum((getattr(a, name)(b).to("i64") << i for i, name in enumerate(("eq", "ne", "le", "ge", "gt"))), a.constant(0)),
        lambda a, b: sum(int(holds) << i for i, holds in enumerate((a == b, a != b, a <= b, a >= b, a > b))),
    ),
    "narrow": (lambda a, b: a.to("i8").sext("i64") + b.to("i16").to("i64"), lambda a, b: (a + 128) % 256 - 128 + b % 65536),
    "lowest bit": (lambda a, b: (a | 1 << 40).lowest_bit(), lambda a, b: ((a | 1 << 40) & -(a | 1 << 40)).bit_length() - 1),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name: str, opt: int) -> None:
    made, exact = OPERATIONS[name]
    function = compiled("i64 a, i64 b", lambda code: code.ret(made(code["a"], code["b"])), opt)
    for a, b in ((0, 0), (7, 7), (-3, 5), (5, -3), (1 << 40, -(1 << 41)), (123456789, 987654321)):
        assert function(a, b) == (exact(a, b) + 2**63) % 2**64 - 2**63, (a, b)


def test_loops(opt: int) -> None:
    """From a start, in steps, also not at all; nested; with a condition; over bits."""

    def write(code: Function) -> None:
        total, rounds = code.variable("i64", 0), code.variable("i64", 0)
        with code.loop(code["n"], 3, code["first"]) as i, code.loop(2, entered=True) as j:
            total.set(total.get() + i * 10 + j)
        with code.loop_while(lambda: rounds.get().lt(code["n"])):
            rounds.set(rounds.get() * 2 + 1)
        with code.each_bit(code["n"].to("i32")) as bit:
            total.set(total.get() + (bit << 20))
        code.ret(total.get() + (rounds.get() << 40))

    function = compiled("i64 n, i64 first", write, opt)
    for n, first in ((0, 0), (10, 0), (11, 4), (3, 8)):
        rounds = 0
        while rounds < n:
            rounds = 2 * rounds + 1
        bits = sum(bit << 20 for bit in range(32) if n >> bit & 1)
        assert function(n, first) == sum(i * 10 + j for i in range(first, n, 3) for j in range(2)) + bits + (rounds << 40)


def test_conditions_and_switches(opt: int) -> None:
    """Either case may return; both join behind; a switch has a default."""

    def write(code: Function) -> None:
        n = code["n"]
        with code.when(n.lt(0)):
            code.ret(-1)
        found = code.variable("i64")
        with code.when(n.gt(100)) as otherwise:
            with code.when(n.gt(1000)):
                code.ret(-2)
            found.set(n - 100)
            otherwise()
            found.set(n)
        labels = {number: code.label() for number in (1, 5)}
        code.switch(found.get(), labels, "other")
        for number, label in labels.items():
            code.begin(label)
            code.ret(number * 1000)
        code.begin("other")
        code.ret(found.get())

    function = compiled("i64 n", write, opt)
    assert [function(n) for n in (-7, 1001, 101, 1, 105, 5, 6, 150)] == [-1, -2, 1000, 1000, 5000, 5000, 6, 50]


def test_vectors_and_memory(opt: int) -> None:
    """Indices count elements; scalars beside vectors stand in all lanes; floats are rounded once."""

    def write(code: Function) -> None:
        numbers, out, floats = code["numbers"], code["out"], vector("float", 4)
        first, second = numbers.load(floats), numbers.load(floats, 4)
        total = first * second + numbers.load("float", 8)
        out.store(total.max(0.1))
        out.store(total.lt(1.5).select(total.bits("i32"), 7), 4)
        out.store(code.lanes("i32", 4).part(1, 2), 8)
        out.store(total.bits("i32").reduce("umin"), 10)
        out.store(first.convert("fptosi", "i32").ne(0).cast("i4").to("i32"), 11)

    numbers = np.array([1.5, -2.0, 0.25, 3.0, 2.0, 4.0, 0.5, 1 / 3, 0.7], np.float32)
    out = np.zeros(12, np.uint32)
    compiled("ptr numbers, ptr out", write, opt, "void")(address_of(numbers), address_of(out))
    total = numbers[:4] * numbers[4:8] + numbers[8]
    assert np.array_equal(out[:4].view(np.float32), np.maximum(total, np.float32(0.1)))
    assert np.array_equal(out[4:8], np.where(total < 1.5, total.view(np.uint32), 7))
    assert out[8:].tolist() == [1, 2, int(total.view(np.uint32).min()), 0b1011]


def test_calls_constants_and_words(opt: int) -> None:
    module = Module()
    inner = Function(module, "inner", "i64", "i64 x, <2 x i64> %pair", internal=True)
    inner.ret(inner["x"] + inner["pair"].reduce("add"))
    outer = Function(module, "f", "i64", "ptr words, i64 index")
    table = outer.constants("i64", [5, 7, 11])
    assert outer.constants("i64", [5, 7, 11]).ref == table.ref
    outer["words"].set_words({0: table.load("i64", outer["index"]), 2: -1})
    pair = outer.const(vector("i64", 2), 3)
    outer.ret(outer.call("inner", "i64", outer["words"].word(0), pair) + outer.call(outer["words"].pointer(1), "i64", outer["index"]))
    callback = ctypes.CFUNCTYPE(I64, I64)(lambda x: 100 * x)
    words = np.array([0, ctypes.cast(callback, ctypes.c_void_p).value or 0, 0], np.int64)
    function = native.compile_ir(module.text(), ["f"], opt=opt).function("f", I64, I64, I64)
    assert function(address_of(words), 2) == 11 + 6 + 200
    assert words[[0, 2]].tolist() == [11, -1]


@pytest.mark.parametrize("number", [0.0, -0.0, 0.1, 1e300, float("inf"), 2.0**-149])
def test_float_constants_are_rounded_to_their_type(number: float) -> None:
    def write(code: Function) -> None:
        code["out"].store(code.const("double", number))
        code["out"].store(code.const("float", min(number, 3e38)), 2)

    out = np.zeros(2, np.uint64)
    compiled("ptr out", write, 0, "void")(address_of(out))
    assert out[:1].tobytes() == struct.pack("<d", number)
    assert out[1:].tobytes()[:4] == struct.pack("<f", min(number, 3e38))


@pytest.mark.parametrize("has", ["has_added_dots", "has_pair_byte_dot", ""])
@pytest.mark.parametrize("lanes", [1, 4, 8, 16])
def test_products_of_bytes(lanes: int, has: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each way of adding them, with the largest magnitudes whose neighbours' sums fit 16 bits."""
    here = native.host()
    if has and not getattr(here, has):
        pytest.skip("this processor has no such instruction")
    only = {name: name == has for name in ("has_added_dots", "has_pair_byte_dot")}
    monkeypatch.setattr(_values, "host", lambda: replace(here, **only))
    rng = np.random.default_rng(lanes)
    unsigned, signed = rng.integers(0, 128, 4 * lanes, np.uint8), rng.integers(-128, 128, 4 * lanes, np.int8)
    unsigned[:4], signed[:4] = 127, -128
    total = rng.integers(-1000, 1000, lanes, np.int32)
    exact = total + (unsigned.astype(int) * signed).reshape(lanes, 4).sum(1)
    type = vector("i32", lanes) if lanes > 1 else "i32"

    def write(code: Function) -> None:
        total, unsigned, signed = (parameter.load(type, align=1) for parameter in code.parameters)
        code.parameters[0].store(total.add_byte_dot(unsigned, signed), align=1)

    compiled("ptr total, ptr unsigned, ptr signed", write, 1, "void")(*map(address_of, (total, unsigned, signed)))
    np.testing.assert_array_equal(total, exact)


@pytest.mark.parametrize("one_instruction", [True, False])
@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_added_products_of_pairs(lanes: int, one_instruction: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without the instruction that adds them to a number; sums wrap."""
    here = native.host()
    if one_instruction and not here.has_added_dots:
        pytest.skip("this processor has no such instruction")
    monkeypatch.setattr(_values, "host", lambda: replace(here, has_added_dots=one_instruction))
    total, a, b = np.random.default_rng(lanes).integers(-(2**31), 2**31, (3, lanes)).astype(np.int32)
    a[0] = b[0] = np.int32(0x80008000 - 2**32)
    products = a.view(np.int16).astype(np.int64) * b.view(np.int16)
    wrapped = (total + products.reshape(lanes, 2).sum(1)).astype(np.int32)
    type = vector("i32", lanes)

    def write(code: Function) -> None:
        total, a, b = (parameter.load(type, align=1) for parameter in code.parameters)
        code.parameters[0].store(total.add_pair_dot(a, b), align=1)

    compiled("ptr total, ptr a, ptr b", write, 1, "void")(*map(address_of, (total, a, b)))
    np.testing.assert_array_equal(total, wrapped)


@pytest.mark.parametrize("size", [8, 16, 32])
def test_transposition(size: int) -> None:
    matrix = np.random.default_rng(size).integers(0, 1 << size, (16, 16)).astype(f"u{size // 8}")
    found, type = np.zeros_like(matrix), vector(f"i{size}", 16)

    def write(code: Function) -> None:
        rows = transposed([code["source"].at(i, type).load(type, align=1) for i in range(16)])
        for i, row in enumerate(rows):
            code["target"].at(i, type).store(row, align=1)

    compiled("ptr source, ptr target", write, 1, "void")(address_of(matrix), address_of(found))
    np.testing.assert_array_equal(found, matrix.T)
