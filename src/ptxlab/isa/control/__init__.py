"""Control flow, the stack, and the functions that the system provides. Importing the package registers its rows in the catalogue.

`inserted` names the instructions that the lowering adds to those of the text.
"""

from ptxlab.isa.catalogue import Control, Qualifiers, control, native
from ptxlab.isa.control import _stack, inserted
from ptxlab.isa.control._system import NO_FUNCTION, SYSTEM_CALLS
from ptxlab.isa.kinds import Typed
from ptxlab.isa.native_ops import Nothing
from ptxlab.isa.operands import Op

__all__ = ["NO_FUNCTION", "SYSTEM_CALLS", "_stack", "inserted"]

_SECTION = "Control Flow Instructions: "

control("bra{.uni}", target="label", outputs=0, section=_SECTION + "bra")(Control.BRANCH)
control("brx.idx{.uni}", index="u32", targets="label", outputs=0, section=_SECTION + "brx.idx")(Control.INDEXED_BRANCH)
control("ret{.uni}", outputs=0, section=_SECTION + "ret")(Control.RETURN)
control("exit", outputs=0, section=_SECTION + "exit")(Control.EXIT)
control("trap", outputs=0, section="Miscellaneous Instructions: trap")(Control.TRAP)
control("call{.uni}", first="any", second="?any", third="?any", fourth="?any", outputs=0, section=_SECTION + "call")(Control.CALL)


@native("pmevent", event=Typed("any", range(16), constant=True), outputs=0, section="Miscellaneous Instructions: pmevent")
@native("pmevent.mask", event=Typed("any", range(1 << 16), constant=True), outputs=0, section="Miscellaneous Instructions: pmevent")
def pmevent(q: Qualifiers, op: Op) -> Nothing:
    """Has no effect: performance monitor events are not modelled."""
    return Nothing()
