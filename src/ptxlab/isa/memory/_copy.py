"""Non-bulk cp.async; its groups and its arrival on mbarriers are in ``isa.sync``."""

from __future__ import annotations

from ptxlab.isa.catalogue import Qualifiers, native
from ptxlab.isa.effects import Asynchronous, Completion, Proxy, Space, Unit
from ptxlab.isa.kinds import Typed
from ptxlab.isa.memory._modifiers import CACHE_HINT, PREFETCH
from ptxlab.isa.native_ops import CopyAsync
from ptxlab.isa.operands import Const, Op, Unused
from ptxlab.isa.requirements import needs

_SECTION = "Data Movement and Conversion Instructions: cp.async"
_EFFECTS = Asynchronous(Unit.COPY, Completion.COPY_GROUP, Proxy.GENERIC, Space.SHARED)
_SPACES = ".(space=shared|shared::cta).global" + CACHE_HINT + PREFETCH
_NEEDS = (
    needs("7.0", "sm_80"),
    needs("7.4", when={"hint": "L2::cache_hint"}),
    needs("7.4", when={"prefetch": "L2::64B|L2::128B|L2::256B"}),
)


def _size(op: Op) -> int:
    size = op.operands[2]
    return size.value if isinstance(size, Const) else 0


def copy(q: Qualifiers, op: Op) -> CopyAsync:
    given = not isinstance(op.operands[3], Unused)
    return CopyAsync(_size(op), 0, 1, source_size=3 if given else -1)


def copy_unless(q: Qualifiers, op: Op) -> CopyAsync:
    return CopyAsync(_size(op), 0, 1, ignore=3)


for _caches, _sizes in (("ca", (4, 8, 16)), ("cg", (16,))):
    for _copy, _operand, _more in ((copy, {"source_size": "?u32"}, ()), (copy_unless, {"ignore": "pred"}, (needs("7.5"),))):
        native(
            f"cp.async.(cop={_caches}){_SPACES}",
            d="addr",
            a="addr",
            size=Typed("any", _sizes, constant=True),
            **_operand,
            policy="b64?hint",
            outputs=0,
            effects=_EFFECTS,
            requires=(*_NEEDS, *_more),
            section=_SECTION,
        )(_copy)
