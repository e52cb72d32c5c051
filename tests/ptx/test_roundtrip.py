"""Generated modules print to text that parses to the same module."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptxlab.ptx import (
    Arguments,
    Block,
    CallPrototype,
    File,
    Float,
    Function,
    Guard,
    Initialiser,
    Instruction,
    Integer,
    Location,
    Memory,
    Module,
    Name,
    Negative,
    Not,
    Offset,
    Operand,
    Pair,
    Pragma,
    RegisterDeclaration,
    Section,
    Sink,
    SymbolValue,
    Targets,
    Variable,
    Vector,
    parse,
    to_text,
)
from ptxlab.ptx._declarations import FUNCTION_DIRECTIVES, TYPES

identifiers = st.from_regex(r"([A-Za-z]|[%$_][A-Za-z0-9_$])[A-Za-z0-9_$]{0,6}", fullmatch=True).filter(
    lambda t: t not in ("WARP_SZ", "generic")
)
names = st.builds(Name, st.one_of(identifiers, st.builds("{}.{}".format, identifiers, st.sampled_from("xyzwrgba"))))
plain_names = st.builds(Name, identifiers)
integers = st.builds(Integer, st.integers(-(2**63), 2**64 - 1))
floats = st.one_of(st.builds(Float, st.integers(0, 2**32 - 1), st.just(32)), st.builds(Float, st.integers(0, 2**64 - 1), st.just(64)))
offsets = st.integers(-(2**63), 2**63 - 1)
sink = st.just(Sink())


def vectors(items: st.SearchStrategy[Operand]) -> st.SearchStrategy[Vector]:
    return st.builds(Vector, st.lists(items, max_size=5).map(tuple))


scalars: st.SearchStrategy[Operand] = st.one_of(names, integers, floats, sink, st.builds(Not, names), st.builds(Negative, names))
memories = st.builds(Memory, names, offsets, st.lists(scalars | vectors(scalars), max_size=3).map(tuple), st.booleans())
addresses = st.builds(Memory, integers, st.just(0), st.just(()), st.booleans())
pairs = st.builds(Pair, names | sink | vectors(scalars), names | sink)
operands: st.SearchStrategy[Operand] = st.one_of(
    scalars,
    vectors(scalars),
    vectors(vectors(scalars)),
    memories,
    addresses,
    pairs,
    st.builds(Offset, names, offsets),
)
arguments = st.builds(Arguments, st.lists(scalars, max_size=4).map(tuple))

opcodes = st.from_regex(r"[a-z][a-z0-9]{0,5}((\.|::)[a-z0-9_]{1,6}){0,4}", fullmatch=True).filter(lambda t: t.split(".")[0] != "call")
guards = st.none() | st.builds(Guard, identifiers, st.booleans())
instructions = st.builds(Instruction, opcodes, st.lists(operands, max_size=5).map(tuple), guards)
calls = st.builds(Instruction, st.sampled_from(["call", "call.uni"]), st.lists(operands | arguments, max_size=4).map(tuple), guards)

small = st.integers(0, 1 << 20)
triples = st.tuples(small, small, small)
locations = st.builds(
    Location,
    small,
    small,
    small,
    identifiers | st.just(""),
    st.just(0),
    triples | st.none(),
    triples | st.none(),
)
texts = st.text(st.characters(codec="ascii", exclude_characters='"\\', exclude_categories=["Cc"]), max_size=8)
pragmas = st.builds(Pragma, st.lists(texts, min_size=1, max_size=3).map(tuple))
types = st.sampled_from(sorted(TYPES))
alignments = st.none() | st.sampled_from([1, 2, 16, 1024])
widths = st.sampled_from([1, 2, 4])
dims = st.lists(st.integers(-1, 1 << 40), max_size=3).map(tuple)
attributes = st.sampled_from([(), (".managed",), (".unified(19, 95)",), (".managed", ".unified(1, 2)")])

symbols = st.one_of(
    st.builds(SymbolValue, identifiers, offsets, st.booleans()),
    st.builds(SymbolValue, identifiers, offsets, st.booleans(), st.sampled_from([0xFF << 8 * i for i in range(8)])),
)
initialisers: st.SearchStrategy[Initialiser] = st.recursive(
    integers | floats | symbols, lambda inner: st.lists(inner, max_size=4).map(tuple), max_leaves=10
)
tails = st.from_regex(r"[A-Za-z0-9_$]{0,6}", fullmatch=True)
unique = st.lists(tails.map("%v_{}x".format), min_size=1, max_size=4, unique=True)


@st.composite
def variables(draw: st.DrawFn, name: str, spaces: tuple[str, ...] = ("global", "const", "shared", "local")) -> Variable:
    return Variable(
        draw(st.sampled_from(spaces)),
        draw(types),
        name,
        draw(alignments),
        draw(widths),
        draw(dims),
        draw(st.none() | initialisers),
        attributes=draw(attributes),
    )


@st.composite
def parameters(draw: st.DrawFn) -> tuple[Variable, ...]:
    pointers = st.none() | st.tuples(st.sampled_from(["", "global", "shared", "const", "local"]), st.sampled_from([0, 4]))
    return tuple(
        Variable(draw(st.sampled_from(["param", "reg"])), draw(types), name, draw(alignments), 1, draw(dims), ptr=draw(pointers))
        for name in draw(unique)
    )


@st.composite
def blocks(draw: st.DrawFn, depth: int = 0) -> Block:
    found: list[object] = []
    for name in draw(unique):
        found.append(
            draw(
                st.one_of(
                    variables(name),
                    st.builds(RegisterDeclaration, types, st.just(((name, None), (name + "y", 3))), st.sampled_from([1, 2, 4])),
                    st.builds(
                        Targets,
                        st.sampled_from(["branchtargets", "calltargets"]),
                        st.just(name),
                        st.lists(identifiers, min_size=1, max_size=3).map(tuple),
                    ),
                    st.builds(
                        CallPrototype,
                        st.just(name),
                        parameters() | st.just(()),
                        parameters() | st.just(()),
                        st.sampled_from([(), ("noreturn",), ("abi_preserve 3",)]),
                    ),
                )
            )
        )
    found += draw(st.lists(st.one_of(instructions, calls, locations, pragmas), max_size=5))
    if depth < 2 and draw(st.booleans()):
        found.append(draw(blocks(depth + 1)))
    return Block(draw(st.permutations(found)))  # type: ignore[arg-type]


@st.composite
def functions(draw: st.DrawFn, name: str) -> Function:
    kind = draw(st.sampled_from(["entry", "func"]))
    directives = []
    body = draw(st.none() | blocks())
    # without a body, a semicolon after these two would be read as theirs
    words = sorted(FUNCTION_DIRECTIVES.keys() - ({"pragma", "minperctamemory"} if body is None else set()))
    for word in draw(st.lists(st.sampled_from(words), max_size=3)):
        fewest, most = FUNCTION_DIRECTIVES[word]
        value = texts if word == "pragma" else texts | small if word == "language" else small
        directives.append((word, tuple(draw(st.lists(value, min_size=fewest, max_size=min(most, 3))))))
    returns = ()
    if kind == "func" and draw(st.booleans()):
        returns = (Variable("param", "b32", "result"),)
    linkage = draw(st.sampled_from(["", "visible", "weak", "extern"]))
    return Function(kind, name, draw(st.just(()) | parameters()), returns, linkage, tuple(directives), body)


@st.composite
def modules(draw: st.DrawFn) -> Module:
    items: list[object] = []
    for name in draw(unique):
        items.append(draw(st.one_of(variables(name, ("global", "const", "tex")), functions(name))))
    sections = st.builds(
        Section,
        st.sampled_from([".debug_str", ".debug_info"]),
        st.lists(st.sampled_from([".b8 1", ".b32 L+4", "L:", ".b64 a-b"]), max_size=4).map(tuple),
    )
    extras = st.one_of(st.builds(File, small, texts, st.none() | small), pragmas, sections)
    items += draw(st.lists(extras, max_size=3))
    version = draw(st.tuples(st.integers(8, 9), st.integers(0, 9)))
    targets = draw(st.sampled_from([("sm_100a",), ("sm_90a", "debug"), ("sm_103f", "texmode_independent")]))
    return Module(version, targets, draw(st.sampled_from([32, 64])), items)  # type: ignore[arg-type]


@given(modules())
@settings(max_examples=150, deadline=None)
@pytest.mark.sweep
def test_modules(module: Module) -> None:
    assert parse(to_text(module)) == module


@given(st.lists(operands, min_size=1, max_size=4).map(tuple), st.sampled_from(["", " ", "/* c */", "\n\t", "// c\n"]))
@settings(max_examples=400)
@pytest.mark.sweep
def test_operands_with_any_spacing(items: tuple[Operand, ...], space: str) -> None:
    instruction = Instruction("op", items)
    module = Module((9, 0), ("sm_100a",), 64, [Function("func", "f", body=Block([instruction]))])
    text = to_text(module)
    head, tail = text.split("op ")
    spaced = head + f"op{space or ' '}" + tail.replace(", ", f"{space},{space}").replace("[", f"[{space}")
    assert parse(spaced) == module
