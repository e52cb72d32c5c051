"""Legality of tensor memory: allocation, loads and stores, copies, shifts, fences, commits."""

from __future__ import annotations

from collections.abc import Mapping

from ptxlab.isa.legality._form import LONGS, WORDS, Address, Form, Immediate, Kind, Register, Rule, TensorAddress, Vector, form
from ptxlab.isa.requirements import Condition, Values, needs
from ptxlab.isa.targets import ARCHITECTURE_SPECIFIC, TCGEN05
from ptxlab.tables import LOAD_REGISTERS

__all__ = ["IGNORED", "MAP_FIELDS", "TCGEN05_FORMS"]

_ALLOCATION = "Tensorcore 5th Generation Instructions: tcgen05.alloc, tcgen05.dealloc, tcgen05.relinquish_alloc_permit"
_LOAD = "Tensorcore 5th Generation Instructions: tcgen05.ld"
_STORE = "Tensorcore 5th Generation Instructions: tcgen05.st"
_COPY = "Tensorcore 5th Generation Instructions: tcgen05.cp"
_COMMIT = "TensorCore 5th Generation Instructions: tcgen05.commit"

_FORMATS = frozenset({"b8x16", "b6x16_p32", "b4x16_p64"})
MAP_FIELDS = frozenset(
    {"box_dim", "swizzle_mode", "rank", "element_stride", "elemtype", "fill_mode", "global_address", "global_dim", "global_stride"}
    | {"interleave_layout", "swizzle_atomicity"}
)
IGNORED = MAP_FIELDS | _FORMATS | {"acc::f32", "finite", "infinite", "normal", "number", "notanumber", "subnormal"}
"""Modifiers of other instructions that the assembler takes on any of these without a word."""
_ROWS = frozenset({"row", "col"})
_SYNC = frozenset({"sync"})

_SINCE = needs("8.6", TCGEN05, what="tcgen05")
_EXCLUSIVE = needs("9.4", what=".exclusive", when={"exclusive": ("exclusive",)}, specified=False)


def _columns(value: int) -> bool:
    return value in (32, 64, 128, 256, 512)


def _registers(values: Values) -> int | None:
    shape, num = values["shape"], values["num"]
    return LOAD_REGISTERS.get((str(shape), int(str(num)[1:])))


_COUNTS: Mapping[str, Kind] = {
    "nCols": Register(
        WORDS, "the number of columns: a 32-bit register or one of 32, 64, 128, 256, 512", True, True, integers=True, values=_columns
    ),
    "multiple": Register(
        WORDS,
        "the number of columns: a 32-bit register or a multiple of 32",
        True,
        True,
        integers=True,
        values=lambda value: value % 32 == 0 and value % (1 << 32) != 0,
    ),
}
_EXCLUSIVELY: tuple[Condition, Condition, str] = (
    {"exclusive": ("exclusive",)},
    {},
    "the numbers of columns are 32, 64, 128, 256, 512; with .exclusive the assembler takes every multiple of 32",
)
_TADDR = TensorAddress()
_SPLIT = Immediate("immHalfSplitoff, an integer constant")
_SHAPES = "16x64b|16x128b|16x256b|32x32b|16x32bx2"
_NUMS = "x1|x2|x4|x8|x16|x32|x64|x128"
_WHOLE = {"shape": ("16x64b", "16x128b", "16x256b", "32x32b")}
_HALVES = {"shape": ("16x32bx2",)}


def _num_rules(section: str) -> tuple[Rule, ...]:
    found = []
    for shape in _SHAPES.split("|"):
        nums = tuple(f"x{n}" for s, n in LOAD_REGISTERS if s == shape)
        if len(nums) < 8:
            found.append(Rule({"shape": (shape,)}, "num", nums, f".{shape} has .num up to .{nums[-1]}", section))
    return tuple(found)


def _cp_rules() -> tuple[Rule, ...]:
    pairs = {
        ("128x256b", "4x256b", "128x128b"): (None,),
        ("64x128b",): ("warpx2::02_13", "warpx2::01_23"),
        ("32x128b",): ("warpx4",),
    }
    rules = []
    for shapes, multicasts in pairs.items():
        wanted = " or ".join(f".{m}" for m in multicasts if m) or "no multicast"
        rules.append(Rule({"shape": shapes}, "multicast", multicasts, f"this shape takes {wanted}", _COPY))
    rules.append(Rule({"src_fmt": ("b6x16_p32", "b4x16_p64")}, "dst_fmt", ("b8x16",), "a source format needs .b8x16 before it", _COPY))
    rules.append(Rule({"dst_fmt": ("b8x16",)}, "src_fmt", ("b6x16_p32", "b4x16_p64"), ".b8x16 needs a source format after it", _COPY))
    return tuple(rules)


_RED_ONLY_FLOAT = "is only for .f32"

TCGEN05_FORMS: tuple[Form, ...] = (
    form(
        "tcgen05.alloc",
        ".(cta_group=cta_group::1|cta_group::2).sync.aligned{.space=shared::cta}{.exclusive}.b32",
        "dst nCols",
        ("dst multiple", *_EXCLUSIVELY),
        kinds={"dst": Address({"space": (None,)}), **_COUNTS},
        section=_ALLOCATION,
        requires=(_SINCE, _EXCLUSIVE),
        ignored=IGNORED,
        repeatable=_SYNC,
    ),
    form(
        "tcgen05.dealloc",
        ".(cta_group=cta_group::1|cta_group::2).sync.aligned{.exclusive}.b32",
        "taddr nCols",
        ("taddr multiple", *_EXCLUSIVELY),
        kinds={"taddr": Register(WORDS, "a tensor-memory address in a 32-bit register", True, True), **_COUNTS},
        section=_ALLOCATION,
        requires=(_SINCE, _EXCLUSIVE),
        ignored=IGNORED,
        repeatable=_SYNC,
    ),
    form(
        "tcgen05.relinquish_alloc_permit",
        ".(cta_group=cta_group::1|cta_group::2).sync.aligned",
        section=_ALLOCATION,
        requires=(_SINCE,),
        ignored=IGNORED,
        repeatable=_SYNC,
    ),
    form(
        "tcgen05.ld",
        f".sync.aligned.(shape={_SHAPES}).(num={_NUMS}){{.pack=pack::16b}}.b32",
        ("r [taddr]", _WHOLE),
        ("r [taddr] immHalfSplitoff", _HALVES),
        kinds={"r": Vector(_registers, True, distinct=True), "[taddr]": _TADDR, "immHalfSplitoff": _SPLIT},
        section=_LOAD,
        rules=_num_rules(_LOAD),
        requires=(_SINCE,),
        ignored=IGNORED | _ROWS,
        repeatable=_SYNC,
    ),
    form(
        "tcgen05.ld.red",
        f".sync.aligned.(shape=32x32b|16x32bx2).(num={_NUMS}).(redOp=min|max){{.abs}}{{.NaN}}.(type=u32|s32|f32)",
        ("r redval [taddr]", {"shape": ("32x32b",)}),
        ("r redval [taddr] immHalfSplitoff", _HALVES),
        kinds={
            "r": Vector(_registers, True, distinct=True),
            "redval": Register((*WORDS, "f32"), "a 32-bit register for the reduced value", braces=(*WORDS, "f32")),
            "[taddr]": _TADDR,
            "immHalfSplitoff": _SPLIT,
        },
        section=_LOAD,
        rules=(
            Rule({}, "num", tuple(_NUMS.split("|")[1:]), ".red needs at least .x2", _LOAD),
            Rule({"abs": ("abs",)}, "type", ("f32",), f".abs {_RED_ONLY_FLOAT}", _LOAD),
            Rule({"NaN": ("NaN",)}, "type", ("f32",), f".NaN {_RED_ONLY_FLOAT}", _LOAD),
        ),
        requires=(needs("8.8", TCGEN05 - {"sm_100a", "sm_100f"}, what=".red"),),
        ignored=IGNORED | _ROWS,
        repeatable=_SYNC | {"NaN"},
    ),
    form(
        "tcgen05.st",
        f".sync.aligned.(shape={_SHAPES}).(num={_NUMS}){{.unpack=unpack::16b}}.b32",
        ("[taddr] r", _WHOLE),
        ("[taddr] immHalfSplitoff r", _HALVES),
        kinds={"r": Vector(_registers, False, constants=True), "[taddr]": _TADDR, "immHalfSplitoff": _SPLIT},
        section=_STORE,
        rules=_num_rules(_STORE),
        requires=(_SINCE,),
        ignored=IGNORED | _ROWS,
        repeatable=_SYNC,
    ),
    *(
        form(
            f"tcgen05.wait::{operation}",
            ".sync.aligned",
            section="Tensorcore 5th Generation Instructions: tcgen05.wait",
            requires=(_SINCE,),
            ignored=IGNORED,
            repeatable=_SYNC,
        )
        for operation in ("ld", "st")
    ),
    *(
        form(
            f"tcgen05.fence::{side}_thread_sync",
            "",
            section="TensorCore 5th Generation Instructions: tcgen05.fence",
            requires=(_SINCE,),
            ignored=IGNORED,
        )
        for side in ("before", "after")
    ),
    form(
        "tcgen05.cp",
        ".(cta_group=cta_group::1|cta_group::2).(shape=128x256b|4x256b|128x128b|64x128b|32x128b)"
        "{.multicast=warpx2::02_13|warpx2::01_23|warpx4}{.dst_fmt=b8x16}{.src_fmt=b6x16_p32|b4x16_p64}",
        "[taddr] s-desc",
        kinds={
            "[taddr]": _TADDR,
            "s-desc": Register(LONGS, "a shared memory descriptor in a 64-bit register", True, True),
        },
        section=_COPY,
        rules=_cp_rules(),
        requires=(_SINCE,),
        ignored=(IGNORED | _ROWS) - _FORMATS,
    ),
    form(
        "tcgen05.shift",
        ".(cta_group=cta_group::1|cta_group::2).down",
        "[taddr]",
        kinds={"[taddr]": _TADDR},
        section="Tensorcore 5th Generation Instructions: tcgen05.shift",
        requires=(needs("8.6", ARCHITECTURE_SPECIFIC, what="tcgen05.shift"),),
        ignored=IGNORED,
    ),
    form(
        "tcgen05.commit",
        ".(cta_group=cta_group::1|cta_group::2).(completion_mechanism=mbarrier::arrive::one){.space=shared::cluster}"
        "{.multicast=multicast::cluster}.b64",
        ("[mbar]", {"multicast": (None,)}),
        ("[mbar] ctaMask", {"multicast": ("multicast::cluster",)}),
        kinds={
            "[mbar]": Address({"space": (None,)}),
            "ctaMask": Register(("b16", "u16", "s16"), "ctaMask in a 16-bit register", True, True, values=lambda v: 0 <= v <= 65535),
        },
        section=_COMMIT,
        requires=(_SINCE,),
        ignored=IGNORED | {"sync_restrict::shared::cta", "sync_restrict::shared::cluster"},
    ),
)
