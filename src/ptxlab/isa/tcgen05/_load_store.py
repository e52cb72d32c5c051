"""tcgen05.ld, st and wait: section "Tensor Memory and Register Load/Store Instructions"; and tcgen05.fence."""

from __future__ import annotations

from ptxlab.isa.catalogue import Qualifiers, native
from ptxlab.isa.effects import TensorFence, TensorTransfer, TensorWait
from ptxlab.isa.native_ops import Nothing, TensorAccess
from ptxlab.isa.operands import Op
from ptxlab.tables import LOAD_REGISTERS

__all__: list[str] = []

_SECTION = "Tensor Memory and Register Load/Store Instructions"
_FENCE = "TensorCore 5th Generation Specialized Synchronization Operations"


def _access(write: bool, shape: str, repeat: int, pack: bool, value: int, address: int, split: int) -> TensorAccess:
    return TensorAccess(write=write, shape=shape, repeat=repeat, pack=pack, value=value, address=address, split=split)


def _declare(shape: str, repeat: int) -> None:
    registers = f"v{LOAD_REGISTERS[shape, repeat]}.b32"
    split = shape == "16x32bx2"
    halves = {"split": "b32"} if split else {}

    @native(
        f"tcgen05.ld.sync.aligned.{shape}.x{repeat}{{.pack::16b}}.b32",
        section=_SECTION,
        fidelity="two-models",
        outputs=1,
        ordered=False,
        effects=TensorTransfer(write=False),
        values=registers,
        address="addr",
        **halves,
    )
    def load(q: Qualifiers, op: Op) -> TensorAccess:
        return _access(False, shape, repeat, q.pack_16b, 0, 1, 2 if split else -1)

    @native(
        f"tcgen05.st.sync.aligned.{shape}.x{repeat}{{.unpack::16b}}.b32",
        section=_SECTION,
        fidelity="two-models",
        outputs=0,
        ordered=False,
        effects=TensorTransfer(write=True),
        address="addr",
        **halves,
        values=registers,
    )
    def store(q: Qualifiers, op: Op) -> TensorAccess:
        return _access(True, shape, repeat, q.unpack_16b, 2 if split else 1, 0, 1 if split else -1)


for _shape, _repeat in LOAD_REGISTERS:
    _declare(_shape, _repeat)


@native("tcgen05.wait::ld.sync.aligned", section=_SECTION, ordered=False, effects=TensorWait(write=False))
@native("tcgen05.wait::st.sync.aligned", section=_SECTION, ordered=False, effects=TensorWait(write=True))
def wait(q: Qualifiers, op: Op) -> Nothing:
    """Transfers complete in order of issue, so nothing is left to wait for."""
    return Nothing()


@native("tcgen05.fence::before_thread_sync", section=_FENCE, effects=TensorFence(before=True))
@native("tcgen05.fence::after_thread_sync", section=_FENCE, effects=TensorFence(before=False))
def fence(q: Qualifiers, op: Op) -> Nothing:
    """Order only; values do not depend on it."""
    return Nothing()
