"""Evaluating catalogue rows outside the machine: every form of a row, with either backend."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.engine.llvm.vocabulary import WIDE, LlvmVocabulary
from ptxlab.engine.reference._vocabulary import NumpyVocabulary
from ptxlab.engine.support.compiled import address_of
from ptxlab.isa import CATALOGUE, load_all
from ptxlab.isa.catalogue import Qualifiers, Row, match
from ptxlab.isa.kinds import TYPE_BITS
from ptxlab.isa.operands import Const
from ptxlab.native import compile_ir
from ptxlab.native.builder import Function, Module

load_all()
WIDTH = 16
LUT = 0xD8
"""The immediate of lop3 in forms that are enumerated."""

Words = NDArray[Any]


@dataclass(frozen=True)
class Form:
    """A row with its groups fixed: the element types of sources and results (packed and bit types by their PTX names).

    A vector source stands there with all its elements; ``counts`` says how many values each source takes.
    """

    opcode: str
    row: Row
    q: Qualifiers
    sources: tuple[str, ...]
    results: tuple[str, ...]
    counts: tuple[int, ...] = ()


def element(type: str) -> str:
    return type if type in ("f32", "f64") else f"i{TYPE_BITS[type]}"


def _form(opcode: str, row: Row, q: Qualifiers) -> Form:
    def spelt(type: str) -> str:
        if type == "carry":
            return "pred"
        value = q.__dict__.get(type, type)
        return value if isinstance(value, str) else type

    types = [tuple(spelt(part) for part in type.split("|")) for _, type in row.operands]
    results = tuple(part for parts in types[: row.outputs] for part in parts)
    sources: list[str] = []
    counts: list[int] = []
    for first, *_ in types[row.outputs :]:
        vector, dot, type = first.partition(".")
        counts.append(int(vector[1:]) if dot else 1)
        sources += [type if dot else first] * counts[-1]
    return Form(opcode, row, q, tuple(sources), results, tuple(counts))


def forms(row: Row, most: int = 150) -> list[Form]:
    """The forms of a row; of very many an even sample."""
    options: list[list[str]] = []
    for slot in row.slots:
        options.append([*([""] if slot.optional else []), *slot.choices])
    every = list(product(*options))
    step = max(1, len(every) // most)
    found = []
    for choice in every[::step]:
        modifiers = tuple(m for m in choice if m)
        q = row.match(modifiers)
        if q is not None:
            found.append(_form(".".join([row.base, *modifiers]), row, q))
    return found


def pure_rows() -> Iterator[Row]:
    """The rows whose operands are all in the text: those of the stack have its pointer besides."""
    for rows in CATALOGUE.values():
        yield from (row for row in rows if row.kind == "pure" and all(type != "stack" for _, type in row.operands))


def form(opcode: str, sources: int) -> Form:
    """The first form of an opcode that takes so many sources and has one destination register."""
    for row, q in match(opcode):
        made = _form(opcode, row, q)
        if len(made.sources) == sources and len(made.results) == row.outputs:
            return made
    raise LookupError(opcode)


# -------------------------------------------------------------------------------------------------------- values

_FLOATS = {"f16": (10, 5), "bf16": (7, 8), "f32": (23, 8), "f64": (52, 11)}


def special(type: str) -> list[int]:
    """Words on which things go wrong."""
    if type in _FLOATS:
        mantissa, exponent = _FLOATS[type]
        one = ((1 << (exponent - 1)) - 1) << mantissa
        top, least = ((1 << exponent) - 1) << mantissa, 1 << mantissa
        sizes = [0, 1, 2, least - 1, least, least + 1, one, one + 1, one - 1, one + (1 << (mantissa - 1)), one - least]
        sizes += [top - 1, top, top + 1, top | 1 << (mantissa - 1), top | (1 << mantissa) - 1, one + 5 * least, one + 3 * least + 1]
        sign = 1 << (mantissa + exponent)
        return sizes + [s | sign for s in sizes]
    bits = TYPE_BITS[type]
    if bits == 1:
        return [0, 1]
    mask = (1 << bits) - 1
    small = [0, 1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, 0x5410, 0x3C00, 0x7F80]
    return [v & mask for v in (*small, *(-v for v in small), mask >> 1, (mask >> 1) + 1, 0x5555555555555555, 0x0123456789ABCDEF)]


def cases(type: str, count: int, seed: int) -> Words:
    """Words of a type: special ones in changing order, ordinary numbers, and random bits."""
    rng = np.random.default_rng([seed, *type.encode()])
    bits = TYPE_BITS[type]
    dtype = np.dtype(f"u{max(bits // 8, 1)}")
    if type.endswith("x2") and bits in (32, 64):
        half = {"f16x2": "f16", "bf16x2": "bf16", "f32x2": "f32"}.get(type, f"u{bits // 2}")
        low, high = (cases(half, count, seed + k).astype(np.uint64) for k in (0, 1000))
        return (low | high << np.uint64(bits // 2)).astype(dtype)
    if bits == 1:
        return rng.integers(0, 2, count).astype(np.uint8)
    words = np.frombuffer(rng.bytes(count * dtype.itemsize), dtype).copy()
    if type in _FLOATS:
        numbers = rng.standard_normal(count) * 2.0 ** rng.integers(-12, 13, count)
        ordinary = {
            "f16": numbers.astype(np.float16).view(np.uint16),
            "bf16": (numbers.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16),
            "f32": numbers.astype(np.float32).view(np.uint32),
            "f64": numbers.view(np.uint64),
        }[type]
        words = np.where(rng.random(count) < 0.6, ordinary, words)
    edges = np.array(special(type), dtype)
    some = rng.random(count) < 0.5
    words[some] = rng.choice(edges, int(some.sum()))
    return words


# -------------------------------------------------------------------------------------------------------- backends


def as_value(words: Words, type: str) -> Words:
    kind = element(type)
    return words.astype(np.bool_) if kind == "i1" else words.view({"f32": np.float32, "f64": np.float64}.get(kind, words.dtype))


def as_words(value: Words, count: int) -> Words:
    value = np.ascontiguousarray(np.broadcast_to(value, (count,)))
    return value.astype(np.uint8) if value.dtype == np.bool_ else value.view(f"u{value.dtype.itemsize}")


@dataclass(frozen=True)
class Body:
    """A function ``f(x, *values)`` over the vocabulary, with the types of its sources and results."""

    function: Callable[..., Any]
    sources: tuple[str, ...]
    results: tuple[str, ...]


def body_of(form: Form) -> Body:
    def function(x: Any, *values: Any) -> Any:
        given = iter(values)
        every = iter([Const(LUT) if t == "any" else next(given) for t in form.sources])
        grouped = (tuple(next(every) for _ in range(n)) if n > 1 else next(every) for n in form.counts)
        return form.row.semantics(x, form.q, *grouped)

    return Body(function, tuple(t for t in form.sources if t != "any"), form.results)


def size_of(type: str) -> int:
    return max(TYPE_BITS[type] // 8, 1)


class Compiled:
    """Many bodies in one LLVM module, which calls the functions that all programs share."""

    def __init__(self, bodies: Sequence[Body], width: int = WIDTH) -> None:
        self.bodies = bodies
        module = Module()
        module.helpers = {}
        for i, body in enumerate(bodies):
            _emit(module, f"form{i}", body, width)
        self.text = module.text()
        symbols = {name: address_of(name) for name in module.helpers}
        self.library = compile_ir(self.text, [f"form{i}" for i in range(len(bodies))], symbols=symbols)

    def __call__(self, index: int, words: Sequence[Words]) -> list[Words]:
        body = self.bodies[index]
        count = max((len(w) for w in words), default=WIDTH)
        results = [np.zeros(count, f"u{size_of(t)}") for t in body.results]
        arrays = [*(np.ascontiguousarray(w) for w in words), *results]
        function = self.library.function(f"form{index}", None, *[ctypes.c_void_p] * len(arrays), ctypes.c_int64)
        function(*(a.ctypes.data for a in arrays), count // WIDTH)
        return results


def _emit(module: Module, name: str, body: Body, width: int) -> None:
    pointers = [f"ptr in{i}" for i in range(len(body.sources))] + [f"ptr out{i}" for i in range(len(body.results))]
    code = Function(module, name, "void", ", ".join([*pointers, "i64 chunks"]), attributes=WIDE)
    x = LlvmVocabulary(code, width)
    with code.loop(code.parameters[-1]) as index:
        values = []
        for i, type in enumerate(body.sources):
            kind = element(type)
            place = code.parameters[i].at(index * (width * size_of(type)))
            value = place.load(x.vectors["i8" if kind == "i1" else kind], align=1)
            values.append(x.trunc(value, "i1") if kind == "i1" else value)
        result = body.function(x, *values)
        for i, value in enumerate(result if isinstance(result, tuple) else (result,)):
            type = body.results[i]
            place = code.parameters[len(body.sources) + i].at(index * (width * size_of(type)))
            place.store(x.zext(value, "i8") if element(type) == "i1" else value, align=1)
    code.ret()


def run_numpy(body: Body, words: Sequence[Words]) -> list[Words]:
    """The same with NumPy."""
    result = body.function(NumpyVocabulary(), *(as_value(w, t) for w, t in zip(words, body.sources, strict=True)))
    count = max((len(w) for w in words), default=1)
    return [as_words(value, count) for value in (result if isinstance(result, tuple) else (result,))]


def with_numpy(form: Form, words: Sequence[Words]) -> list[Words]:
    """Results of a form as words; a source of type ``any`` is the immediate `LUT`."""
    return run_numpy(body_of(form), words)


def compare_with_numpy(batch: Sequence[Form], count: int) -> None:
    """Both backends on so many words give the same bits."""
    compiled = Compiled([body_of(form) for form in batch])
    for i, form in enumerate(batch):
        words = [cases(type, count, seed) for seed, type in enumerate(t for t in form.sources if t != "any")]
        for got, want in zip(compiled(i, words), with_numpy(form, words), strict=True):
            if words:
                bad = np.flatnonzero(got != want)
                assert not bad.size, (
                    f"{form.opcode}({', '.join(hex(w[bad[0]]) for w in words)}): LLVM {got[bad[0]]:#x}, NumPy {want[bad[0]]:#x}"
                )
