"""Random instructions of `grammar`, and edits of them: deterministic for a seed."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .grammar import FAMILIES, LISTS

__all__ = ["EDITS", "Instruction", "Syntax", "Writer", "syntaxes"]

_Values = Mapping[str, str | None]

_TOKEN = re.compile(r"\((?:(\w+)=)?([^()]+)\)|\{(?:(\w+)=)?([^{}]+)\}|<(\w+)>|\.?([^(){}<>]+)")
_REGISTERS = {"p": 8, "h": 8, "r": 300, "rd": 40, "rq": 8, "f": 300, "fd": 8, "u": 8, "s": 8, "ud": 8}
_CONSTANTS = ("0", "1", "2", "7", "8", "16", "31", "32", "64", "255", "0xff", "65535", "-1", "-5", "100000")
_SHAPE_WORDS = {"32x32b": 1, "16x64b": 1, "16x32bx2": 1, "16x128b": 2, "16x256b": 4}
_ADDRESSES = {
    "": ("[%rd1]", "[%rd2+8]", "[%rd7]", "[%rd3+-16]"),
    "global": ("[%rd1]", "[%rd4+16]", "[gvar]", "[%rd9]"),
    "shared": ("[%rd1]", "[smem]", "[smem+16]", "[%r1]", "[%r2+32]"),
    "cluster": ("[%rd1]", "[%r1]", "[%rd6+16]"),
    "mbar": ("[mbar]", "[%rd3]", "[%r3]", "[%r5+8]"),
    "const": ("[cvar]", "[%rd1]", "[%rd5+8]"),
}
_WRONG_OPERANDS = (
    "%p1", "!%p2", "%h1", "%r1", "%rd1", "%rq1", "%f1", "%fd1", "%u1", "%s1", "%ud1", "_", "{%r1,%r2}", "{%h1,%h2}", "{%f1,%f2,%f3,%f4}",
    "%r1|%p1", "[%rd1]", "[%r1]", "[smem]", "[gvar]", "[cvar]", "0", "1", "-1", "3", "17", "48", "300", "1000000", "4294967296",
    "0f3f800000", "0d3ff0000000000000", "1.5", "smem", "gvar", "%tid.x",
)  # fmt: skip


class Instruction(NamedTuple):
    """Guard (``@%p1`` or empty), opcode with its modifiers, operands."""

    guard: str
    words: tuple[str, ...]
    operands: tuple[str, ...]

    @property
    def text(self) -> str:
        """The instruction in one line."""
        label = "L1: " if "L1" in self.operands else ""
        opcode = ".".join(self.words)
        return f"{label}{self.guard + ' ' if self.guard else ''}{opcode} {', '.join(self.operands)}".rstrip() + ";"


class Syntax(NamedTuple):
    """One line of the grammar: groups and literal words, and the operands."""

    family: str
    weight: int
    groups: tuple[tuple[str, tuple[str, ...], bool], ...]
    """Name, choices, whether it may be missing; a literal is a choice of one, ``<name>`` a name without choices."""
    operands: tuple[str, ...]


def _choices(text: str) -> tuple[str, ...]:
    found: list[str] = []
    for part in text.split("|"):
        found += _choices(LISTS[part[1:]]) if part.startswith("$") else [part]
    return tuple(found)


def syntaxes() -> dict[str, list[Syntax]]:
    """The syntax lines of each family."""
    found: dict[str, list[Syntax]] = {}
    for family, lines in FAMILIES.items():
        for line in lines.strip().splitlines():
            opcode, _, operands = line.strip().partition(";")
            weight, star, rest = opcode.strip().partition("*")
            groups = []
            for at, m in enumerate(_TOKEN.finditer(rest if star else opcode.strip())):
                required, optional = m[2], m[4]
                name = m[1] or m[3] or f"#{at}"
                if required or optional:
                    groups.append((name, _choices(required or optional), bool(optional)))
                elif m[5]:
                    groups.append((m[5], (), False))
                else:
                    groups.append((name, (m[6].strip("."),), False))
            kinds = tuple(o.strip() for o in operands.split(",") if o.strip())
            found.setdefault(family, []).append(Syntax(family, int(weight) if star else 1, tuple(groups), kinds))
    return found


def _bits(type: str) -> int:
    if type == "pred":
        return 1
    m = re.fullmatch(r"[a-z]+(\d+)(?:x(\d))?", type)
    if m is None:
        return 32
    return int(m[1]) * int(m[2] or 1)


class Writer:
    """Writes random instructions."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.syntaxes = syntaxes()
        self._vocabulary: dict[str, list[str]] = {}
        self._classes: list[tuple[str, ...]] = []
        for family in self.syntaxes.values():
            for syntax in family:
                base = syntax.groups[0][1][0].split(".")[0]
                known = self._vocabulary.setdefault(base, [])
                for _, choices, _ in syntax.groups:
                    known += [word for choice in choices for word in choice.split(".") if word not in known and word != base]
                    if len(choices) > 1 and choices not in self._classes:
                        self._classes.append(choices)
        self._every = sorted({word for words in self._vocabulary.values() for word in words})

    def instruction(self, family: str) -> Instruction:
        """A random instruction as one of the family's syntax lines has it."""
        r = self.random
        lines = self.syntaxes[family]
        syntax = r.choices(lines, [line.weight for line in lines])[0]
        values: dict[str, str | None] = {}
        words: list[str] = []
        for name, choices, optional in syntax.groups:
            if not choices:
                chosen = values[name]
            elif optional:
                chosen = values[name] = r.choice(choices) if r.random() < 0.35 else None
            else:
                chosen = values[name] = r.choice(choices)
            if chosen:
                words += chosen.split(".")
        operands = [text for kind in syntax.operands if (text := self._operand(kind, values, words)) is not None]
        guard = r.choice(("@%p1", "@!%p3")) if r.random() < 0.04 else ""
        return Instruction(guard, tuple(words), tuple(operands))

    def _operand(self, kind: str, values: _Values, words: Sequence[str]) -> str | None:
        r = self.random
        if kind.startswith("~"):
            return None if r.random() < 0.6 else self._operand(kind[1:], values, words)
        group, condition, rest = kind.partition("?")
        if condition:
            return self._operand(rest, values, words) if values[group] else None
        if "/" in kind:
            return "|".join(str(self._operand(part, values, words)) for part in kind.split("/"))
        letter, _, type = kind.partition(":")
        match letter:
            case "d" | "r" | "s":
                return self._typed(letter, type, values)
            case "m":
                return self._address(type, values)
            case "i":
                limits = re.fullmatch(r"(\d+)-(\d+)", type)
                return str(r.randint(int(limits[1]), int(limits[2]))) if limits else r.choice(type.split("|"))
            case "p":
                return r.choice(("%p1", "%p2", "%p4", "!%p3"))
            case "dp":
                return f"%p{r.randrange(5, 8)}"
            case "tm":
                count = 5 if values.get("k") else int(str(values["dim"])[0])
                coordinates = ", ".join(r.choice(("%r1", "%r2", "%s3", "%r4", "0")) for _ in range(count))
                return f"[{r.choice(('%rd1', '%rd8'))}, {{{coordinates}}}]"
            case "offsets":
                return self._vector("h", int(str(values["dim"])[0]) - 2)
            case "tmem":
                return f"[%r{r.randrange(290, 300)}]"
            case "label":
                return "L1"
        return kind.removeprefix("=")

    def _typed(self, letter: str, type: str, values: _Values) -> str:
        r = self.random
        if type == "n":
            registers = int(str(values["shape"]).split("n")[1].split("k")[0]) // (4 if values["d"] == "f16" else 2)
            return self._vector("f" if values["d"] == "f32" else "r", registers)
        if type == "t":
            return self._vector("r", int(str(values["num"])[1:]) * _SHAPE_WORDS[str(values["shape"])])
        if type == "id":
            return self._vector("h", 2)
        double = type.endswith("*2")
        count = 0
        for part in type.removesuffix("*2").split("."):
            name, star, _ = part.partition("*")
            value = str(values.get(name[1:-1]) or "") if name.startswith("<") else name
            if re.fullmatch(r"[vx]\d+", value):
                count = int(value[1:]) * (2 if star else 1)
            elif value:
                type = value
        if double:
            type = f"{type[0]}{_bits(type) * 2}"
        if type == "size":
            return r.choice(("%r1", "%u2", "16", "64", "128", "1024"))
        stem = self._stem(type)
        if count:
            return self._vector(stem, count)
        if letter == "s" and r.random() < 0.15:
            return self._constant(type)
        low, high = (0, 4) if letter == "d" else (4, 8)
        return f"%{stem}{r.randrange(low, high)}" if _REGISTERS[stem] == 8 else f"%{stem}{r.randrange(40)}"

    def _stem(self, type: str) -> str:
        bits = _bits(type)
        if type in ("f32", "f64"):
            return {"f32": "f", "f64": "fd"}[type]
        if type in ("u32", "s32", "u64") and self.random.random() < 0.25:
            return {"u32": "u", "s32": "s", "u64": "ud"}[type]
        return {1: "p", 32: "r", 64: "rd", 128: "rq"}.get(bits, "h")

    def _vector(self, stem: str, count: int) -> str:
        size = _REGISTERS[stem]
        start = self.random.randrange(max(1, min(size - count + 1, 100)))
        return "{" + ", ".join(f"%{stem}{(start + i) % size}" for i in range(count)) + "}"

    def _constant(self, type: str) -> str:
        if type == "f32":
            return self.random.choice(("0f3f800000", "1.0", "0f00000000", "2"))
        if type == "f64":
            return self.random.choice(("0d3ff0000000000000", "1.5"))
        return self.random.choice(_CONSTANTS)

    def _address(self, space: str, values: _Values) -> str:
        if space.startswith("<"):
            space = values.get(space[1:-1]) or ""
        known = {"shared::cta": "shared", "shared::cluster": "shared"}.get(space, space)
        return self.random.choice(_ADDRESSES.get(known, _ADDRESSES[""]))

    # edits

    def edited(self, instruction: Instruction) -> tuple[str, Instruction] | None:
        """The instruction with one random edit, and the edit's name; None where it changes nothing or cannot be made."""
        edit = self.random.choice(EDITS)
        made = getattr(self, "_" + edit.replace(" ", "_"))(instruction)
        return (edit, made) if made is not None and made.text != instruction.text else None

    def _replaced_modifier(self, given: Instruction) -> Instruction | None:
        if len(given.words) < 2:
            return None
        at = self.random.randrange(1, len(given.words))
        classes = [c for c in self._classes if given.words[at] in c]
        if classes:
            word = self.random.choice(self.random.choice(classes))
        else:
            word = self.random.choice(self._vocabulary.get(given.words[0]) or self._every)
        return given._replace(words=(*given.words[:at], *word.split(".")[:1], *given.words[at + 1 :]))

    def _dropped_modifier(self, given: Instruction) -> Instruction | None:
        if len(given.words) < 2:
            return None
        at = self.random.randrange(1, len(given.words))
        return given._replace(words=(*given.words[:at], *given.words[at + 1 :]))

    def _added_modifier(self, given: Instruction) -> Instruction:
        at = self.random.randint(1, len(given.words))
        known = self._vocabulary.get(given.words[0]) or self._every
        word = self.random.choice(known if self.random.random() < 0.7 else self._every)
        return given._replace(words=(*given.words[:at], word, *given.words[at:]))

    def _repeated_modifier(self, given: Instruction) -> Instruction | None:
        if len(given.words) < 2:
            return None
        at = self.random.randrange(1, len(given.words))
        return given._replace(words=(*given.words[: at + 1], *given.words[at:]))

    def _moved_modifier(self, given: Instruction) -> Instruction | None:
        if len(given.words) < 3:
            return None
        at = self.random.randrange(1, len(given.words))
        rest = [*given.words[:at], *given.words[at + 1 :]]
        rest.insert(self.random.randint(1, len(rest)), given.words[at])
        return given._replace(words=tuple(rest))

    def _other_operand(self, given: Instruction) -> Instruction | None:
        if not given.operands:
            return None
        at = self.random.randrange(len(given.operands))
        return given._replace(operands=(*given.operands[:at], self.random.choice(_WRONG_OPERANDS), *given.operands[at + 1 :]))

    def _other_register(self, given: Instruction) -> Instruction | None:
        """A register of another class, alone or in a vector or address."""
        places = [(i, m) for i, o in enumerate(given.operands) for m in re.finditer(r"%([a-z]+)(\d+)", o)]
        if not places:
            return None
        at, m = self.random.choice(places)
        text = given.operands[at]
        stem = self.random.choice([stem for stem in _REGISTERS if stem != m[1]])
        text = f"{text[: m.start()]}%{stem}{int(m[2]) % _REGISTERS[stem]}{text[m.end() :]}"
        return given._replace(operands=(*given.operands[:at], text, *given.operands[at + 1 :]))

    def _other_constant(self, given: Instruction) -> Instruction | None:
        places = [i for i, o in enumerate(given.operands) if re.fullmatch(r"-?\d+", o)]
        if not places:
            return None
        at = self.random.choice(places)
        text = self.random.choice(("-1", "0", "1", "2", "3", "5", "12", "15", "16", "20", "33", "48", "96", "128", "256", "1024", "65536"))
        return given._replace(operands=(*given.operands[:at], text, *given.operands[at + 1 :]))

    def _dropped_operand(self, given: Instruction) -> Instruction | None:
        if not given.operands:
            return None
        at = self.random.randrange(len(given.operands))
        return given._replace(operands=(*given.operands[:at], *given.operands[at + 1 :]))

    def _added_operand(self, given: Instruction) -> Instruction:
        at = self.random.randint(0, len(given.operands))
        same = given.operands and self.random.random() < 0.5
        text = self.random.choice(given.operands if same else _WRONG_OPERANDS)
        return given._replace(operands=(*given.operands[:at], text, *given.operands[at:]))


EDITS = (
    "replaced modifier", "replaced modifier", "replaced modifier", "dropped modifier", "dropped modifier", "added modifier",
    "added modifier", "repeated modifier", "moved modifier", "other operand", "other operand", "other register", "other register",
    "other constant", "dropped operand", "added operand",
)  # fmt: skip
