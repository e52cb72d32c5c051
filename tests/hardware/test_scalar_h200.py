"""Scalar instructions against an H200: every recorded form, 512 cases each; the recorder is ``record_scalar.py``."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ptxlab
from ptxlab.isa import CATALOGUE, load_all
from ptxlab.isa.catalogue import match

from .scalar_forms import Form, forms, module, spellings
from .scalar_inputs import CASES, WIDTH

SHOWS = {
    "test_family": (
        "abs*", "add.(*", "add.c*", "add.sat.s*", "addc*", "add{.rnd=rn|rz|rm|rp}.*", "add{.rnd=rn|rz|rm|rp}{.ftz}{*", "add{.rnd=rn}.*",
        "add{.rnd=rn}{.f*", "add{.s*", "and*", "bfe*", "bfi*", "bmsk*", "brev*", "clmad*", "clz*", "cnot*", "copysign*", "cos*",
        "cvt.(rnd=rni*", "cvt.(rnd=rna*", "cvt.(rnd=rn|rz|rm|rp)*", "cvt.(rnd=rn|rz){*", "cvt.(t*", "cvt.p*",
        "cvt.rn.satfinite{.relu}.(to=e4m3x2|e5m2x2).(source=f*",
        "cvt.rn.satfinite{.relu}.(to=e4m3x2|e5m2x2).f*", "cvt.rn{.relu}.(to=f16x2).(source=e4*", "cvt.s*", "cvt{*", "div*", "dp2a*",
        "dp4a*", "ex2*", "fma.(rnd=rn|rz|rm|rp).*", "fma.(rnd=rn|rz|rm|rp){.ftz}{*", "fma.r*", "fns*", "lg2*", "lop3*", "mad*", "max.*",
        "max{.NaN}*", "max{.ftz}{.NaN}.*", "max{.relu}*", "min.*", "min{.NaN}*", "min{.ftz}{.NaN}.*", "min{.relu}*", "mul.*", "mul24*",
        "mul{.rnd=rn|rz|rm|rp}.*", "mul{.rnd=rn|rz|rm|rp}{.ftz}{*", "mul{.rnd=rn}.*", "mul{.rnd=rn}{.f*", "neg.(type=b*", "neg.(type=s1*",
        "neg.f*", "neg{*", "not*", "or.*", "popc*", "prmt*", "rcp*", "rem*", "rsqrt*", "sad*", "selp*", "set.(op=eq|ne)*",
        "set.(op=eq|ne|lt|le|gt|ge).(b*", "set.(op=eq|ne|lt|le|gt|ge).(to*", "set.(op=eq|ne|lt|le|gt|ge|e*",
        "set.(op=eq|ne|lt|le|gt|ge|lo|ls|hi|hs).(b*", "set.(op=eq|ne|lt|le|gt|ge|lo|ls|hi|hs).(to*", "setp*", "shf.*", "shl*", "shr*",
        "sin*", "slct*", "sqrt*", "sub.*", "subc*", "sub{.rnd=rn|rz|rm|rp}.*", "sub{.rnd=rn|rz|rm|rp}{.ftz}{*", "sub{.rnd=rn}.*",
        "sub{.rnd=rn}{.f*", "szext*", "tanh*", "testp*", "xor*",
    ),
}  # fmt: skip

RECORD = Path(__file__).with_name("scalar_h200.npz")
TOGETHER = 128
"""Forms that one test replays, at most."""


@cache
def record() -> dict[str, NDArray[Any]]:
    with np.load(RECORD) as data:
        return {name: data[name] for name in data.files}


@cache
def recorded() -> list[tuple[Form, NDArray[Any]]]:
    """Each recorded form with its raw result words."""
    known = {form.opcode + form.tail: form for form in forms()}
    found, at = [], 0
    for name in record()["opcodes"]:
        form = known[str(name)]
        size = WIDTH[form.result] // 8
        found.append((form, record()["results"][at : at + size * CASES].view(f"u{size}")))
        at += size * CASES
    return found


def replay(form: Form) -> NDArray[Any]:
    """The same entry in ptxlab."""
    result = np.zeros(CASES, f"u{WIDTH[form.result] // 8}")
    arguments = [record()[f"in_{kind}_{i}"] for i, kind in enumerate(form.sources)]
    launched = ptxlab.loads(module([(0, form)])).kernel().launch(grid=1, block=CASES, args=[*arguments, result], check="none")
    assert launched.ok, [str(d) for d in launched.diagnostics]
    return result


def floats(words: NDArray[Any], kind: str) -> NDArray[np.float64]:
    if kind.endswith("x2"):
        words, kind = words.view(np.uint16), kind[:-2]
    if kind == "bf16":
        return (words.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return words.view({"f16": np.float16, "f32": np.float32, "f64": np.float64}[kind]).astype(np.float64)


@cache
def families() -> dict[str, list[tuple[Form, NDArray[Any]]]]:
    """The record by the first part of the opcode; large families in parts."""
    found: dict[str, list[tuple[Form, NDArray[Any]]]] = {}
    for form, words in recorded():
        found.setdefault(form.opcode.split(".")[0], []).append((form, words))
    parts = {name: range(0, len(listed), TOGETHER) for name, listed in found.items()}
    return {f"{name}-{n}": found[name][at : at + TOGETHER] for name, starts in parts.items() for n, at in enumerate(starts)}


@pytest.mark.parametrize("family", families())
def test_family(family: str) -> None:
    wrong = []
    for form, want in families()[family]:
        got = replay(form)
        bad = np.flatnonzero(got != want)
        if bad.size:
            case = int(bad[0])
            operands = ", ".join(f"{int(record()[f'in_{k}_{i}'][case]):#x}" for i, k in enumerate(form.sources))
            wrong.append(f"{form.opcode}{form.tail}({operands}) = {int(got[case]):#x}, silicon {int(want[case]):#x}; {bad.size} cases")
    assert not wrong, "\n".join(wrong)


def instructions(form: Form) -> list[str]:
    """The opcodes of a form's code."""
    parts = [part.split() for part in form.code.split(";") if part.strip()]
    return [words[1] if words[0].startswith("@") else words[0] for words in parts] or [form.opcode]


def test_what_is_shown_is_in_the_forms() -> None:
    """Every spelling of the rows that claim it, and some of the others."""
    load_all()
    seen = {(row.pattern, str(q)) for form in forms() for opcode in instructions(form) for row, q in match(opcode)}
    shown = [row for rows in CATALOGUE.values() for row in rows if any(fnmatchcase(row.pattern, g) for g in SHOWS["test_family"])]
    missing = [opcode for row in shown if row.fidelity == "hardware" for opcode, q in spellings(row) if (row.pattern, str(q)) not in seen]
    assert missing == []
    assert {row.pattern for row in shown} - {pattern for pattern, _ in seen} == set()


def test_every_form_is_recorded() -> None:
    names = [form.opcode + form.tail for form in forms()]
    assert record()["opcodes"].tolist() == names
