"""Asynchronous copies, bulk copies, and the shared memory of the other CTA of a cluster."""

from __future__ import annotations

from .writer import Family, Statement, Writer

__all__ = ["ASYNCHRONOUS", "BARRIERS"]

BARRIERS = """@lane_0 mbarrier.init.shared::cta.b64 [bar], 1;
@lane_0 mbarrier.init.shared::cta.b64 [bar+8], 1;
fence.mbarrier_init.release.cluster;
fence.proxy.async;
bar.warp.sync -1;
"""
_EXCHANGE = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"


def _moves(writer: Writer) -> Statement:
    """Registers to and from the bytes of the thread in shared memory."""
    offset = 8 * writer.random.randrange(8)
    value = writer.registers(32, 2)
    return Statement(writer.random.choice((f"st.shared.v2.b32 [at+{offset}], {value};", f"ld.shared.v2.b32 {value}, [at+{offset}];")))


def _copies(writer: Writer) -> Statement:
    """cp.async, of all bytes or of some."""
    pick = writer.random.choice
    size = pick((4, 8, 16))
    into, out_of = (f"{place}+{size * writer.random.randrange(64 // size)}" for place in ("at", "in"))
    count = writer.random.randrange(size + 1)
    opcode = f"cp.async.{'cg' if size == 16 and writer.random.random() < 0.5 else 'ca'}.shared.global [{into}], [{out_of}], {size}"
    copy = pick(
        (
            f"{opcode};",
            f"{opcode}, {count};",
            f"and.b32 t, lane, {size - 1}; {opcode}, t;",
            f"setp.lt.u32 here, lane, {writer.random.randrange(32)}; {opcode}, here;",
        )
    )
    return Statement(f"{copy} cp.async.wait_all;")


def _bulk(writer: Writer) -> Statement:
    """A bulk copy of the bytes of several threads, for which all lanes wait."""
    size = 16 * writer.random.randrange(1, 65)
    into, out_of = (16 * writer.random.randrange(0, (2048 - size) // 16 + 1) for _ in range(2))
    start = "fence.proxy.async; bar.warp.sync -1; mul.wide.u32 generic, lane, 128; sub.u64 g, in, generic; "
    expect = f"@lane_0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {size}; "
    into_shared = f"add.u32 t, base, {into}; {expect}"
    from_global = f"@lane_0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [t], [g+{out_of}], {size}, [bar]; "
    kinds = [
        f"{into_shared}{from_global}{writer.wait(0)}",
        f"add.u32 t, base, {into}; sub.u64 g, out, generic; "
        f"@lane_0 cp.async.bulk.global.shared::cta.bulk_group [g+{8192 + out_of}], [t], {size}; "
        "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; bar.warp.sync -1;",
    ]
    chosen = writer.random.randrange(2)
    if chosen:
        writer.phases[0] ^= 1
    return Statement(start + kinds[chosen], together=True)


def _cluster(writer: Writer) -> Statement:
    """Loads, stores, and copies of the other CTA's shared memory."""
    pick = writer.random.choice
    offset = 8 * writer.random.randrange(8)
    size = 16 * writer.random.randrange(1, 33)
    expect = "@lane_0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], "
    kind = pick(("st", "ld", "st.async", "copy"))
    if kind == "st":
        text = f"mapa.shared::cluster.u32 t, at, peer; st.shared::cluster.v2.b32 [t+{offset}], {writer.registers(32, 2)}; {_EXCHANGE}"
    elif kind == "ld":
        text = f"mapa.shared::cluster.u32 t, at, peer; ld.shared::cluster.v2.b32 {writer.registers(32, 2)}, [t+{offset}]; {_EXCHANGE}"
    elif kind == "st.async":
        text = (
            f"{expect}256; {_EXCHANGE} mapa.shared::cluster.u32 t, at, peer; mapa.shared::cluster.u32 v0, bar, peer; "
            f"st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [t+{offset}], {{lane, tid}}, [v0]; "
            f"{writer.wait(0)} {_EXCHANGE}"
        )
    else:
        text = (
            f"{expect}{size}; fence.proxy.async; {_EXCHANGE} add.u32 v1, base, 2048; mapa.shared::cluster.u32 t, v1, peer; "
            "mapa.shared::cluster.u32 v0, bar, peer; @lane_0 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
            f"[t], [base], {size}, [v0]; {writer.wait(0)} {_EXCHANGE} ld.shared.v2.b32 {writer.registers(32, 2)}, [at];"
        )
    return Statement(text, together=True)


ASYNCHRONOUS = {
    "copies": Family(lambda w: w.random.choice((_moves, _copies))(w)),
    "bulk_copies": Family(lambda w: w.random.choice((_moves, _bulk))(w), BARRIERS),
    "clusters": Family(lambda w: w.random.choice((_moves, _cluster))(w), BARRIERS + _EXCHANGE, _EXCHANGE, cluster=True),
}
