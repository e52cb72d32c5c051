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

RELATIVE = {"ex2": 2.0**-21, "rcp": 2.0**-22, "rsqrt": 2.0**-22, "sqrt": 2.0**-22, "div": 2.0**-21, "tanh": 2.0**-10, "lg2": 2.0**-21}
"""Approximate instructions: the silicon and the model may each be off by what the ISA allows; here twice that, relative."""
ABSOLUTE = {"lg2": 2.0**-21, "tanh": 2.0**-10}
ANGLES = ((2 * np.pi, 2.0**-20), (100 * np.pi, 2.0**-14))
"""sin and cos: the ISA bounds the absolute error up to 2 pi, and more loosely up to 100 pi; beyond it promises nothing."""


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


def differences(form: Form, got: NDArray[Any], want: NDArray[Any]) -> NDArray[np.bool_]:
    family = form.opcode.split(".")[0]
    if "approx" not in form.opcode and ".full" not in form.opcode:
        return got != want
    a, b = floats(got, form.result), floats(want, form.result)
    doubles = 2.0**-20 if ".ftz" in form.opcode else 2.0**-52
    scale = {"f64": doubles, "f16": 2.0**-9, "bf16": 2.0**-7}.get(form.result.removesuffix("x2"), RELATIVE.get(family, 0.0))
    tiny = {"f16": 2.0**-23, "bf16": 2.0**-125}.get(form.result.removesuffix("x2"), 2.0**-125)
    with np.errstate(all="ignore"):
        near = np.abs(a - b) <= np.maximum(scale * np.abs(b), ABSOLUTE.get(family, 0.0) + tiny)
        if family in ("sin", "cos"):
            angle = np.abs(floats(record()["in_f32_0"], "f32"))
            near = (angle > ANGLES[-1][0]) & (np.abs(a) <= 1)
            for limit, error in ANGLES:
                near |= (angle <= limit) & (np.abs(a - b) <= error)
    return ~(near | (a == b) | (np.isnan(a) & np.isnan(b)))


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
        bad = np.flatnonzero(differences(form, got, want).reshape(CASES, -1).any(axis=1))
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
