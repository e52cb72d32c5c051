"""Cache control: prefetch, prefetchu, applypriority, discard, createpolicy."""

from __future__ import annotations

from ptxlab._arrays import distinct
from ptxlab.isa._vocabulary import Value, Vocabulary
from ptxlab.isa.catalogue import Qualifiers, native, pure, service
from ptxlab.isa.context import WarpContext
from ptxlab.isa.effects import Access, Space
from ptxlab.isa.kinds import Typed
from ptxlab.isa.memory._modifiers import WIDE_ADDRESS
from ptxlab.isa.native_ops import Nothing
from ptxlab.isa.operands import Op
from ptxlab.isa.operations import MemoryAccess
from ptxlab.isa.requirements import needs

_SECTION = "Data Movement and Conversion Instructions: "
_NEEDS = needs("7.4", "sm_80")
_LINE_BYTES = 128
_LINE = Typed("any", (_LINE_BYTES,), constant=True)


@native(
    "prefetch{.space=global|local}.(level=L1|L2)",
    "prefetch{.space=global}.(level=L2::evict_last|L2::evict_normal)",
    "prefetchu.L1",
    a=WIDE_ADDRESS,
    outputs=0,
    ordered=False,
    requires=needs("7.4", "sm_80", when={"level": "L2::evict_last|L2::evict_normal"}),
    section=_SECTION + "prefetch, prefetchu",
)
@native(
    "applypriority{.global}.L2::evict_normal",
    a=WIDE_ADDRESS,
    size=_LINE,
    outputs=0,
    ordered=False,
    requires=_NEEDS,
    section=_SECTION + "applypriority",
)
def prefetch(q: Qualifiers, op: Op) -> Nothing:
    return Nothing()


@service(
    "discard{.global}.L2",
    a=WIDE_ADDRESS,
    size=_LINE,
    outputs=0,
    ordered=False,
    requires=_NEEDS,
    effects=Access(writes=Space.GLOBAL),
    section=_SECTION + "discard",
)
def discard(warp: WarpContext) -> None:
    """Discard lines of the cache. This is a weak write of an indeterminate value; here the bytes keep the value that they had."""
    for line in distinct(warp.addresses(0)[warp.lanes()] // _LINE_BYTES).tolist():
        warp.access(MemoryAccess.of(warp.machine.global_view(warp, line * _LINE_BYTES, _LINE_BYTES, True), True))


_PRIMARY = ".(first=L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged)"
_SECONDARY = "{.second=L2::evict_first|L2::evict_unchanged}"
_POLICY = {
    "L2::evict_normal": 0x1000000000000000,
    "L2::evict_first": 0x12F0000000000000,
    "L2::evict_last": 0x14F0000000000000,
    "L2::evict_unchanged": 0x16F0000000000000,
}
"""The policies are opaque; these are the values that compilers write for them."""


@pure(
    "createpolicy.fractional" + _PRIMARY + _SECONDARY + ".b64",
    d="b64",
    requires=_NEEDS,
    section=_SECTION + "createpolicy",
    fidelity="deduced",
)
@pure(
    "createpolicy.fractional" + _PRIMARY + _SECONDARY + ".b64",
    d="b64",
    fraction="f32",
    requires=_NEEDS,
    section=_SECTION + "createpolicy",
    fidelity="deduced",
)
@pure(
    "createpolicy.range{.global}" + _PRIMARY + _SECONDARY + ".b64",
    d="b64",
    a="any",
    primary="u32",
    total="u32",
    requires=_NEEDS,
    section=_SECTION + "createpolicy",
    fidelity="deduced",
)
def createpolicy(x: Vocabulary, q: Qualifiers, *sources: Value) -> Value:
    return x.const(_POLICY[q.first], "i64")


@pure("createpolicy.cvt.L2.b64", d="b64", a="b64", requires=_NEEDS, section=_SECTION + "createpolicy", fidelity="deduced")
def createpolicy_cvt(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    return a
