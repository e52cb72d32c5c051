"""Operands that threads load in halves of words and pack, before they multiply or store them."""

from __future__ import annotations

import pytest

from . import tensor_kernels, warpgroup_kernels, word_kernels
from .part_kernels import ADDRESSES, load, with_b
from .warp_kernels import LOAD_B, STEP_OF_B, TEXT, launch
from .word_kernels import LOADED_TEXT

PACK = "mov.b32 %r24, {%h0, %h1};\n    mov.b32 %r25, {%h2, %h3};"


def in_halves(space: str, pack: str = PACK) -> str:
    """B is loaded in halves."""
    return with_b(
        space,
        load(space, "v2.b16", "{%h0, %h1}", 0),
        load(space, "b16", "%h2", 4),
        load(space, "u16", "%h3", 6),
        pack,
    )


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
@pytest.mark.parametrize("space", ADDRESSES)
def test_loads_in_halves(space: str, backend: str) -> None:
    result, right = launch(in_halves(space), backend=backend, check="operands")
    assert right
    assert result.diagnostics == ()


MISTAKES = {
    #                          the right text, the wrong text, the code, what the fix says
    "halves":                  (PACK, PACK.replace("%h0, %h1", "%h1, %h0").replace("%h2, %h3", "%h3, %h2"), "O104",
                                "load both so that each k of A is the k of B"),
    "one word":                (PACK, PACK.replace("%h2, %h3", "%h3, %h2"), "O104", "load both so that each k of A is the k of B"),
    "words":                   (PACK, PACK.replace("%r24", "%r3").replace("%r25", "%r24").replace("%r3", "%r25"), "O104",
                                "give the registers of B in the order 1, 0"),
    "halves of two words":     (PACK, PACK.replace("%h1", "%h4").replace("%h2", "%h1").replace("%h4", "%h2"), "O104",
                                "load both so that each k of A is the k of B"),
    "K step":                  (STEP_OF_B, "add.u32 %r12, %r12, 1;", "O105", "16 elements of k from instruction to instruction"),
}  # fmt: skip


@pytest.mark.parametrize("space", ADDRESSES)
@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str, space: str) -> None:
    right_text, wrong, code, fix = MISTAKES[name]
    text = in_halves(space)
    assert right_text in text
    result, right = launch(text.replace(right_text, wrong), check="operands")
    assert not right
    assert {found.code for found in result.diagnostics} == {code}
    assert any(fix in found.fix for found in result.diagnostics)


def test_the_message_names_elements() -> None:
    result, _ = launch(in_halves("global", MISTAKES["halves"][1]), check="operands")
    (found,) = result.diagnostics
    assert found.message == "A and B are multiplied with different k: A[0, 0] is a[0, 0], but B[0, 0] is b[0, 1]"
    assert [key for key, _ in found.details].count("loaded by") == 1


def test_packed_again() -> None:
    """Halves of loaded words are exchanged between registers, and back."""
    for back, code in (("mov.b32 %r24, {%h4, %h6};\n    mov.b32 %r25, {%h5, %h7};", ""), ("", "O104")):
        again = "mov.b32 {%h4, %h5}, %r24;\n    mov.b32 {%h6, %h7}, %r25;\n    mov.b32 %r24, {%h4, %h6};\n    mov.b32 %r25, {%h5, %h7};"
        more = back and "mov.b32 {%h4, %h5}, %r24;\n    mov.b32 {%h6, %h7}, %r25;\n    " + back
        text = TEXT.replace(".reg .f32 %f<4>;", ".reg .f32 %f<4>; .reg .b16 %h<8>;").replace(LOAD_B, f"{LOAD_B}\n    {again}\n    {more}")
        result, right = launch(text, check="operands")
        assert right is not bool(code)
        assert [found.code for found in result.diagnostics] == [code] * bool(code)


LOAD = "ld.global.v4.b32 {%r20, %r21, %r22, %r23}, [%rd1];"
IN_ORDER = "\n    ".join(f"mov.b32 %r{20 + i}, {{%h{2 * i}, %h{2 * i + 1}}};" for i in range(4))
EXCHANGED = "\n    ".join(f"mov.b32 %r{20 + i}, {{%h{2 * i + 1}, %h{2 * i}}};" for i in range(4))


def stored(pack: str) -> str:
    """Eight halves are loaded, packed and stored to shared memory."""
    loads = "\n    ".join(f"ld.global.v4.b16 {{{', '.join(f'%h{4 * i + j}' for j in range(4))}}}, [%rd1+{8 * i}];" for i in range(2))
    return LOADED_TEXT.replace(".reg .f32 %f<64>;", ".reg .f32 %f<64>; .reg .b16 %h<8>;").replace(LOAD, f"{loads}\n    {pack}")


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
def test_stores_of_packed_halves(backend: str) -> None:
    result, right = word_kernels.launch(stored(IN_ORDER), backend=backend, check="operands")
    assert right
    assert result.diagnostics == ()


@pytest.mark.parametrize("name", word_kernels.MISTAKES)
def test_mistakes_behind_stores_of_packed_halves(name: str) -> None:
    text, code, fix = word_kernels.mistaken(name, stored(IN_ORDER))
    result, right = word_kernels.launch(text, check="operands")
    assert not right
    assert code in {found.code for found in result.diagnostics}
    assert any(fix in found.fix for found in result.diagnostics if found.code == code)


def test_halves_that_are_exchanged_in_both_operands() -> None:
    """A and B are the same tile: the permutation of k is that of both."""
    result, right = word_kernels.launch(stored(EXCHANGED), check="operands")
    assert right
    assert result.diagnostics == ()


def test_an_a_in_tensor_memory() -> None:
    """What tcgen05.st stores has come there in halves, and through other blocks."""
    loads = tensor_kernels.LOADS.replace("%a0, %a1", "%r30, %r31")
    moves = "bra.uni NEXT;\nNEXT:\n    mov.b32 {%h0, %h1}, %r30;\n    mov.b32 %a0, {%h0, %h1};\n    mov.b32 %a1, %r31;"
    text = tensor_kernels.TEXT.replace(tensor_kernels.LOADS, f"{loads}\n    {moves}").replace(
        ".reg .f32 %f<64>;", ".reg .f32 %f<64>; .reg .b16 %h<8>;"
    )
    result, right = word_kernels.launch(text, check="operands")
    assert right
    assert result.diagnostics == ()
    for wrong in (text.replace("{%h0, %h1};", "{%h1, %h0};"), text.replace("%a0, {", "%a1, {").replace("%a1, %r31", "%a0, %r31")):
        result, right = word_kernels.launch(wrong, check="operands")
        assert not right
        assert {found.code for found in result.diagnostics} == {"O104"}


MOVED_A = ["mov.b32 %r20, %r26;", "mov.b32 %r21, %r27;", "mov.b32 %r22, %r28;", "mov.b32 %r23, %r29;"]


@pytest.mark.parametrize("policy", ["eager", "lazy"])
def test_an_a_in_registers_that_is_taken_later(policy: str) -> None:
    """wgmma takes what moves have copied."""
    load = warpgroup_kernels.LOAD_A.replace("{%r20, %r21, %r22, %r23}", "{%r26, %r27, %r28, %r29}")
    text = warpgroup_kernels.TEXT.replace(warpgroup_kernels.LOAD_A, "\n    ".join([load, *MOVED_A]))
    result, right = warpgroup_kernels.launch(text, policy=policy, check="operands")
    assert right
    assert result.diagnostics == ()
    exchanged = text.replace("%r20, %r26", "%r22, %r26").replace("%r22, %r28", "%r20, %r28")
    result, right = warpgroup_kernels.launch(exchanged, policy=policy, check="operands")
    assert not right
    assert {found.code for found in result.diagnostics} == {"O101"}
    assert any("give the registers of A in the order 2, 1, 0, 3" in found.fix for found in result.diagnostics)
