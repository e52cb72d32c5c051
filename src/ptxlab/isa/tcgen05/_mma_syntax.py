"""The syntax of tcgen05.mma, .mma.sp, .mma.ws and .mma.ws.sp: section "TensorCore 5th Generation Instructions: tcgen05.mma"."""

from __future__ import annotations

from collections.abc import Mapping

from ptxlab.isa.form import Form, Rule, form
from ptxlab.isa.kinds import LONGS, WORDS, Immediate, Kind, Predicate, Register, TensorAddress, Vector
from ptxlab.isa.requirements import Needs, needs
from ptxlab.isa.targets import ARCHITECTURE_SPECIFIC, SCALE_INPUT, SM_107, TCGEN05
from ptxlab.isa.tcgen05._syntax import GROUPS
from ptxlab.tables import BLOCK_SCALED_KINDS

__all__ = ["mma_form"]

_SCALED = tuple(f"kind::{kind}" for kind in sorted(BLOCK_SCALED_KINDS))
_FLOATS = ("kind::f16", "kind::tf32", "kind::f8f6f4")
_SIZES = "scale_vec::1X|scale_vec::2X|scale_vec::4X|block16|block32"
_SCALE_SECTION = "Valid combinations of scale_vectorsize with types and MMA-Kind"
_OPERATIONS = ("fill", "use", "lastuse", "discard")
_A_USAGE = "|".join(f"collector::a::{op}" for op in _OPERATIONS)
_B_USAGE = "|".join(f"collector::b::{op}" for op in _OPERATIONS)
_WS_USAGE = "|".join(f"collector::b{n}::{op}" for n in range(4) for op in _OPERATIONS)
_PLAIN_KINDS = "|".join((*_FLOATS, "kind::i8"))

_TMEM = TensorAddress(("b32",))
_DESC = Register(LONGS, "a shared memory descriptor in a 64-bit register", True, True)
_OPERANDS: Mapping[str, Kind] = {
    "[d-tmem]": _TMEM,
    "[a-tmem]": _TMEM,
    "a-desc": _DESC,
    "b-desc": _DESC,
    "[sp-meta-tmem]": _TMEM,
    "[scale-A-tmem]": _TMEM,
    "[scale-B-tmem]": _TMEM,
    "idesc": Register(WORDS, "the instruction descriptor in a 32-bit register", True),
    "disable-output-lane": Vector(lambda values: 8 if values["cta_group"] == "cta_group::2" else 4, False, constants=True),
    "enable-input-d": Predicate(immediate=lambda value: True),
    "scale-input-d": Immediate("scale-input-d, an integer constant from 0 to 15", lambda value: value % (1 << 32) <= 15),
    "zero-column-mask-desc": Register(LONGS, "the zero-column mask descriptor in a 64-bit register", True, True),
    "extra": Predicate("an operand without meaning: a predicate or an integer constant", lambda value: True),
    "predicate": Predicate(),
    "number": Immediate("an integer constant"),
}


_Line = tuple[str, dict[str, tuple[str, ...]], dict[str, str], str]


def _lines(sparse: bool, ws: bool) -> tuple[_Line, ...]:
    metadata = " [sp-meta-tmem]" if sparse else ""
    found: list[_Line] = []
    for a, place in (("a-desc", "shared"), ("[a-tmem]", "tensor")):
        head = f"[d-tmem] {a} b-desc{metadata} idesc"
        gives = {"A": place}
        if ws:
            found.append((f"{head} enable-input-d zero-column-mask-desc?", {}, gives, ""))
            continue
        mask = f"{head} disable-output-lane? enable-input-d"
        found.append((mask, {"kind": ("kind::f8f6f4", "kind::i8")}, gives, ""))
        found.append((f"{mask} scale-input-d?", {"kind": ("kind::f16", "kind::tf32")}, gives, ""))
        found.append((f"{head} [scale-A-tmem] [scale-B-tmem] enable-input-d", {"kind": _SCALED}, gives, ""))
        surplus = "kind::i8 takes no operand after enable-input-d; the assembler lets it pass"
        tails = [f"{head} enable-input-d number", f"{head} predicate extra"]
        if not sparse:
            tails += [f"{head} disable-output-lane enable-input-d number", f"{head} predicate extra number"]
        found += [(tail, {"kind": ("kind::i8",)}, gives, surplus) for tail in tails]
    return tuple(found)


def _rules(section: str) -> tuple[Rule, ...]:
    def scaled(kind: str, sizes: tuple[str | None, ...]) -> Rule:
        wanted = ", ".join(f".{s}" for s in sizes if s)
        return Rule({"kind": (f"kind::{kind}",)}, "scale_vectorsize", sizes, f".kind::{kind} takes {wanted}", _SCALE_SECTION)

    plain = (*_FLOATS, "kind::i8")
    return (
        Rule({"kind": _SCALED}, "block_scale", ("block_scale",), "this kind needs .block_scale", section),
        Rule({"kind": plain}, "block_scale", (None,), "this kind has no .block_scale", section),
        Rule({"kind": plain}, "scale_vectorsize", (None,), "a scale vector size needs .block_scale", section),
        scaled("mxf8f6f4", (None, "scale_vec::1X", "block32")),
        scaled("mxf4", (None, "scale_vec::2X", "block32")),
        scaled("mxf4nvf4", ("scale_vec::2X", "scale_vec::4X", "block16", "block32")),
        Rule({"ashift": ("ashift",)}, "A", ("tensor",), ".ashift needs matrix A in tensor memory", section),
        Rule({"ashift": ("ashift",)}, "kind", plain, ".ashift is not for block-scaled kinds", section),
        Rule(
            {"ashift": ("ashift",)},
            "collector",
            (None, "collector::a::lastuse", "collector::a::discard"),
            ".ashift does not go with .collector::a::use or .collector::a::fill",
            section,
        ),
    )


def _requires(sparse: bool, ws: bool) -> tuple[Needs, ...]:
    specific = ARCHITECTURE_SPECIFIC
    found = [
        needs("8.6", TCGEN05, what="tcgen05.mma"),
        needs(None, specific - {"sm_103a", "sm_107a"}, what=".kind::i8", when={"kind": ("kind::i8",)}),
    ]
    if not ws:
        sizes = tuple(_SIZES.split("|"))
        found += [
            needs("8.7", what=".kind::mxf4nvf4", when={"kind": ("kind::mxf4nvf4",)}),
            needs(None, specific, what=".scale_vec", when={"scale_vectorsize": sizes[:3]}),
            needs("8.8", what="the scale vector sizes .block16 and .block32", when={"scale_vectorsize": sizes[3:]}),
            needs(None, SCALE_INPUT, what="scale-input-d", when={"scale-input-d": ("given",)}),
            needs("9.4", SM_107, what=".collector::b", when={"collector_b": tuple(_B_USAGE.split("|"))}, specified=False),
        ]
        if sparse:
            found.append(
                needs(None, specific, what="sparse .kind::mxf4 and .kind::mxf4nvf4", when={"kind": ("kind::mxf4", "kind::mxf4nvf4")})
            )
    return tuple(found)


def mma_form(sparse: bool, ws: bool) -> Form:
    """The form of a dense or sparse tcgen05.mma; ``ws``: weight stationary."""
    name = "tcgen05.mma.ws" if ws else "tcgen05.mma"
    metadata = ".sp" if sparse else ""
    section = f"TensorCore 5th Generation Instructions: {name}{metadata}"
    if ws:
        modifiers = f"{metadata}.(cta_group=cta_group::1).(kind={_PLAIN_KINDS}){{.collector={_WS_USAGE}}}"
    else:
        modifiers = (
            f"{metadata}{GROUPS}.(kind={'|'.join((*_FLOATS, 'kind::i8', *_SCALED))})"
            f"{{.block_scale}}{{.scale_vectorsize={_SIZES}}}{{.ashift}}{{.collector={_A_USAGE}}}{{.collector_b={_B_USAGE}}}"
        )
    rules = () if ws else _rules(section)
    return form(name, modifiers, *_lines(sparse, ws), kinds=_OPERANDS, section=section, rules=rules, requires=_requires(sparse, ws))
