"""Random instructions near the declared forms: most follow them, some break a rule."""

from __future__ import annotations

import random

from ptxlab.isa import load_all
from ptxlab.isa.form import FORMS, Form
from ptxlab.isa.kinds import Address, Immediate, Kind, Predicate, Register, Sink, TensorAddress, Vector

load_all()

TENSOR_CORE = [name for name in FORMS if name.split(".")[0] in ("tcgen05", "wgmma")]
AROUND = [name for name in FORMS if name not in TENSOR_CORE]
"""The forms of mbarriers, bulk copies, fences and tensor maps."""

TARGETS = ["sm_90a", "sm_100a", "sm_100a", "sm_100f", "sm_103a", "sm_103f", "sm_107a", "sm_107f", "sm_110a", "sm_110f", "sm_120a", "sm_100"]
AROUND_TARGETS = [
    "sm_75", "sm_80", "sm_89", "sm_90", "sm_90a", "sm_90a", "sm_100", "sm_100a", "sm_100a", "sm_100f", "sm_103a", "sm_107a", "sm_107a",
    "sm_107f", "sm_110a", "sm_110f", "sm_120", "sm_120a", "sm_120f", "sm_121a",
]  # fmt: skip
AROUND_VERSIONS = ["8.3", "8.5", "8.6", "8.8", "9.0", "9.2", "9.3", "9.4", "9.5", "9.5", "9.5", "9.5"]
VERSIONS = ["8.6", "8.7", "8.8", "9.0", "9.4", "9.5", "9.5"]
JUNK_MODIFIERS = (
    "acc::f32",
    "rank",
    "foo",
    "global",
    "x4",
    "relaxed",
    "sync",
    "aligned",
    "b32",
    "ws",
    "sp",
    "row",
    "col",
    "exclusive",
    "b8x16",
    "rn",
    "cta",
    "shared::cta",
    "noftz",
    "L2::cache_hint",
    "async",
)
JUNK_REGISTERS = ("%p1", "!%p1", "%h1", "%r1", "%rd1", "%f1", "%fd1", "%u1", "%s1", "%ud1", "%r1+4", "{%r1}", "{%r1,%r2,%r3,%r4}")
JUNK_OPERANDS = (*JUNK_REGISTERS, "5", "-1", "0", "1", "64", "96", "2", "16", "[%r1]", "[%rd1]", "[smem]", "[gvar]", "[%r1+4]", "[%u1]")
JUNK_ADDRESSES = ("[%h1]", "[cvar]", "[16]", "[smem]", "[gvar]", "[%r1]", "[%rd1+8]", "[%f1]", "[%ud1]")
REGISTERS = {"b32": "%r250", "u32": "%u1", "s32": "%s1", "f32": "%f1", "b64": "%rd3", "u64": "%ud1", "f64": "%fd1", "b16": "%h1"}
LETTERS = {"f32": "f", "b16": "h"}


class Generator:
    def __init__(self, seed: int, names: list[str] = TENSOR_CORE) -> None:
        self.random = random.Random(seed)
        self.around = names is not TENSOR_CORE
        # The matrix products and the copies have the most rules.
        often = ("mma", "cp.async.bulk.tensor", "cp.async.bulk", "cp.reduce")
        self.forms = [FORMS[name] for name in names for _ in range(4 if any(word in name for word in often) else 1)]

    def instruction(self) -> tuple[str, str, str]:
        """An instruction, a target, a version."""
        r = self.random
        form = r.choice(r.choice(self.forms))
        values = self._values(form)
        modifiers = [str(values[slot.name]) for slot in form.slots if values[slot.name]]
        if r.random() < 0.15:
            r.shuffle(modifiers)
        if r.random() < 0.04:
            modifiers.insert(r.randrange(len(modifiers) + 1), r.choice(JUNK_MODIFIERS))
        lines = [o for o in form.operands if all(values.get(g) in allowed for g, allowed in o.when.items())]
        if not lines or r.random() < 0.03:
            lines = list(form.operands)
        names = r.choice(r.choice(lines).variants(values) or [()])
        operands = [r.choice(JUNK_OPERANDS) if r.random() < 0.02 else self._named(name, form, values) for name in names]
        if operands and r.random() < 0.02:
            operands.pop(r.randrange(len(operands)))
        target = "sm_90a" if form.name.startswith("wgmma") and r.random() < 0.7 else r.choice(AROUND_TARGETS if self.around else TARGETS)
        version = r.choice(AROUND_VERSIONS if self.around else VERSIONS)
        if self.around and r.random() < 0.4:
            target, version = r.choice(("sm_100a", "sm_107a")), "9.5"
        return (".".join((form.name, *modifiers)) + " " + ", ".join(operands)).rstrip() + ";", target, version

    def _values(self, form: Form) -> dict[str, str | None]:
        r = self.random
        values: dict[str, str | None] = {}
        for slot in form.slots:
            absent = r.random() < (0.6 if slot.optional else 0.02)
            choices = slot.choices
            if slot.count > 1:
                rule = next((rule for rule in form.rules if rule.group == slot.name and rule.values != (None,)), None)
                choices = tuple(v for v in (rule.values if rule else ()) if v)
            values[slot.name] = None if absent else r.choice(choices)
        if r.random() < 0.85:
            for _ in range(3):
                for rule in form.rules:
                    held = all(values.get(g) in allowed for g, allowed in rule.when.items())
                    if held and rule.group in values and values[rule.group] not in rule.values:
                        values[rule.group] = r.choice(rule.values)
        return values

    def _named(self, name: str, form: Form, values: dict[str, str | None]) -> str:
        """An operand; each part of a bracketed one and of a pair."""
        if "," in name:
            first, *rest = (self._operand(form.kinds[part], values) for part in name[1:-1].split(","))
            return f"[{first.strip('[]')}, {', '.join(rest)}]"
        return "|".join(self._operand(form.kinds[part], values) for part in name.split("|"))

    def _operand(self, kind: Kind, values: dict[str, str | None]) -> str:
        r = self.random
        match kind:
            case Vector():
                known = all(values.get(group, "") is not None for group in ("shape", "num", "types", "dim"))
                length = (kind.length(values) if known else None) or r.choice((1, 2, 4))
                if r.random() < 0.05:
                    length = r.choice((1, 2, 3, 4, 8))
                types = kind.types(values) if known else ("b32",)
                letter = LETTERS.get(r.choice(types), "r")
                start = r.randrange(2 if letter == "h" else 40)
                if self.around and r.random() < 0.1:
                    return "{" + ",".join(r.choice(("%r1", "3", "-1", "%u1", "%f1")) for _ in range(length)) + "}"
                return "{" + ",".join(f"%{letter}{start + i}" for i in range(length)) + "}"
            case TensorAddress():
                return r.choice(("[%r1]", "[%r290]", "[%r1+8]"))
            case Address():
                if not self.around:
                    return r.choice(("[%r1]", "[%rd1]", "[mbar]", "[sdst]", "[smem+8]"))
                if r.random() < 0.08:
                    return r.choice(JUNK_ADDRESSES)
                return r.choice(("[%rd1]", "[gvar]" if "global" in kind.spaces else "[mbar]", "[%r1]", "[%rd2]"))
            case Register():
                if kind.sink and r.random() < 0.2:
                    return "_"
                known = [REGISTERS[t] for t in kind.types if t in REGISTERS]
                return r.choice((known[0],) * 3 + (r.choice(known) if self.around else "64", r.choice(("3", "64", "0", "17", "1048576"))))
            case Sink():
                return r.choice(("_",) * 9 + ("%rd1",))
            case Immediate():
                return r.choice(("0", "1", "1", "0", "1", "-1", "15", "16", "2", *(("128",) * 6 + ("4", "13") if self.around else ())))
            case Predicate():
                if kind.written:
                    return r.choice(("%p1",) * 8 + ("_", "!%p1"))
                return r.choice(("%p1", "%p1", "1", "!%p2"))
