"""Modules whose function bodies are parsed when they are asked for: what is parsed, and that nothing differs but the time."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import ptxlab
from ptxlab import ptx
from ptxlab.engine import lower
from ptxlab.ptx import Function, Module, PtxSyntaxError, SourceMap, _parser, outline, parse
from tests.ptx.test_fuzz import mutate

KERNELS = sorted((Path(__file__).parents[1] / "hardware" / "kernels").glob("*.ptx"))
HEADER = ".version 9.0\n.target sm_100a\n.address_size 64\n"
STORE = """.visible .entry {name}(.param .u64 data) {{
  .reg .b64 %rd<2>; .reg .b32 %r<2>;
  ld.param.u64 %rd1, [data];
  {body}
  st.global.u32 [%rd1], %r1;
  ret;
}}
"""


def kernel(name: str, body: str) -> str:
    return STORE.format(name=name, body=body)


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lines of the bodies that are parsed."""
    lines: list[int] = []
    statements = _parser.Parser.statements

    def noted(self: _parser.Parser, body: ptx.Block, start: int, position: int) -> int:
        lines.append(body.line)
        return statements(self, body, start, position)

    monkeypatch.setattr(_parser.Parser, "statements", noted)
    return lines


def line_of(text: str, name: str) -> int:
    """The line on which the body of a function begins."""
    return text[: re.search(rf"\.(?:entry|func)\s.*?\b{name}\b", text).start()].count("\n") + 1  # type: ignore[union-attr]


def launched(module: ptxlab.Module, name: str) -> int:
    data = np.zeros(1, np.uint32)
    module[name].launch(grid=1, block=1, args=[data]).raise_for_errors()
    return int(data[0])


# ------------------------------------------------------------------------------------------------------ what is parsed


def test_only_what_the_kernel_calls_is_parsed(parsed: list[int]) -> None:
    functions = ".func (.reg .b32 %r1) seven() { mov.u32 %r1, 7; ret; }\n.func (.reg .b32 %r1) nine() { mov.u32 %r1, 9; ret; }\n"
    text = HEADER + functions + "".join(kernel(f"k{i}", f"call (%r1), {'nine' if i % 2 else 'seven'};") for i in range(40))
    module = ptxlab.loads(text)
    assert len(module) == 40
    assert parsed == []
    assert launched(module, "k5") == 9
    assert sorted(parsed) == sorted([line_of(text, "nine"), line_of(text, "k5")])
    assert launched(module, "k6") == 7
    assert launched(module, "k7") == 9
    assert len(parsed) == 5
    assert len(set(parsed)) == 5


def test_a_module_of_one_kernel_is_parsed_whole(parsed: list[int]) -> None:
    text = HEADER + ".func other() { what is this; }\n" + kernel("k", "mov.u32 %r1, 1;")
    with pytest.raises(PtxSyntaxError) as failed:
        ptxlab.loads(text)
    with pytest.raises(PtxSyntaxError) as expected:
        parse(text)
    assert str(failed.value) == str(expected.value)


def test_the_source_map_parses_the_function_of_the_line(parsed: list[int]) -> None:
    bodies = "".join(f".entry k{i}() {{\n.loc 1 {i + 1} 2\nret;\n}}\n" for i in range(9))
    text = HEADER + bodies + '.file 1 "kernels.py"\n'
    source = SourceMap(outline(text))
    line = line_of(text, "k4")
    assert str(source.at(line + 2)) == "kernels.py:5:2"
    assert source.at(line) is None
    assert parsed == [line]


def test_variables_of_bodies_are_found_without_parsing_the_others(parsed: list[int]) -> None:
    text = HEADER + kernel("a", "mov.u32 %r1, 3;") + kernel("b", "ld.global.u32 %r1, [%rd1];")
    text += kernel("c", ".global .u32 count = 40;\n  mov.u64 %rd0, count;\n  ld.global.u32 %r1, [%rd0];")
    module = ptxlab.loads(text)
    assert launched(module, "a") == 3
    assert sorted(parsed) == [line_of(text, "a"), line_of(text, "c")]
    assert launched(module, "c") == 40


# ---------------------------------------------------------------------------------------------------------- mistakes


def test_a_mistake_in_a_body_is_reported_when_its_kernel_is_launched() -> None:
    text = HEADER + kernel("good", "mov.u32 %r1, 3;") + kernel("bad", "mov.u32 %r1 3;")
    with pytest.raises(PtxSyntaxError) as expected:
        parse(text, "k.ptx")
    module = ptxlab.loads(text, file="k.ptx")
    assert launched(module, "good") == 3
    for _ in range(2):
        with pytest.raises(PtxSyntaxError) as failed:
            launched(module, "bad")
        assert str(failed.value) == str(expected.value)


@pytest.mark.parametrize(
    "text",
    [
        kernel("a", "}") + kernel("b", ""),
        kernel("a", "{") + kernel("b", ""),
        kernel("a", '"') + kernel("b", ""),
        kernel("a", "/* {") + kernel("b", ""),
        kernel("a", "add;;") + kernel("b", "") + ".nothing",
        kernel("a", "@@;") + kernel("a", ""),
    ],
)
def test_a_mistake_outside_bodies_is_reported_as_by_parse(text: str) -> None:
    with pytest.raises(PtxSyntaxError) as expected:
        parse(HEADER + text)
    with pytest.raises(PtxSyntaxError) as failed:
        outline(HEADER + text)
    assert str(failed.value) == str(expected.value)


# -------------------------------------------------------------------------------------------------------- same result


def bodies(module: Module) -> Iterator[ptx.Block]:
    return (item.body for item in module.items if isinstance(item, Function) and item.body is not None)


def whole(module: Module) -> Module:
    """The module after all bodies have been parsed, in the order of the text."""
    for body in bodies(module):
        assert body.statements is body.statements
    return module


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_kernels_parse_alike(path: Path) -> None:
    text = path.read_text()
    exact, found = parse(text), whole(outline(text))
    assert found == exact
    places = [[(s.line, s.column) for s in body.statements] for body in bodies(found)]
    assert places == [[(s.line, s.column) for s in body.statements] for body in bodies(exact)]
    assert [(b.line, b.column) for b in bodies(found)] == [(b.line, b.column) for b in bodies(exact)]


def test_braces_in_comments_and_strings_do_not_count() -> None:
    inner = '.pragma "} \\" {"; // }}}\n /* { * / */ { mov.u32 %r1, 4; } mov.b64 %rd0, {%r1, %r1}; /'
    text = HEADER + "".join(kernel(name, inner.rstrip("/")) for name in "ab")
    assert whole(outline(text)) == parse(text)
    assert launched(ptxlab.loads(text), "b") == 4


@pytest.mark.sweep
def test_mutated_texts_parse_alike() -> None:
    """The same module or the same error."""

    def outcome(text: str, lazily: bool) -> Module | str:
        try:
            return whole(outline(text)) if lazily else parse(text)
        except PtxSyntaxError as error:
            return str(error)

    generator = random.Random(22)
    sample = HEADER + "".join(kernel(name, "{ add.u32 %r1, %r1, 2; } // {\n  mov.b64 %rd0, {%r1, %r1}; /* } */") for name in "abc")
    texts = [mutate(generator, sample) for _ in range(4000)]
    good = sum(not isinstance(outcome(text, False), str) for text in texts)
    assert 100 < good < 1000
    assert [text for text in texts if outcome(text, True) != outcome(text, False)] == []


def test_threads_get_the_same_statements() -> None:
    text = HEADER + kernel("a", "add.u32 %r1, %r1, 1;\n" * 5000)
    for _ in range(5):
        (body,) = bodies(outline(text))
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda each: each.statements, [body] * 4))
        assert all(each is found[0] for each in found)


# ---------------------------------------------------------------------------------------------------------- the digest


def test_compiled_code_is_kept_while_other_kernels_change() -> None:
    """The digest under which code is kept covers the kernel, what it calls and what stands outside functions."""

    def digest(name: str, *changes: tuple[str, str]) -> str:
        text = HEADER + ".global .u32 g;\n.func f() { nanosleep.u32 1; ret; }\n"
        text += kernel("a", "call f;\n  mov.u32 %r1, 1;") + kernel("b", "mov.u32 %r1, 2;")
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        module = outline(text)
        return lower(module, module.functions[name]).digest

    assert digest("a") == digest("a", ("%r1, 2;", "%r1, 3;"))
    assert digest("b") == digest("b", ("nanosleep.u32 1", "nanosleep.u32 3"))
    changes = [("%r1, 1;", "%r1, 3;"), ("nanosleep.u32 1", "nanosleep.u32 3"), (".global .u32 g", ".global .u64 g"), ("9.0", "8.8")]
    digests = [digest("a"), digest("b"), *(digest("a", change) for change in changes)]
    assert len(set(digests)) == len(digests)
