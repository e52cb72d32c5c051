"""Whatever the text, the answer is a Module or a PtxSyntaxError, in time linear in the text."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptxlab.diagnostics import CODES
from ptxlab.ptx import Function, Module, Operand, PtxSyntaxError, SourceMap, _parser, parse, place, to_text
from ptxlab.ptx._operands import Irregular, OperandTable
from tests.sweep_helpers import one_in

pytestmark = pytest.mark.sweep

KERNELS = sorted((Path(__file__).parents[1] / "end_to_end" / "triton").glob("*.ptx"))
HEADER = ".version 9.0\n.target sm_100a\n.address_size 64\n"
BODY = HEADER + ".func f {\n"
FRAGMENTS = [
    *["{", "}", "[", "]", "(", ")", ";", ",", "@", "@!", ":", "::", "+", "-", "|", "!", "_", "%", "$", ".", '"', "//"],
    *["/*", "*/", "\n", "\t", "\0", "\x1b", "é", "0x", "0f", "1e9", "99999999999999999999", "-1", "<", ">", "=", "?"],
    *[".reg .b32 %r<9>;", ".loc 1 2 3", ".section .debug {", ".branchtargets", "L: ", "ret;", ".b8 1", "%r1", "call"],
]


def check(text: str) -> bool:
    """Parse; a diagnostic must be complete, and a module must survive its own printing."""
    try:
        module = parse(text)
    except PtxSyntaxError as error:
        found = error.diagnostic
        assert found.code in CODES
        assert found.message
        assert found.place is not None
        lines = text.split("\n")
        assert 1 <= found.place.line <= len(lines)
        assert 1 <= found.place.column <= len(lines[found.place.line - 1]) + 1
        return False
    assert parse(to_text(module)) == module
    SourceMap(module)
    return True


def mutate(random: random.Random, text: str) -> str:
    for _ in range(random.randint(1, 3)):
        a, b = sorted((random.randrange(len(text) + 1), random.randrange(len(text) + 1)))
        b = min(b, a + random.choice((1, 5, 200)))
        match random.randrange(5):
            case 0:
                text = text[:a] + text[b:]
            case 1:
                text = text[:a] + random.choice(FRAGMENTS) + text[a:]
            case 2:
                text = text[:a] + text[a:b] + text[a:]
            case 3:
                text = text[:a] + chr(random.randrange(256)) + text[a + 1 :]
            case 4:
                c = random.randrange(len(text) + 1)
                text = text[:c] + text[a:b] + text[c:]
    return text[: random.randrange(len(text) + 1)] if random.random() < 0.1 else text


def excerpts() -> list[str]:
    """Short modules cut from real kernels, so that thousands of mutations stay quick."""
    found = []
    for path in KERNELS:
        head, brace, rest = path.read_text().partition("\n{\n")
        body, end, debug = rest.partition("\n}\n\t.file")
        lines = body.split("\n")
        for start in range(0, len(lines), 97):
            found.append(head + brace + "\n".join(lines[start : start + 40]) + end + debug.partition("\n\t}")[0] + "\n}")
    return [text for text in found if check(text)]


def test_mutated_kernels() -> None:
    generator = random.Random(20)
    samples = excerpts()
    outcomes = [check(mutate(generator, generator.choice(samples))) for _ in range(2000)]
    assert 200 < sum(outcomes) < 1600


class NoTable(OperandTable):
    """Reads nothing, so that the exact parser reads everything."""

    def split(self, body: str, call: bool) -> tuple[Operand, ...]:
        raise Irregular

    def __missing__(self, text: str) -> Operand:
        raise Irregular


def test_exact_parser_agrees_on_mutated_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """The quick path accepts what the exact parser accepts, and nothing else."""

    def outcome(text: str) -> Module | str:
        try:
            return parse(text)
        except PtxSyntaxError as error:
            return str(error)

    generator = random.Random(21)
    samples = excerpts()
    texts = [mutate(generator, generator.choice(samples)) for _ in range(500)]
    texts += [BODY + f"op {operands};\n}}" for operands in ("1(536", "%r{4, 2", "a[b, c", "{a,b} {c}", "(a), b", "\x1ca")]
    quick = [outcome(text) for text in texts]
    monkeypatch.setattr(_parser, "operand_table", NoTable)
    assert [outcome(text) for text in texts] == quick


def test_truncated_kernels() -> None:
    text = KERNELS[0].read_text()
    for end in range(0, len(text), max(len(text) // 100, 1)):
        check(text[:end])


@given(st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=3), max_size=30).map(" ".join))
@settings(max_examples=300, deadline=None)
def test_fragments(text: str) -> None:
    check(text)
    check(HEADER + text)
    check(BODY + text)
    check(BODY + "op " + text)
    check(HEADER + ".global .u32 x = " + text)


@given(st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_random_bytes(data: bytes) -> None:
    check(data.decode("latin-1"))
    check(BODY + data.decode("utf-8", "surrogateescape"))


LONG: dict[str, Callable[[int], str]] = {
    "labels": lambda n: BODY + "".join(f"a{i}  : " for i in range(n)),
    "no semicolons": lambda n: BODY + "add.s32 a, b\n" * n,
    "divisions": lambda n: BODY + "add.s32 a, 4/2;\n" * n + "}",
    "comment openings": lambda n: BODY + "add.s32 a; /*" * n,
    "braces": lambda n: BODY + "{" * n,
    "vectors": lambda n: BODY + "mov a, " + "{" * n,
    "brackets": lambda n: BODY + "mov a, " + "[a," * n,
    "unclosed address": lambda n: BODY + "mov a, [a{b}" + "c{d}" * n + ";",
    "parentheses": lambda n: BODY + "mov a, " + "(" * n,
    "signs": lambda n: BODY + "mov a, " + "-" * n + "1;}",
    "sum": lambda n: BODY + "mov a, " + "1+" * n + "1;}",
    "conditionals": lambda n: BODY + "mov a, " + "1?" * n + "1;}",
    "digits": lambda n: BODY + "mov a, " + "9" * n + ";}",
    "float digits": lambda n: BODY + "mov a, 1." + "9" * n + ";}",
    "exponent": lambda n: BODY + "mov a, 1e" + "9" * n + ";}",
    "blanks": lambda n: BODY + " " * n + "x",
    "dots": lambda n: BODY + "a." * n,
    "quotes": lambda n: BODY + '"' * n,
    "bars": lambda n: BODY + "mov a|" + "b|" * n + ";",
    "registers": lambda n: BODY + ".reg .b32 " + "".join(f"a{i}, " for i in range(n)) + "z;}",
    "ranges": lambda n: BODY + "".join(f".reg .b32 %r{i}_<9>;\n" for i in range(n // 4)) + "}",
    "digits in names": lambda n: BODY + "".join(f".reg .b32 %r{'1' * 99}{i};\n.reg .b32 a{i}b<3>;" for i in range(n // 20)),
    "parameters": lambda n: HEADER + ".func f(" + "".join(f".param .u32 p{i},\n" for i in range(n // 4)),
    "dimensions": lambda n: HEADER + ".global .u32 x" + "[1]" * n + ";",
    "initialiser": lambda n: HEADER + ".global .u32 x[] = {" + "1," * n + "1};",
    "nested initialiser": lambda n: HEADER + ".global .u32 x[] = " + "{1," * n,
    "debug section": lambda n: HEADER + ".section .debug {" + ".b8 1\n" * n + "}",
    "debug list": lambda n: HEADER + ".section .debug {.b8 1" + ",/* */ 1" * n,
    "debug stars": lambda n: HEADER + ".section .debug {.b8 1,/*" + "*" * n,
    "source section": lambda n: HEADER + ".nv_intermediate_source_section {" + ".source_begin" * n,
    "targets": lambda n: ".version 9.0\n.target " + "".join(f"a{i}," for i in range(n)),
    "functions": lambda n: HEADER + "".join(f".func f{i}() {{ret;}}\n" for i in range(n // 4)),
    "inlined": lambda n: BODY + "".join(f".loc 1 {i + 1} 3, inlined_at 1 {i} 3\nret;\n" for i in range(n // 10)) + "}",
    "range": lambda n: BODY + f".reg .b32 %r<{'9' * n}>;}}",
    "guards": lambda n: BODY + "@p " * n,
}


@pytest.mark.parametrize("kind", one_in(3, LONG))
def test_time_is_linear(kind: str) -> None:
    def seconds(n: int) -> Iterator[float]:
        text = LONG[kind](n)
        for _ in range(3):
            start = time.process_time()
            with contextlib.suppress(PtxSyntaxError):
                SourceMap(parse(text))
            yield time.process_time() - start

    limit = 40 * max(min(seconds(4_000)), 0.002)  # ten times the text; four times for a busy machine
    assert any(found < limit for found in seconds(40_000))


def test_huge_counts_parse() -> None:
    module = parse(BODY + ".reg .b32 %r<18446744073709551615>;\nmov.b32 %r5, 0;\n}")
    (f,) = module.items
    assert isinstance(f, Function)


def test_places_of_foreign_instructions() -> None:
    """An instruction from elsewhere gets a place, not an error."""
    a = parse(BODY + "\n\n\n   add.s32 a, b, c;\n}")
    b = parse(BODY + "}")
    body = a.functions["f"].body
    assert body is not None
    assert place(b, body.statements[0]).line == 8  # type: ignore[arg-type]
