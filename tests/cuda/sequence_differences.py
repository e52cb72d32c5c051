"""Where the virtual driver answers otherwise than the H200 did, by patterns of names, with the reason."""

from __future__ import annotations

from fnmatch import fnmatchcase

__all__ = ["reason_for"]

DIFFERENCES: tuple[tuple[str, str], ...] = (
    ("occupancy.registers/*", "the assembler chooses the registers; test_occupancy.py compares the blocks for the recorded numbers"),
    ("pool.reuse", "addresses of pools are not used again at once, so that a use after the release is found"),
    ("virtual_memory.map_wrong/5", "a mapping must lie in one reservation"),
    ("memory.host_wrong", "pinned memory of 0 bytes is refused"),
    ("copy.box/3,8,2", "a copy whose slices overlap is done"),
    ("copy.rectangle_wrong/3,2", "arrays are not supported, which has a result of its own"),
    ("context.set_limit/1,5", "limits are kept as they are set, not rounded to what the hardware has"),
    ("context.set_limit/2,0", "limits are kept as they are set, not rounded to what the hardware has"),
    ("context.set_limit/6,1048576", "limits are kept as they are set, not rounded to what the hardware has"),
    ("context.destroyed_is_current", "null is no context: 201"),
    ("context.flags/[3567]", "without a context the call is refused before its argument is looked at"),
    ("context.flags/256", "without a context the call is refused before its argument is looked at"),
    ("without_context/cuMemFree[H_]*", "without a context the call is refused before its argument is looked at"),
    ("without_context/cuPointerGetAttribute", "without a context the call is refused before its argument is looked at"),
    ("without_context/cuMemHostUnregister", "without a context the call is refused before its argument is looked at"),
    ("after_a_fault/cuCtxGetId", "the number of a context can be asked for after an error"),
    (
        "device.look_up/[124569]",
        "a name that is not found gives 500 also if the program asks for the status; old forms of functions are not there",
    ),
    (
        "device.look_up/1[0239]",
        "a name that is not found gives 500 also if the program asks for the status; old forms of functions are not there",
    ),
    (
        "device.look_up/2[23]",
        "a name that is not found gives 500 also if the program asks for the status; old forms of functions are not there",
    ),
    ("device.various", "execution affinity is not there"),
    ("fault.fails/?,[123]", "an error is that of the context: another context, or a reset one, has none"),
    ("fault.fails/4,0", "faults are 700 for addresses and 719 for others"),
    ("launch.shared_size/0,0,-1", "faults are 700 for addresses and 719 for others"),
    ("launch.arguments/3", "a buffer with fewer bytes than the parameters is refused"),
    ("launch.attribute/11,1", "the preferred size of clusters is not looked at"),
    ("launch.attribute/16,*", "attribute 16 is not known"),
    ("launch.bounds/1,1,*,1", "a launch with other than the required threads is refused when it runs"),
    ("launch.kernel_as_function", "a CUkernel is accepted where a CUfunction is"),
    ("module.attributes/*", "bytes of constant variables are not counted, and required threads are the most"),
    ("module.kernel_attributes/*", "bytes of constant variables are not counted, and required threads are the most"),
    ("module.link/[25]", "what is linked is compiled when it is loaded"),
    ("module.load/[567]", "the body of a kernel is checked when its attributes are first asked for or it is launched"),
    ("module.load/1[79]", "the body of a kernel is checked when its attributes are first asked for or it is launched"),
    ("module.load/20", "the body of a kernel is checked when its attributes are first asked for or it is launched"),
    ("module.load/22", "a fat binary that is cut off is damaged"),
    ("module.log/[567]", "the body of a kernel is checked when its attributes are first asked for or it is launched"),
    ("module.log/1[79]", "the body of a kernel is checked when its attributes are first asked for or it is launched"),
    ("module.log/20", "the body of a kernel is checked when its attributes are first asked for or it is launched"),
    ("module.load_library/[12456789]", "a library is compiled when it is loaded, not when its first kernel is asked for"),
    ("module.load_library/1[0126789]", "a library is compiled when it is loaded, not when its first kernel is asked for"),
    ("module.load_library/2[012]", "a library is compiled when it is loaded, not when its first kernel is asked for"),
    ("module.look_up", "an empty name is a name that is not found"),
)


def reason_for(name: str) -> str | None:
    """Why a sequence differs, or None if it should not."""
    return next((reason for pattern, reason in DIFFERENCES if fnmatchcase(name, pattern)), None)
