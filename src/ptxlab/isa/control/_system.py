"""The functions that the system provides to every module: vprintf and __assertfail."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

from ptxlab.isa import context
from ptxlab.isa.address_space import LOCAL_WINDOW, PARAM_BASE, PARAM_WINDOW
from ptxlab.isa.catalogue import Row
from ptxlab.isa.effects import LOCAL, Effects
from ptxlab.isa.form import Form, Operands
from ptxlab.isa.kinds import Typed
from ptxlab.isa.operands import SymbolAddress

__all__ = ["NO_FUNCTION", "SYSTEM_CALLS", "format_text"]

_WINDOW = 1 << 32
_LONGEST = 1 << 16
_SECTION = "Control Flow Instructions: call"


def _read(warp: context.WarpContext, lane: int, address: int, size: int) -> bytes:
    """Bytes at a generic address, which may be the thread's local memory."""
    if LOCAL_WINDOW <= address < LOCAL_WINDOW + _WINDOW:
        memory, at = warp.local_memory(lane), address - LOCAL_WINDOW
        if at + size > len(memory):
            warp.fault("M408", f"the address {address:#x} with {size} bytes lies outside local memory")
        return memory[at : at + size].tobytes()
    return warp.machine.read_generic(warp, address, size, warp.cta).tobytes()


def _text(warp: context.WarpContext, lane: int, address: int) -> str:
    """The string at a generic address."""
    if not address:
        return "(null)"
    found = bytearray()
    while len(found) < _LONGEST and (byte := _read(warp, lane, address + len(found), 1)) != b"\0":
        found += byte
    return found.decode("utf-8", "replace")


def _argument(warp: context.WarpContext, position: int, bits: int, lane: int) -> int:
    """The value of an argument: a register, or a variable in the param space."""
    operand = warp.op.operands[position]
    if isinstance(operand, SymbolAddress):
        window, base = (LOCAL_WINDOW, 0) if operand.space == "local" else (PARAM_WINDOW + PARAM_BASE, PARAM_BASE)
        return int.from_bytes(_read(warp, lane, window + operand.offset - base, bits // 8), "little")
    return warp.lane_value(operand, bits, lane)


_CONVERSION = re.compile(r"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+)?)?(hh|h|ll|l|j|z|t|L)?([diouxXcsaAeEfFgGp%])")
_LONG = ("l", "ll", "j", "z", "t")


def format_text(text: str, take: Callable[[int], bytes], string: Callable[[int], str]) -> tuple[str, int]:
    """Return the formatted text and the number of arguments used.

    Parameters
    ----------
    text : the format
    take : returns the next argument; its parameter is the size in bytes
    string : returns the string at an address

    Examples
    --------
    >>> numbers = iter([5, 255])
    >>> format_text("%3d|%x", lambda size: next(numbers).to_bytes(size, "little"), str)
    ('  5|ff', 2)
    """
    count = 0

    def number(size: int, signed: bool) -> int:
        nonlocal count
        count += 1
        return int.from_bytes(take(size), "little", signed=signed)

    def replaced(found: re.Match[str]) -> str:
        flags, width, precision, length, letter = found.groups()
        if letter == "%":
            return "%"
        if width == "*":
            wide = number(4, True)
            flags, width = (flags + "-", str(-wide)) if wide < 0 else (flags, str(wide))
        dot = "." in found.group()
        if precision == "*":
            exact = number(4, True)
            dot, precision = exact >= 0, str(exact)
        form = f"%{flags}{width or ''}" + (f".{precision or 0}" if dot else "")
        size = 8 if length in _LONG else 4
        if letter in "diouxX":
            value = number(size, letter in "di")
            if length in ("h", "hh"):
                bits = 16 if length == "h" else 8
                value &= (1 << bits) - 1
                if letter in "di" and value >> (bits - 1):
                    value -= 1 << bits
            if letter == "o" and "#" in flags:
                return (form.replace("#", "") + "s") % ("0" + format(value, "o") if value else "0")
            return (form + ("d" if letter == "u" else letter)) % value
        if letter == "c":
            return (form + "s") % chr(number(4, False) & 0xFF)
        if letter == "s":
            return (form + "s") % string(number(8, False))
        if letter == "p":
            address = number(8, False)
            return (form + "s") % (hex(address) if address else "(nil)")
        value_f: float = struct.unpack("<d", number(8, False).to_bytes(8, "little"))[0]
        if letter in "aA":
            shown = value_f.hex()
            return (form.split(".")[0] + "s") % (shown.upper() if letter == "A" else shown)
        return (form + letter) % value_f

    return _CONVERSION.sub(replaced, text), count


def vprintf(warp: context.WarpContext) -> None:
    """Print; the result is the number of arguments. The arguments are consecutive in memory, each aligned to its size."""
    result = warp.op.operands[0]
    for lane in warp.lanes().tolist():
        address, at = _argument(warp, 1, 64, lane), _argument(warp, 2, 64, lane)

        def take(size: int, lane: int = lane) -> bytes:
            nonlocal at
            at = -(-at // size) * size + size
            return _read(warp, lane, at - size, size)

        text, count = format_text(_text(warp, lane, address), take, lambda address, lane=lane: _text(warp, lane, address))  # type: ignore[misc]
        warp.machine.print(text)
        if isinstance(result, SymbolAddress):
            warp.local_memory(lane)[result.offset : result.offset + 4].view("<u4")[0] = count
        else:
            warp.write(result, count)


def assertion_failed(warp: context.WarpContext) -> None:
    """End the launch with a report. The operands are message, file, line, function and character size."""
    lane = int(warp.lanes()[0])
    message, file, function = (_text(warp, lane, _argument(warp, position, 64, lane)) for position in (0, 1, 3))
    line = _argument(warp, 2, 32, lane)
    warp.fault("H606", f"the assertion `{message}` failed in {function}", details=(("source", f"{file}:{line}"),))


def _row(name: str, outputs: int, semantics: Callable[[context.WarpContext], None], *operands: str, effects: Effects = LOCAL) -> Row:
    line, listed = Operands(" ".join(operands)), tuple((operand, "any") for operand in operands)
    form = Form("call", (), (line,), dict.fromkeys(operands, Typed("any")), _SECTION)
    return Row(form, line, f"call {name}", (), listed, outputs, "service", semantics, "deduced", {}, effects=effects)


SYSTEM_CALLS = {
    "vprintf": _row("vprintf", 1, vprintf, "result", "format", "arguments"),
    "__assertfail": _row("__assertfail", 0, assertion_failed, "message", "file", "line", "function", "size"),
}
"""Rows of the functions that a module may call without defining them."""


def no_function(warp: context.WarpContext) -> None:
    """End the launch: an indirect call has an address that is not one of its possible targets."""
    lane = int(warp.lanes()[0])
    address = warp.lane_value(warp.op.operands[0], 64, lane)
    warp.fault(
        "H607",
        f"the call goes to {address:#x}, which is not the address of a function that it may call",
        fix="take the address of a listed function (mov.u64 %rd, name); a function that is being executed cannot be entered again",
    )


NO_FUNCTION = _row("through a pointer", 0, no_function, "pointer")
"""The row that runs for an indirect call whose pointer is not one of its possible targets."""
