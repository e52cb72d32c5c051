"""Loads and stores of shared and local memory, atomics on shared memory, and matrices of a warp."""

from __future__ import annotations

from .writer import Family, Statement, Writer

__all__ = ["MEMORY"]


def _vectors(writer: Writer) -> Statement:
    """A load or store of one element or a vector, in the bytes of the thread."""
    pick = writer.random.choice
    width = pick((8, 16, 32, 64))
    count = pick([c for c in (1, 2, 4) if c * width <= 128])
    size = count * width // 8
    offset = size * writer.random.randrange(64 // size)
    space, place = pick((("shared", "at"), ("local", "stack"), ("shared::cta", "at")))
    held = max(width, 16)
    value = writer.registers(held, count) if count > 1 else writer.register(held)
    vector = f".v{count}" if count > 1 else ""
    if writer.random.random() < 0.5:
        return Statement(f"st.{space}{vector}.b{width} [{place}+{offset}], {value};")
    type = pick(("b", "u", "s")) if count == 1 and width < 64 else "b"
    return Statement(f"ld.{space}{vector}.{type}{width} {value}, [{place}+{offset}];")


def _generic(writer: Writer) -> Statement:
    """The same by a generic address."""
    offset = 8 * writer.random.randrange(8)
    convert, place = writer.random.choice((("cvta.shared.u64", "at"), ("cvta.local.u64", "stack")))
    access = writer.random.choice(
        (f"ld.b64 {writer.register(64)}, [generic+{offset}]", f"st.b32 [generic+{offset}], {writer.register(32)}")
    )
    return Statement(f"cvt.u64.u32 generic, {place}; {convert} generic, generic; {access};")


def _atomics(writer: Writer) -> Statement:
    """An atomic operation whose operands are defined, since other ones are a finding: what it returns is defined."""
    pick = writer.random.choice
    value = pick(("lane", "tid", "7", "-1"))
    where = f"[count+{4 * writer.random.randrange(8)}]"
    operation = pick(("add.u32", "add.s32", "min.s32", "max.u32", "and.b32", "or.b32", "xor.b32", "exch.b32", "inc.u32", "add.f32"))
    wide = f"[count+{8 * writer.random.randrange(4)}]"
    return Statement(
        pick(
            (
                f"atom.shared.{operation} {writer.register(32)}, {where}, {'0f3F800000' if operation[-3] == 'f' else value};",
                f"red.shared.{pick(('add.u32', 'max.s32', 'or.b32'))} {where}, {value};",
                f"atom.shared.cas.b32 {writer.register(32)}, {where}, lane, {value};",
                f"atom.shared.add.u64 {writer.register(64)}, {wide}, 12345678901;",
                f"red.shared.add.u64 {wide}, 77;",
                f"ld.shared.b32 {writer.register(32)}, {where};",
            )
        )
    )


def _matrices(writer: Writer) -> Statement:
    """Loads and stores of matrices, whose rows are bytes of the threads."""
    pick = writer.random.choice
    count = pick((1, 2, 4))
    value = writer.registers(32, count)
    offset = 16 * writer.random.randrange(4)
    trans = pick(("", ".trans"))
    return Statement(
        pick(
            (
                f"stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [at+{offset}], {value};",
                f"ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {value}, [at+{offset}];",
                f"stmatrix.sync.aligned.m16n8.x{count}.trans.shared.b8 [at+{offset}], {value};",
                f"movmatrix.sync.aligned.m8n8.trans.b16 {writer.register(32)}, {writer.register(32)};",
                f"st.shared.v2.b32 [at+{8 * writer.random.randrange(8)}], {writer.registers(32, 2)};",
            )
        ),
        together=True,
    )


def _mixed(writer: Writer) -> Statement:
    return writer.random.choice((_vectors, _generic))(writer)


MEMORY = {"vectors": Family(_mixed), "atomics": Family(_atomics), "warp_matrices": Family(_matrices)}
