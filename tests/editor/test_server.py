"""Each feature of the language server, asked for by a client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pygls")

from lsprotocol import types

import ptxlab
from ptxlab.check import Abandoned
from ptxlab.editor._document import Document
from tests.editor.client_helpers import TEXT, Editor, covered, long_text, position


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    made = Editor(tmp_path_factory.mktemp("editor"))
    yield made
    made.stop()
    assert made.messages == []


def at(uri: str, where: types.Position) -> types.TextDocumentPositionParams:
    return types.TextDocumentPositionParams(types.TextDocumentIdentifier(uri), where)


def hover_at(editor: Editor, uri: str, where: types.Position) -> str:
    found = editor.ask(types.TEXT_DOCUMENT_HOVER, types.HoverParams(types.TextDocumentIdentifier(uri), where))
    return found.contents.value if found else ""


def definition_at(editor: Editor, uri: str, where: types.Position) -> types.Location | None:
    found: types.Location | None = editor.ask(
        types.TEXT_DOCUMENT_DEFINITION, types.DefinitionParams(types.TextDocumentIdentifier(uri), where)
    )
    return found


def fixes(editor: Editor, uri: str, where: types.Range) -> list[types.CodeAction]:
    params = types.CodeActionParams(types.TextDocumentIdentifier(uri), where, types.CodeActionContext([]))
    found: list[types.CodeAction] = editor.ask(types.TEXT_DOCUMENT_CODE_ACTION, params) or []
    return found


def with_edit(text: str, edit: types.TextEdit) -> str:
    lines = text.split("\n")
    offsets = [sum(len(line) + 1 for line in lines[: p.line]) + p.character for p in (edit.range.start, edit.range.end)]
    return text[: offsets[0]] + edit.new_text + text[offsets[1] :]


def test_diagnostics_follow_the_text(editor: Editor) -> None:
    uri = editor.open("follow.ptx", TEXT)
    before = editor.diagnostics(uri)
    assert [each.code for each in before] == [each.code for each in ptxlab.lint(TEXT)]
    where = position(TEXT, "or.b32")
    editor.edit(uri, types.Range(where, types.Position(where.line, where.character + 2)), "orr")
    (found,) = [each for each in editor.diagnostics(uri) if each.range.start.line == where.line]
    (expected,) = [each for each in ptxlab.lint(TEXT.replace("or.b32", "orr.b32")) if each.place and each.place.line == where.line + 1]
    assert (found.code, found.severity, found.source) == (expected.code, types.DiagnosticSeverity.Error, "ptxlab")
    assert found.message.startswith(expected.message)
    assert expected.fix in found.message
    editor.replace(uri, TEXT)
    assert editor.diagnostics(uri) == before
    editor.close(uri)
    assert editor.ask(
        types.TEXT_DOCUMENT_DOCUMENT_SYMBOL, types.DocumentSymbolParams(types.TextDocumentIdentifier(editor.open("next.ptx", TEXT)))
    )
    assert editor.published[uri].diagnostics == ()


def test_documents_are_edited_while_they_are_analysed(editor: Editor) -> None:
    lines = TEXT.split("\n")
    uri = editor.open("edited.ptx", TEXT)
    for number in range(60):
        kept = lines[: 5 + number % (len(lines) - 5)]
        editor.replace(uri, "\n".join(kept))
    editor.replace(uri, TEXT.replace("add.u32", "add.u31"))
    (error,) = [each for each in editor.diagnostics(uri) if each.severity is types.DiagnosticSeverity.Error and "u31" in each.message]
    assert covered(TEXT.replace("add.u32", "add.u31"), error.range).startswith("add.u31")


def test_hover_shows_an_instruction(editor: Editor) -> None:
    uri = editor.open("hover.ptx", TEXT)
    said = hover_at(editor, uri, position(TEXT, "tcgen05.mma", 12))
    for piece in (
        "tcgen05.mma.cta_group.kind",
        "a-desc",
        "sm_100a",
        "PTX ISA: TensorCore 5th Generation Instructions: tcgen05.mma",
        "fidelity: two-models",
    ):
        assert piece in said
    incomplete = editor.open("incomplete.ptx", TEXT.replace("kind::f16 [%r4], %rd1, %rd1, %r3, %p1;", "kind"))
    assert "tcgen05.mma" in hover_at(editor, incomplete, position(TEXT, "tcgen05.mma", 3))


def test_hover_shows_the_fields_of_descriptors(editor: Editor) -> None:
    uri = editor.open("fields.ptx", TEXT)
    idesc = hover_at(editor, uri, position(TEXT, "%r3, %p1", 1))
    for piece in ("value 0x8100010", "written by", "or.b32 %r3, %r2, 16", "M128 x N64 x K16, f16 x f16 -> f32"):
        assert piece in idesc
    shared = hover_at(editor, uri, position(TEXT, "0x4000404000010000", 4))
    assert "swizzle" in shared
    assert "128B" in shared
    assert hover_at(editor, uri, position(TEXT, "16;", 1)) == ""


def test_hover_shows_names(editor: Editor) -> None:
    uri = editor.open("names.ptx", TEXT)
    assert "value 0x8100000" in hover_at(editor, uri, position(TEXT, "%r2, 16", 1))
    inner = hover_at(editor, uri, position(TEXT, "%r3;", 1))
    assert "mov.u32 %r3, %tid.x" in inner
    assert "value" not in inner
    changing = hover_at(editor, uri, position(TEXT, "%rd1, %rd1, 0x", 1))
    assert "cvt.u64.u32 %rd1, %r1" in changing
    assert "value" not in changing
    assert "variable `tile` shared .b8, declared on line 5" in hover_at(editor, uri, position(TEXT, "tile;", 1))


def test_values_are_constant_only_if_nothing_else_writes(editor: Editor) -> None:
    line = "    mov.u32 %r8, 5;\n"
    text = TEXT.replace("LOOP:\n", line + "LOOP:\n")
    constant = editor.open("constant.ptx", text)
    assert "value 0x5" in hover_at(editor, constant, position(text, "%r8, 5", 1))
    others = (
        "@%p1 mov.u32 %r8, 5;",
        "call (%r8), next, (%r3);",
        "frob.b32 %r8, 1;",
        "ld.shared.b32 %r8, [tile];",
        "atom.shared.add.u32 %r8, [tile], 1;",
    )
    for number, other in enumerate(others):
        written = text.replace("LOOP:\n", f"LOOP:\n    {other}\n")
        said = hover_at(editor, editor.open(f"written{number}.ptx", written), position(written, "%r8, 5", 1))
        assert "value" not in said
        assert other.removesuffix(";") in said
    read = text.replace("LOOP:\n", "LOOP:\n    st.shared.b32 [%r8], %r8;\n    call (%r5), next, (%r8);\n")
    assert "value 0x5" in hover_at(editor, editor.open("read.ptx", read), position(read, "%r8, 5", 1))


def test_definitions_respect_scopes(editor: Editor) -> None:
    uri = editor.open("scopes.ptx", TEXT)

    def line_of(piece: str, inside: int = 1, occurrence: int = 0) -> int:
        found = definition_at(editor, uri, position(TEXT, piece, inside, occurrence))
        assert found is not None
        assert found.uri == uri
        return found.range.start.line

    lines = TEXT.split("\n")
    assert lines[line_of("%r3, %r2")] == "    .reg .b32 %r<9>;"
    assert lines[line_of("%r3, %tid")] == "        .reg .b32 %r3;"
    assert lines[line_of("], %r3;", 4)] == "        .reg .b32 %r3;"
    assert lines[line_of("(%r3);", 2)] == "    .reg .b32 %r<9>;"
    assert lines[line_of("bra LOOP", 5)] == "LOOP:"
    assert lines[line_of("next, (")].startswith(".func")
    assert lines[line_of("[tile]", 2)].startswith(".shared")
    assert lines[line_of("[result]", 2)].startswith(".visible .entry")
    assert lines[line_of("%in, 1")].startswith(".func")
    assert definition_at(editor, uri, position(TEXT, "%tid.x", 2)) is None
    assert definition_at(editor, uri, position(TEXT, "0x08100000", 2)) is None


def test_references_respect_scopes(editor: Editor) -> None:
    uri = editor.open("references.ptx", TEXT)

    def lines_of(where: types.Position, declaration: bool = False) -> list[str]:
        params = types.ReferenceParams(types.ReferenceContext(declaration), types.TextDocumentIdentifier(uri), where)
        found = editor.ask(types.TEXT_DOCUMENT_REFERENCES, params)
        return [TEXT.split("\n")[each.range.start.line].strip().split(" ")[0] for each in found]

    assert lines_of(position(TEXT, "%r3, %r2", 1)) == ["or.b32", "tcgen05.mma.cta_group::1.kind::f16", "call"]
    assert lines_of(position(TEXT, "%r3, %tid", 1)) == ["mov.u32", "st.shared.b32"]
    assert lines_of(position(TEXT, "LOOP:", 1), True) == ["LOOP:", "@%p1"]
    assert lines_of(position(TEXT, "tile[", 1)) == ["mov.u32", "st.shared.b32"]
    assert lines_of(position(TEXT, "%rd<4>", 1)).count("or.b64") == 2


def test_jumps_between_ptx_and_source(editor: Editor) -> None:
    text = TEXT.replace("    add.u32 %out", "    .loc 1 7 3\n    add.u32 %out").replace(
        "    mov.u32 %r1", "    .loc 1 3 1\n    mov.u32 %r1"
    )
    text += '.file 1 "kernel.py"\n'
    uri = editor.open("loc.ptx", text)
    source = (editor.root / "kernel.py").as_uri()

    def source_line(method: str, params: Any) -> tuple[str, int]:
        found = editor.ask(method, params)
        return found.uri, found.range.start.line

    where = position(text, "add.u32", 2)
    assert source_line(types.TEXT_DOCUMENT_IMPLEMENTATION, types.ImplementationParams(types.TextDocumentIdentifier(uri), where)) == (
        source,
        6,
    )
    on_loc = types.DefinitionParams(types.TextDocumentIdentifier(uri), position(text, ".loc 1 7", 6))
    assert source_line(types.TEXT_DOCUMENT_DEFINITION, on_loc) == (source, 6)
    command = types.ExecuteCommandParams("ptxlab.source", [uri, where.line])
    assert editor.ask(types.WORKSPACE_EXECUTE_COMMAND, command)["uri"] == source
    (found,) = editor.ask(types.WORKSPACE_EXECUTE_COMMAND, types.ExecuteCommandParams("ptxlab.instructions", [source, 6]))
    assert found["uri"] == uri
    lines = text.split("\n")[found["range"]["start"]["line"] : found["range"]["end"]["line"] + 1]
    assert [line.strip() for line in lines] == ["add.u32 %out, %in, 1;", "ret;"]
    assert editor.ask(types.WORKSPACE_EXECUTE_COMMAND, types.ExecuteCommandParams("ptxlab.instructions", [source, 100])) == []


def test_outline_and_folding(editor: Editor) -> None:
    uri = editor.open("outline.ptx", TEXT)
    symbols = editor.ask(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL, types.DocumentSymbolParams(types.TextDocumentIdentifier(uri)))
    assert [(each.name, each.detail) for each in symbols] == [
        ("counter", "global .b32"),
        ("tile", "shared .b8"),
        ("next", ".func"),
        ("k", ".entry"),
    ]
    assert [each.name for each in symbols[-1].children] == ["LOOP"]
    assert symbols[-1].range.end.line == TEXT.count("\n") - 1
    ranges = editor.ask(types.TEXT_DOCUMENT_FOLDING_RANGE, types.FoldingRangeParams(types.TextDocumentIdentifier(uri)))
    lines = TEXT.split("\n")
    assert {(lines[each.start_line], lines[each.end_line]) for each in ranges} == {
        ("// Adds", "// one."),
        ("{", "    ret;"),
        ("    {", "        st.shared.b32 [tile], %r3;"),
    }


def test_semantic_tokens(editor: Editor) -> None:
    uri = editor.open("tokens.ptx", TEXT)
    legend = editor.result.capabilities.semantic_tokens_provider.legend.token_types
    data = editor.ask(types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, types.SemanticTokensParams(types.TextDocumentIdentifier(uri))).data
    line = character = 0
    kinds: dict[str, set[str]] = {}
    for i in range(0, len(data), 5):
        line, character = line + data[i], data[i + 1] + (0 if data[i] else character)
        kinds.setdefault(TEXT.split("\n")[line][character : character + data[i + 2]], set()).add(legend[data[i + 3]])
    expected = {
        ".entry": "keyword",
        "add.u32": "method",
        "%r3": "variable",
        "%tid.x": "enumMember",
        "tile": "property",
        "result": "parameter",
        "next": "function",
        "LOOP": "label",
        "0x4000404000010000": "number",
        "// one.": "comment",
    }
    assert {piece: kinds[piece] for piece in expected} == {piece: {kind} for piece, kind in expected.items()}


def test_inlay_hints(editor: Editor) -> None:
    uri = editor.open("hints.ptx", TEXT)
    whole = types.Range(types.Position(0, 0), types.Position(TEXT.count("\n"), 0))
    hints = editor.ask(types.TEXT_DOCUMENT_INLAY_HINT, types.InlayHintParams(types.TextDocumentIdentifier(uri), whole))
    lines = TEXT.split("\n")
    assert [(lines[each.position.line][: each.position.character].split()[-1], each.label) for each in hints] == [
        ("0x4000404000010000", "swizzle 128B, leading 16, stride 1024"),
        ("%r3", "M128 x N64 x K16, f16 x f16 -> f32"),
    ]
    wrong = TEXT.replace("0x08100000", "0x08100040")
    editor.replace(uri, wrong)
    hints = editor.ask(types.TEXT_DOCUMENT_INLAY_HINT, types.InlayHintParams(types.TextDocumentIdentifier(uri), whole))
    assert hints[-1].label.startswith("not legal:")


@pytest.mark.parametrize(
    ("old", "new", "title"),
    [
        ("    or.b32 %r3", "    orr.b32 %r3", "write or"),
        ("tcgen05.mma.cta_group::1", "tcgen05.mma.cta_grup::1", "write .cta_group::1"),
        (".target sm_100a", ".target sm_100q", "write sm_100"),
        (".reg .pred", ".rge .pred", "write .reg"),
        (".version 8.7\n", "", "insert '.version 9.0'"),
        (".target sm_100a\n", "", "insert '.target sm_100a'"),
        ("bra LOOP", "bra LOP", "write LOOP"),
        ("[tile], %r3", "[tyle], %r3", "write tile"),
        ("[tile], %r3", "[tile-4], %r3", "add the negative offset"),
        ("kind::f16 [", "kind::f16.kind::f16 [", "remove the second .kind::f16"),
    ],
)
def test_quick_fixes_repair_the_text(editor: Editor, old: str, new: str, title: str) -> None:
    assert old in TEXT
    wrong = TEXT.replace(old, new)
    uri = editor.open("fixed.ptx", wrong)
    errors = {each.code for each in ptxlab.lint(wrong) if each.severity == "error"} - {each.code for each in ptxlab.lint(TEXT)}
    assert errors
    whole = types.Range(types.Position(0, 0), types.Position(wrong.count("\n"), 0))
    offered = [each for each in fixes(editor, uri, whole) if each.title.startswith(title)]
    assert offered
    ((edit,),) = offered[0].edit.changes.values() if offered[0].edit and offered[0].edit.changes else ((),)
    repaired = with_edit(wrong, edit)
    assert {each.code for each in ptxlab.lint(repaired)}.isdisjoint(errors)


def test_positions_count_utf_16_units(editor: Editor) -> None:
    text = TEXT.replace("    mov.u32 %r1", "    /* 𝄞é */ mov.u32 %r1")
    uri = editor.open("unicode.ptx", text)
    line = position(text, "mov.u32 %r1").line
    column = len("    /* ") + 3 + len(" */ mov.u32 ")
    found = definition_at(editor, uri, types.Position(line, column + 5))
    assert found is not None
    assert covered(text, found.range) == "tile"


def test_a_document_that_was_given_up_is_checked_again() -> None:
    document = Document(TEXT)
    with pytest.raises(Abandoned):
        document.diagnostics(wanted=lambda: False)
    assert document.findings == ptxlab.lint(TEXT)
    assert document.instruction_findings == ptxlab.lint(TEXT, dataflow=False)


def test_a_long_file_is_edited(editor: Editor) -> None:
    text = long_text()
    uri = editor.open("long.ptx", text)
    before = editor.diagnostics(uri)
    where = position(text, "add.u32 %r6, %r6, 2000;")
    editor.edit(uri, types.Range(where, where), "x")
    after = editor.diagnostics(uri)
    assert [each.range.start.line for each in after if each not in before] == [where.line]
