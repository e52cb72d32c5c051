"""Non-bulk cp.async; its groups and its arrival on mbarriers are in ``isa.sync``."""

from __future__ import annotations

from ptxlab.isa.catalogue import Qualifiers, native
from ptxlab.isa.effects import Asynchronous, Completion, Proxy, Space, Unit
from ptxlab.isa.memory._modifiers import CACHE_HINT, MODIFIER_NEEDS, PREFETCH
from ptxlab.isa.native_ops import CopyAsync
from ptxlab.isa.operands import Const, Op, Unused
from ptxlab.isa.requirements import needs

_SECTION = "Data Movement and Conversion Instructions: cp.async"
_EFFECTS = Asynchronous(Unit.COPY, Completion.COPY_GROUP, Proxy.GENERIC, Space.SHARED)
_FORM = "cp.async.(cop=ca|cg).(space=shared|shared::cta).global" + CACHE_HINT + PREFETCH


_NEEDS = (needs("7.0", "sm_80"), *MODIFIER_NEEDS)


def _size(op: Op) -> int:
    size = op.operands[2]
    return size.value if isinstance(size, Const) else 0


@native(
    _FORM, d="addr", a="addr", size="any", source_size="?u32", policy="?b64", outputs=0, effects=_EFFECTS, requires=_NEEDS, section=_SECTION
)
def copy(q: Qualifiers, op: Op) -> CopyAsync:
    given = not isinstance(op.operands[3], Unused)
    return CopyAsync(_size(op), 0, 1, source_size=3 if given else -1)


@native(
    _FORM,
    d="addr",
    a="addr",
    size="any",
    ignore="pred",
    policy="?b64",
    outputs=0,
    effects=_EFFECTS,
    requires=(*_NEEDS, needs("7.5")),
    section=_SECTION,
)
def copy_unless(q: Qualifiers, op: Op) -> CopyAsync:
    return CopyAsync(_size(op), 0, 1, ignore=3)
