"""Wrong kernels about wgmma, copies to shared memory, barriers, clusters and accesses."""

from __future__ import annotations

from tests.check.static.dataflow_kernels.mistake import mistake

W, A, B, L, T, K, V, X = "wgmma", "cp_async", "bulk", "pipeline", "tensor_map", "cluster", "warps", "accesses"
FENCE = "    fence.proxy.async.shared::cta;\n"
FIRST = "{%f0, %f1, %f2, %f3}, %rd1"
SECOND = "{%f4, %f5, %f6, %f7}, {%r10"
COMMIT = "    wgmma.commit_group.sync.aligned;\n"
WAIT0 = "    wgmma.wait_group.sync.aligned 0;\n"
GRID = "    mov.u32 %r30, %nctaid.x;\n    setp.gt.u32 %p0, %r30, 1;\n"

WARPGROUP = (
    mistake(
        "accumulators read without a wait",
        W,
        "wgmma.wait_group",
        (WAIT0 + "    add.f32 %f8, %f0", "    add.f32 %f8, %f0"),
        at="add.f32 %f8, %f0, %f1;",
    ),
    mistake(
        "the last wait leaves a group in flight",
        W,
        "wgmma.wait_group",
        (WAIT0 + "    add.f32 %f8, %f0", WAIT0.replace("0;", "1;") + "    add.f32 %f8, %f0"),
        at="add.f32 %f8, %f0, %f1;",
    ),
    mistake(
        "the wait stands on one path",
        W,
        "wgmma.wait_group",
        (WAIT0 + "    add.f32 %f8, %f0", GRID + "    @%p0 bra SKIP;\n" + WAIT0 + "SKIP:\n    add.f32 %f8, %f0"),
        at="add.f32 %f8, %f0, %f1;",
        severity="warning",
    ),
    mistake(
        "accumulators read in the loop",
        W,
        "wgmma.wait_group",
        ("    wgmma.wait_group.sync.aligned 1;\n", "    wgmma.wait_group.sync.aligned 1;\n    add.f32 %f11, %f0, %f1;\n"),
        ("add.f32 %f8, %f8, %f10;", "add.f32 %f8, %f8, %f11;\n    add.f32 %f8, %f8, %f10;"),
        at="add.f32 %f11, %f0, %f1;",
    ),
    mistake(
        "products are never committed",
        W,
        "never committed",
        ("%rd3, %p3, 1, 1, 0;\n" + COMMIT, "%rd3, %p3, 1, 1, 0;\n"),
        at=(SECOND, "add.f32 %f4, %f4, %f5;", "mov.b32 %r10, %r1;"),
    ),
    mistake(
        "a register of A is overwritten in flight",
        W,
        "wgmma registers",
        (WAIT0 + "    mov.b32 %r10, %r1;\n", "    mov.b32 %r10, %r1;\n" + WAIT0),
        at="mov.b32 %r10, %r1;",
    ),
    mistake(
        "an accumulator is overwritten in flight",
        W,
        "wgmma registers",
        (WAIT0 + "    mov.b32 %r10, %r1;\n", "    mov.f32 %f4, 0f00000000; // early\n" + WAIT0 + "    mov.b32 %r10, %r1;\n"),
        at="// early",
    ),
    mistake(
        "no wgmma.fence after registers were written",
        W,
        "wgmma.fence",
        (
            "    wgmma.fence.sync.aligned;\n    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f4",
            "    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f4",
        ),
        at=SECOND,
    ),
    mistake(
        "half of the warpgroup multiplies",
        W,
        "aligned",
        ("    mov.f32 %f7, 0f00000000;\n", "    mov.f32 %f7, 0f00000000;\n    setp.lt.u32 %p0, %r1, 64;\n    @!%p0 bra SKIP;\n"),
        (WAIT0 + "    mov.b32 %r10, %r1;\n", WAIT0 + "SKIP:\n    mov.b32 %r10, %r1;\n"),
        at=(SECOND, "@!%p0 bra SKIP;"),
    ),
    mistake(
        "a predicate of lanes around a product",
        W,
        "aligned",
        (
            "    mov.f32 %f7, 0f00000000;\n",
            "    mov.f32 %f7, 0f00000000;\n    and.b32 %r20, %r1, 1;\n    setp.eq.u32 %p0, %r20, 0;\n    @!%p0 bra SKIP;\n",
        ),
        (WAIT0 + "    mov.b32 %r10, %r1;\n", WAIT0 + "SKIP:\n    mov.b32 %r10, %r1;\n"),
        at=(SECOND, "@!%p0 bra SKIP;"),
    ),
    mistake("no proxy fence before wgmma", W, "fence.proxy", (FENCE, ""), at=(FIRST, "[%r3], {%r4", "[%r6], {%r4")),
    mistake("the K steps of B leave shared memory", W, "K step", ("add.u64 %rd2, %rd2, 2;", "add.u64 %rd2, %rd2, 64;"), at=FIRST),
)

COPIES = (
    mistake("no wait for cp.async in a loop", A, "cp.async", ("    cp.async.wait_group 1;\n", ""), at="ld.shared.v4"),
    mistake("a wait that leaves too many groups", A, "cp.async", ("cp.async.wait_group 1;", "cp.async.wait_group 2;"), at="ld.shared.v4"),
    mistake(
        "no barrier after the wait",
        A,
        "cp.async",
        ("    cp.async.wait_group 1;\n    bar.sync 0;\n", "    cp.async.wait_group 1;\n"),
        at="ld.shared.v4",
    ),
    mistake(
        "the copies in the loop are not committed",
        A,
        "never committed",
        ("[%r10], [%rd4], 16;\n    cp.async.commit_group;\n", "[%r10], [%rd4], 16;\n"),
        at=("ld.shared.v4", "[%r10], [%rd4], 16;"),
    ),
    mistake("no wait after the loop", A, "cp.async", ("    cp.async.wait_all;\n", ""), at="ld.shared.b32 %r18"),
    mistake(
        "no barrier before the stage is used again",
        A,
        "cp.async",
        ("    add.u32 %r7, %r7, %r16;\n    bar.sync 0;\n", "    add.u32 %r7, %r7, %r16;\n"),
        at=("ld.shared.v4", "[%r10], [%rd4], 16;"),
        severity="warning",
    ),
    mistake(
        "cp.async of 16 bytes to a multiple of 8",
        A,
        "misaligned",
        ("add.u32 %r5, %r4, %r3;", "add.u32 %r5, %r4, %r3;\n    add.u32 %r5, %r5, 8;"),
        at=("[%r5], [%rd4], 16;", "[%r10], [%rd4], 16;"),
    ),
    mistake(
        "the second stage does not exist", A, "out of bounds", ("stages[4096]", "stages[2048]"), at=("[%r10], [%rd4], 16;", "ld.shared.v4")
    ),
    mistake(
        "fewer bytes expected than copied",
        B,
        "expected bytes",
        ("[%r3], 1024;", "[%r3], 512;"),
        at=("expect_tx", "ld.shared.b32 %r9", "[%r6], [%rd3], 512", "mbarrier.try_wait"),
    ),
    mistake(
        "more bytes expected than copied", B, "expected bytes", ("[%r3], 1024;", "[%r3], 2048;"), at=("expect_tx", "mbarrier.try_wait")
    ),
    mistake(
        "no bytes expected",
        B,
        "expected bytes",
        ("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 1024;", "mbarrier.arrive.shared::cta.b64 _, [%r3];"),
        at=("mbarrier.arrive", "ld.shared.b32 %r9", "[%r4], [%rd2], 512", "[%r6], [%rd3], 512"),
    ),
    mistake(
        "no wait for a bulk copy",
        B,
        "mbarrier wait",
        ("    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;\n    @!%p2 bra WAIT;\n", ""),
        at=("ld.shared.b32 %r9", "[%r4], [%rd2], 512", "expect_tx"),
    ),
    mistake(
        "the second bulk copy is misaligned", B, "misaligned", ("add.u32 %r6, %r4, 512;", "add.u32 %r6, %r4, 504;"), at="[%r6], [%rd3], 512"
    ),
    mistake(
        "the second bulk copy leaves its variable",
        B,
        "out of bounds",
        ("input[1024]", "input[768]"),
        at=("[%r6], [%rd3], 512", "ld.shared.b32 %r10"),
        severity="warning",
    ),
    mistake(
        "no proxy fence before a bulk store",
        B,
        "fence.proxy",
        (
            "    st.shared.b32 [%r11], %r9;\n" + FENCE + "    bar.sync 0;\n    @!%p1 bra STORED;",
            "    st.shared.b32 [%r11], %r9;\n    bar.sync 0;\n    @!%p1 bra STORED;",
        ),
        at="[%rd1], [%r5], 512",
    ),
    mistake(
        "no proxy fence before a bulk store in a branch",
        B,
        "fence.proxy",
        (
            "    st.shared.b32 [%r11], %r9;\n" + FENCE + "    bar.sync 0;\n    @!%p1 bra DONE;",
            "    st.shared.b32 [%r11], %r9;\n    bar.sync 0;\n    @!%p1 bra DONE;",
        ),
        at="[%rd4], [%r5], 512",
    ),
    mistake(
        "the proxy fence stands before the write",
        B,
        "fence.proxy",
        (
            "    st.shared.b32 [%r11], %r9;\n" + FENCE + "    bar.sync 0;\n    @!%p1 bra STORED;",
            FENCE + "    st.shared.b32 [%r11], %r9;\n    bar.sync 0;\n    @!%p1 bra STORED;",
        ),
        at="[%rd1], [%r5], 512",
    ),
    mistake(
        "the last bulk store is not waited for",
        B,
        "bulk group",
        ("    cp.async.bulk.wait_group 0;\n", ""),
        at=("[%rd4], [%r5], 512", "ret;"),
        severity="warning",
    ),
    mistake(
        "the last bulk store is not committed",
        B,
        "bulk group",
        ("    cp.async.bulk.commit_group;\n    cp.async.bulk.wait_group 0;\n", "    cp.async.bulk.wait_group 0;\n"),
        at=("[%rd4], [%r5], 512", "ret;", "cp.async.bulk.wait_group 0;"),
        severity="warning",
    ),
    mistake(
        "the source of a bulk store is overwritten",
        B,
        "bulk group",
        ("    cp.async.bulk.wait_group.read 0;\n", "    cp.async.bulk.wait_group.read 1;\n"),
        at=("[%rd1], [%r5], 512", "    add.u32 %r9, %r9, 1;", "ret;"),
        severity="warning",
    ),
    mistake(
        "expected bytes of half a box",
        T,
        "expected bytes",
        ("[%r9], 256;", "[%r9], 128;"),
        at=("expect_tx", "cp.async.bulk.tensor", "mbarrier.try_wait"),
    ),
    mistake("expected bytes of two boxes", T, "expected bytes", ("[%r9], 256;", "[%r9], 512;"), at=("expect_tx", "mbarrier.try_wait")),
    mistake(
        "a box larger than the bytes expected",
        T,
        "expected bytes",
        ("[%r3], 1, 4;", "[%r3], 1, 2;"),
        at=("expect_tx", "cp.async.bulk.tensor", "mbarrier.try_wait"),
    ),
)

MBARRIERS = (
    mistake(
        "a barrier is never initialised",
        B,
        "mbarrier init",
        ("    mbarrier.init.shared::cta.b64 [%r3], 1;\n", ""),
        at=("expect_tx", "mbarrier.try_wait"),
    ),
    mistake(
        "the initialisation is not published", B, "mbarrier published", ("READY:\n    bar.sync 0;\n", "READY:\n"), at="mbarrier.try_wait"
    ),
    mistake(
        "the second barrier of an array is not initialised",
        L,
        "mbarrier init",
        ("    mbarrier.init.shared::cta.b64 [%r3+8], 1;\n", ""),
        at=("expect_tx", "%p3, [%r12]"),
    ),
    mistake("a producer that waits for the wrong parity", L, "parity", ("xor.b32 %r16, %r10, 1;", "mov.u32 %r16, %r10;"), at="%p2, [%r13]"),
    mistake(
        "a parity that never flips",
        L,
        "parity",
        ("and.b32 %r10, %r10, 1;", "mov.u32 %r10, 0;"),
        at=("%p3, [%r12]", "ld.shared.b32 %r20", "%p2, [%r13]"),
        severity="warning",
    ),
    mistake(
        "a producer that does not wait for the stage",
        L,
        "mbarrier wait",
        ("    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r13], %r16;\n    @!%p2 bra WAIT_EMPTY;\n", ""),
        at=("cp.async.bulk.tensor", "expect_tx"),
        severity="warning",
    ),
    mistake(
        "consumers that do not wait for the copy",
        L,
        "mbarrier wait",
        ("    mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r12], %r10;\n    @!%p3 bra WAIT_FULL;\n", ""),
        at=("ld.shared.b32 %r20", "cp.async.bulk.tensor"),
    ),
    mistake(
        "a stage is released before it is read",
        L,
        "mbarrier wait",
        ("    mbarrier.arrive.shared::cta.b64 _, [%r13];\n", ""),
        ("    shl.b32 %r18, %r1, 4;\n", "    mbarrier.arrive.shared::cta.b64 _, [%r13];\n    shl.b32 %r18, %r1, 4;\n"),
        at=("ld.shared.b32 %r20", "mbarrier.arrive.shared"),
        severity="warning",
    ),
    mistake(
        "a stage is never released",
        L,
        "nothing arrives",
        ("    mbarrier.arrive.shared::cta.b64 _, [%r13];\n", ""),
        at="%p2, [%r13]",
        severity="warning",
    ),
    mistake(
        "half of the arrivals complete the phase",
        L,
        "parity",
        ("mbarrier.init.shared::cta.b64 [%r4], 128;", "mbarrier.init.shared::cta.b64 [%r4], 64;"),
        at=("mbarrier.arrive.shared", "[%r4], 64;"),
        severity="warning",
    ),
    mistake(
        "more arrivals expected than threads", X, "nothing arrives", ("[%r6], 32;", "[%r6], 33;"), at=("mbarrier.try_wait", "[%r6], 33;")
    ),
    mistake(
        "an mbarrier at a multiple of 4",
        X,
        "misaligned",
        ("mov.u32 %r6, gate;", "mov.u32 %r6, gate;\n    add.u32 %r6, %r6, 4;"),
        at=("mbarrier.init", "mbarrier.arrive", "mbarrier.try_wait"),
    ),
)

CLUSTERS = (
    mistake(
        "a CTA exits while the peer uses its memory",
        K,
        "cluster barrier",
        (
            "    st.global.u32 [%rd2], %r8;\n    barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;\n",
            "    st.global.u32 [%rd2], %r8;\n",
        ),
        at=("ret;", "mbarrier.arrive", "ld.shared::cluster"),
    ),
    mistake(
        "the peer's memory is read after a CTA barrier only",
        K,
        "cluster barrier",
        ("READY:\n    barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;\n", "READY:\n    bar.sync 0;\n"),
        at=("ld.shared::cluster", "mbarrier.arrive"),
    ),
    mistake(
        "a cluster wait without an arrival",
        K,
        "cluster barrier",
        (
            "READY:\n    barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;\n",
            "READY:\n    barrier.cluster.wait.aligned; // first\n",
        ),
        at="// first",
    ),
    mistake(
        "two cluster arrivals without a wait",
        K,
        "cluster barrier",
        (
            "READY:\n    barrier.cluster.arrive.aligned;\n",
            "READY:\n    barrier.cluster.arrive.aligned;\n    barrier.cluster.arrive.aligned; // again\n",
        ),
        at="// again",
    ),
    mistake(
        "one thread arrives at the cluster barrier",
        K,
        "aligned",
        ("READY:\n    barrier.cluster.arrive.aligned;\n", "READY:\n    @%p1 barrier.cluster.arrive.aligned;\n"),
        at="@%p1 barrier.cluster.arrive",
    ),
    mistake(
        "a plain load of the peer's address",
        K,
        "out of bounds",
        ("ld.shared::cluster.b32 %r8, [%r7];", "ld.shared.b32 %r8, [%r7];"),
        at="ld.shared.b32 %r8",
    ),
    mistake(
        "nobody arrives at the peer's barrier",
        K,
        "nothing arrives",
        ("    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r9];\n", ""),
        ("    mapa.shared::cluster.u32 %r9, %r6, %r3;\n", ""),
        at="mbarrier.try_wait",
    ),
)

WARPS = (
    mistake(
        "the sides of a barrier disagree on the threads",
        V,
        "thread counts",
        ("bar.sync 1, 256;", "bar.sync 1, 128;"),
        at=("bar.sync 1, 128;", "bar.arrive 1, 256;"),
    ),
    mistake(
        "two arrivals before the barrier completes",
        V,
        "thread counts",
        ("    bar.arrive 1, 256;\n", "    bar.arrive 1, 256;\n    bar.arrive 1, 256; // again\n"),
        at="// again",
    ),
    mistake(
        "a barrier for more threads than reach it", V, "thread counts", ("bar.sync 2, 128;", "bar.sync 2, 256;"), at="bar.sync 2, 256;"
    ),
    mistake("a barrier under a predicate of lanes", V, "aligned", ("    bar.sync 0;\n", "    @%p1 bar.sync 0;\n"), at="bar.sync 0;"),
    mistake("half of a warp shuffles", V, "collective", ("    shfl.sync", "    @%p1 shfl.sync"), at="shfl.sync"),
    mistake(
        "the collectives stand in a branch of lanes",
        V,
        "collective",
        ("LOWER:\n    bar.warp.sync 0xffffffff;\n", "    bar.warp.sync 0xffffffff;\n"),
        ("    add.u32 %r8, %r8, %r10;\n", "    add.u32 %r8, %r8, %r10;\nLOWER:\n"),
        at=("bar.warp.sync", "shfl.sync"),
    ),
    mistake("half of a warp elects", V, "collective", ("    elect.sync", "    @%p1 elect.sync"), at="elect.sync"),
    mistake("half of a warp synchronises", V, "collective", ("    bar.warp.sync", "    @%p1 bar.warp.sync"), at="bar.warp.sync"),
    mistake(
        "setmaxnreg.inc to fewer registers",
        V,
        "setmaxnreg",
        ("setmaxnreg.inc.sync.aligned.u32 160;", "setmaxnreg.inc.sync.aligned.u32 96;"),
        at="setmaxnreg.inc",
    ),
    mistake(
        "setmaxnreg.dec to more registers",
        V,
        "setmaxnreg",
        ("setmaxnreg.dec.sync.aligned.u32 40;", "setmaxnreg.dec.sync.aligned.u32 160;"),
        at="setmaxnreg.dec",
    ),
    mistake(
        "one warp of a warpgroup changes its registers",
        V,
        "setmaxnreg",
        (
            "    setmaxnreg.dec.sync.aligned.u32 40;\n",
            "    setp.lt.u32 %p4, %r1, 32;\n    @!%p4 bra KEPT;\n    setmaxnreg.dec.sync.aligned.u32 40;\nKEPT:\n",
        ),
        at=("setmaxnreg.dec", "@!%p4 bra KEPT;"),
    ),
    mistake(
        "two changes of registers without a barrier",
        V,
        "setmaxnreg",
        ("    setmaxnreg.dec.sync.aligned.u32 40;\n", "    setmaxnreg.dec.sync.aligned.u32 56;\n    setmaxnreg.dec.sync.aligned.u32 40;\n"),
        at="setmaxnreg.dec.sync.aligned.u32 40;",
        severity="warning",
    ),
)

ACCESSES = (
    mistake("the word behind a variable", X, "out of bounds", ("[words+252]", "[words+256]"), at="[words+256]", severity="warning"),
    mistake("a vector that ends past its variable", X, "out of bounds", ("[%r3+16];", "[%r3+256];"), at="[%r3+256];"),
    mistake(
        "one iteration too many",
        X,
        "out of bounds",
        ("setp.lt.u32 %p3, %r12, 16;", "setp.lt.u32 %p3, %r12, 17;"),
        at="ld.shared.v2",
        severity="warning",
    ),
    mistake("a constant offset far away, in a branch", X, "out of bounds", ("[%r3+128];", "[%r3+4096];"), at="[%r3+4096];"),
    mistake("a negative offset", X, "out of bounds", ("[%r3+128];", "[%r3+-4];"), at="[%r3+-4];", severity="warning"),
    mistake("a vector of four words at a multiple of 8", X, "misaligned", ("[%r3+16];", "[%r3+24];"), at="[%r3+24];"),
    mistake("vectors 4 bytes apart", X, "misaligned", ("shl.b32 %r4, %r1, 3;", "shl.b32 %r4, %r1, 2;"), at="st.shared.v2"),
    mistake(
        "vectors of 16 bytes 8 bytes apart",
        X,
        "misaligned",
        ("mad.wide.u32 %rd2, %r1, 16, %rd1;", "mad.wide.u32 %rd2, %r1, 8, %rd1;"),
        at="st.global.v4",
    ),
    mistake("a misaligned vector in a loop", X, "misaligned", ("shl.b32 %r13, %r12, 4;", "mul.lo.u32 %r13, %r12, 12;"), at="ld.shared.v2"),
)

NOTES = (
    mistake(
        "a value that nothing uses",
        X,
        "unused",
        ("    mov.u32 %r12, 0;\n", "    mov.u32 %r12, 0;\n    add.u32 %r20, %r1, 5;\n"),
        at="add.u32 %r20, %r1, 5;",
        severity="note",
    ),
    mistake(
        "a variable that nothing uses",
        X,
        "unused",
        ("    .shared .align 8 .b64 gate;\n", "    .shared .align 8 .b64 gate;\n    .shared .align 4 .b32 spare;\n"),
        at="spare;",
        severity="note",
    ),
    mistake(
        "a function that nothing calls",
        "tensor_memory_called",
        "unused",
        (".visible .entry k", ".func spare()\n{\n    ret;\n}\n.visible .entry k"),
        at=".func spare()",
        severity="note",
    ),
    mistake(
        "code behind a branch",
        X,
        "unreachable",
        ("STORE:\n", "    bra STORE;\n    add.u32 %r7, %r7, 1;\nSTORE:\n"),
        at="add.u32 %r7, %r7, 1;",
        severity="note",
    ),
    mistake(
        "code behind the return",
        "tensor_memory",
        "unreachable",
        ("DONE:\n    ret;\n", "DONE:\n    ret;\n    st.global.u32 [%rd2], %r1;\n    ret; // again\n"),
        at=("st.global.u32 [%rd2], %r1;", "// again"),
        severity="note",
    ),
)

MISTAKES = (*WARPGROUP, *COPIES, *MBARRIERS, *CLUSTERS, *WARPS, *ACCESSES, *NOTES)
