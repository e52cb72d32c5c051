"""A loop of one approximate instruction: 60 registers to 60 others in each turn, all of which are read after the loop."""

from __future__ import annotations

__all__ = ["COUNT", "INSTRUCTIONS", "approximate"]

COUNT = 60
"""Instructions in a turn. With 64, rows that are written lie 8 KiB before those that are read next: processors wait for them."""
INSTRUCTIONS = (
    *(f"{name}.approx{ftz}.f32" for name in ("ex2", "lg2", "rcp", "rsqrt", "sqrt", "sin", "cos") for ftz in ("", ".ftz")),
    *(f"div.{way}{ftz}.f32" for way in ("approx", "full") for ftz in ("", ".ftz")),
    *("tanh.approx.f32", "ex2.approx.f16", "ex2.approx.f16x2", "ex2.approx.ftz.bf16", "ex2.approx.ftz.bf16x2"),
    *(f"tanh.approx.{type}" for type in ("f16", "f16x2", "bf16", "bf16x2")),
    *("rcp.approx.ftz.f64", "rsqrt.approx.ftz.f64", "rsqrt.approx.f64"),
)


def approximate(opcode: str) -> str:
    """A kernel with the parameters of the other loops; operands are between 1/2 and 4 where they are floats of the type."""
    type = opcode.rpartition(".")[2]
    bits = {"f64": 64, "f16": 16, "bf16": 16}.get(type, 32)
    low, step = {"f64": (0x3FE << 52, 1 << 45), "f16": (0x3800, 24), "f16x2": (0x38003800, 0x180018), "bf16": (0x3F00, 2)}.get(
        type, (0x3F003F00, 0x20002) if type == "bf16x2" else (126 << 23, 196_613)
    )
    second = opcode.startswith("div")
    start = f"mul.lo.u{bits} %value, %value, {step};\nadd.u{bits} %value, %value, {low};\n"
    sources = "".join(f"add.u{bits} %a{i}, %value, {step * i};\nmov.b{bits} %d{i}, %a{i};\n" for i in range(COUNT))
    turn = "".join(f"{opcode} %d{i}, %a{i}{f', %a{COUNT - 1 - i}' * second};\n" for i in range(COUNT))
    used = "".join(f"xor.b{bits} %value, %value, %d{i};\n" for i in range(COUNT))
    return f"""
.version 8.7
.target sm_100a
.address_size 64
.visible .entry loop(.param .u64 out, .param .u32 n)
.reqntid 128
{{
.reg .pred %again;
.reg .b32 %turns, %turn, %thread;
.reg .b64 %out;
.reg .b{bits} %value, %a<{COUNT}>, %d<{COUNT}>;
ld.param.u64 %out, [out];
ld.param.u32 %turns, [n];
mov.u32 %turn, 0;
mov.u32 %thread, %tid.x;
and.b32 %thread, %thread, 63;
{f"cvt.u{bits}.u32 %value, %thread" if bits != 32 else "mov.b32 %value, %thread"};
{start}{sources}LOOP:
{turn}add.u32 %turn, %turn, 1;
setp.lt.u32 %again, %turn, %turns;
@%again bra LOOP;
{used}setp.eq.u64 %again, %out, 0;
@!%again st.global.b{bits} [%out], %value;
ret;
}}
"""
