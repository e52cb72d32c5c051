"""Wrong kernels about descriptors, tensor memory, products and copies of tcgen05."""

from __future__ import annotations

from tests.check.static.dataflow_kernels.mistake import mistake

GRID = "    mov.u32 %r30, %nctaid.x;\n    setp.gt.u32 %p7, %r30, 1;\n"
A = "or.b64 %rd1, %rd1, 0x4000404000010000;"
B = "or.b64 %rd2, %rd2, 0x4000404000010000;"
IDESC = "mov.u32 %r12, 0x08100010;"
MMA = "tcgen05.mma.cta_group::1.kind::f16"
COMMIT = "    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r9];\n"
WAIT = """    mbarrier.try_wait.parity.shared::cta.b64 %p6, [%r9], 0;
    @!%p6 bra WAIT;
"""
TRY = "mbarrier.try_wait.parity.shared::cta.b64 %p6"
LOAD = "tcgen05.ld.sync.aligned.32x32b.x64.b32"
ALLOC = "    @%p2 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 64;\n"
RELINQUISH = "    @%p2 tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n"
DEALLOC = "    @%p2 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r8, 64;\n"
INIT = "    @%p1 mbarrier.init.shared::cta.b64 [done], 1;\n"
FENCE = "    fence.proxy.async.shared::cta;\n"

P, M, C = "tcgen05_product", "tensor_memory", "tensor_memory_called"
S, Z, Q = "tcgen05_scaled", "tcgen05_sparse", "tcgen05_pair"

DESCRIPTORS = (
    mistake("fixed bits of a descriptor are zero", P, "descriptor", (A, A.replace("4040", "0040")), at=MMA),
    mistake("swizzling mode 3", P, "descriptor", (B, B.replace("0x4", "0x6")), at=MMA),
    mistake("a bit of the second fixed field is set", P, "descriptor", (A, A.replace("0x4000", "0x4020")), at=MMA),
    mistake("absolute leading dimension on sm_100a", P, "target", (A, A.replace("0x4000", "0x4010")), at=MMA),
    mistake(
        "a K step of 16 bytes",
        P,
        "K step",
        ("add.u64 %rd1, %rd1, 2;", "add.u64 %rd1, %rd1, 1;"),
        ("add.u64 %rd2, %rd2, 2;", "add.u64 %rd2, %rd2, 1;"),
        at=(MMA, "add.u64 %rd1, %rd1, 1;", "add.u64 %rd2, %rd2, 1;"),
        severity="warning",
    ),
    mistake("K steps leave the tile in a loop", P, "K step", ("add.u64 %rd2, %rd2, 2;", "add.u64 %rd2, %rd2, 256;"), at=MMA),
    mistake("M = 96", P, "M, N and kind", (IDESC, "mov.u32 %r12, 0x06100010;"), at=MMA),
    mistake("M = 256 in one CTA", P, "M, N and kind", (IDESC, "mov.u32 %r12, 0x10100010;"), at=MMA),
    mistake("a reserved bit of the instruction descriptor", P, "instruction descriptor", (IDESC, "mov.u32 %r12, 0x08100050;"), at=MMA),
    mistake("an element type that the kind does not have", P, "M, N and kind", (IDESC, "mov.u32 %r12, 0x08100290;"), at=MMA),
    mistake("sparsity bit of a dense product", P, "sparsity", (IDESC, "mov.u32 %r12, 0x08100014;"), at=MMA),
    mistake("types of another kind", P, "M, N and kind", (MMA, MMA.replace("f16", "tf32")), at="tcgen05.mma.cta_group::1.kind::tf32"),
    mistake(
        "M = 96 on a path",
        P,
        "M, N and kind",
        (IDESC, IDESC + "\n" + GRID + "    @%p7 mov.u32 %r12, 0x06100010;"),
        at=MMA,
        severity="warning",
    ),
    mistake("scale type of another kind", S, "instruction descriptor", ("0x08900000", "0x08100000"), at="kind::mxf8f6f4"),
    mistake("element type 2 of mxf8f6f4", S, "M, N and kind", ("0x08900000", "0x08900100"), at="kind::mxf8f6f4"),
    mistake("K of 96 on sm_100a", S, "target", ("0x08900000", "0x88900000"), at="kind::mxf8f6f4"),
    mistake(
        "fixed bits of the descriptor of a copy",
        S,
        "descriptor",
        ("0x0000400800080000", "0x0000000800080000"),
        at=("[%r12], %rd1;", "[%r13], %rd1;"),
    ),
    mistake("sparse product with the sparsity bit clear", Z, "sparsity", ("0x08080014", "0x08080010"), at="tcgen05.mma.sp"),
    mistake("N = 8 for a pair", Q, "M, N and kind", ("0x10100010", "0x10020010"), at="tcgen05.mma.cta_group::2"),
    mistake("M = 64 for a pair", Q, "M, N and kind", ("0x10100010", "0x04100010"), at="tcgen05.mma.cta_group::2"),
)

PAIRS = (
    mistake("a pair without a cluster", Q, "cta_group", (".reqnctapercluster 2, 1, 1\n", ""), at="tcgen05.alloc"),
    mistake(
        "a pair in a cluster of one CTA",
        Q,
        "cta_group",
        (".reqnctapercluster 2, 1, 1\n", ".reqnctapercluster 1, 1, 1\n"),
        at="tcgen05.alloc",
    ),
    mistake(
        "a pair in a cluster of three CTAs",
        Q,
        "cta_group",
        (".reqnctapercluster 2, 1, 1\n", ".reqnctapercluster 3, 1, 1\n"),
        at="tcgen05.alloc",
    ),
    mistake(
        "commit of another cta_group",
        Q,
        "cta_group",
        ("tcgen05.commit.cta_group::2", "tcgen05.commit.cta_group::1"),
        at="tcgen05.commit",
        refused=True,
    ),
    mistake(
        "commit of a pair in a kernel of one CTA",
        P,
        "cta_group",
        ("tcgen05.commit.cta_group::1", "tcgen05.commit.cta_group::2"),
        at="tcgen05.commit",
        refused=True,
    ),
    mistake(
        "the pair starts without a cluster barrier",
        Q,
        "mbarrier published",
        ("    bar.sync 0;\n    barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;\n", "    bar.sync 0;\n"),
        at=("tcgen05.mma", "tcgen05.commit"),
    ),
    mistake(
        "commit arrives in one CTA of the pair",
        Q,
        "nothing arrives",
        ("shared::cluster.multicast::cluster.b64 [%r10], %h1;", "shared::cluster.b64 [%r10];"),
        at="mbarrier.try_wait",
    ),
    mistake(
        "the mask of the commit names one CTA",
        Q,
        "nothing arrives",
        ("mov.u16 %h1, 3;", "mov.u16 %h1, 1;"),
        at=("mbarrier.try_wait", "tcgen05.commit"),
    ),
)

ALLOCATION = (
    mistake(
        "48 columns",
        P,
        "allocation size",
        (ALLOC, "    mov.u32 %r30, 48;\n" + ALLOC.replace("64;", "%r30;")),
        at="tcgen05.alloc",
    ),
    mistake(
        "1024 columns on a path",
        P,
        "allocation size",
        (ALLOC, GRID + "    selp.b32 %r29, 1024, 64, %p7;\n" + ALLOC.replace("64;", "%r29;")),
        at="tcgen05.alloc",
        severity="warning",
    ),
    mistake("released with another size", P, "release", (DEALLOC, DEALLOC.replace("64;", "32;")), at="tcgen05.dealloc"),
    mistake("never released", P, "leak", (DEALLOC, ""), at=("ret;", "tcgen05.alloc")),
    mistake(
        "an exit without release",
        P,
        "leak",
        ("    ld.shared.b32 %r8, [slot];\n", "    ld.shared.b32 %r8, [slot];\n" + GRID + "    @%p7 bra EXIT;\n"),
        ("    ret;\n", "EXIT:\n    ret;\n"),
        at=("    ret;", "tcgen05.alloc", "bra EXIT;"),
        severity="warning",
    ),
    mistake("released twice", P, "double release", (DEALLOC, DEALLOC + DEALLOC.replace(";\n", "; // again\n")), at="// again"),
    mistake("allocated after giving up the permit", P, "allocation order", (ALLOC + RELINQUISH, RELINQUISH + ALLOC), at="tcgen05.alloc"),
    mistake("never allocated", P, "use before alloc", (ALLOC + RELINQUISH, ""), (DEALLOC, ""), at=("ld.shared.b32 %r8", MMA)),
    mistake(
        "the second allocation is larger",
        M,
        "allocation order",
        ("[%r4], 64;", "[%r4], 32;"),
        ("[%r4+4], 32;", "[%r4+4], 64;"),
        ("%r5, 64;", "%r5, 32;"),
        ("%r6, 32;", "%r6, 64;"),
        at="[%r4+4], 64;",
    ),
    mistake(
        "more columns than there are", M, "allocation size", ("[%r4], 64;", "[%r4], 512;"), ("%r5, 64;", "%r5, 512;"), at="[%r4+4], 32;"
    ),
    mistake(
        "release of columns that were not allocated",
        M,
        "foreign release",
        (
            "    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r6, 32;",
            "    mov.u32 %r6, 0x100;\n    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r6, 32;",
        ),
        at="%r6, 32;",
    ),
    mistake(
        "the second address is read from the first word",
        M,
        "foreign release",
        ("ld.shared.b32 %r6, [%r4+4];", "ld.shared.b32 %r6, [%r4];"),
        at=("%r6, 32;", "%r5, 64;"),
    ),
    mistake(
        "released before the last load",
        M,
        "use after release",
        (
            "    setp.eq.u32 %p3, %r3, 2;",
            "    bar.sync 0;\n    @%p1 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r6, 32;\n"
            "    bar.sync 0;\n    setp.eq.u32 %p3, %r3, 2;",
        ),
        ("%r5, 64;\n    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r6, 32;\n", "%r5, 64;\n"),
        at="{%r15}, [%r9];",
    ),
    mistake(
        "released on one path only",
        M,
        "leak",
        ("    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r6, 32;", "    @%p3 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r6, 32;"),
        at=("    ret;", "[%r4+4], 32;"),
        severity="warning",
    ),
    mistake(
        "released twice on a path",
        M,
        "double release",
        (
            "    add.u32 %r11, %r11, %r15;\n",
            "    add.u32 %r11, %r11, %r15;\n    bar.sync 0;\n    @%p1 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r6, 32; // early\n",
        ),
        at="    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r6, 32;",
        severity="warning",
    ),
    mistake(
        "the address is read without a barrier",
        M,
        "use before alloc",
        ("ALLOCATED:\n    tcgen05.fence::before_thread_sync;\n    bar.sync 0;\n", "ALLOCATED:\n"),
        at=("ld.shared.b32 %r5", "ld.shared.b32 %r6"),
    ),
    mistake(
        "released while other warps load",
        P,
        "use after release",
        (
            "    bar.sync 0;\n    tcgen05.fence::after_thread_sync;\n    @%p2 tcgen05.dealloc",
            "    tcgen05.fence::after_thread_sync;\n    @%p2 tcgen05.dealloc",
        ),
        at=("tcgen05.dealloc", LOAD),
    ),
    mistake(
        "the function that allocates is not called",
        C,
        "use before alloc",
        ("    call.uni allocate, ();\n", ""),
        at=("ld.shared.b32 %r2", "tcgen05.st", "call.uni store"),
    ),
    mistake(
        "a function releases before another one loads",
        C,
        "use after release",
        ("    call.uni (%r3), load, (%r4);\n", "    call.uni free, (%r2);\n    call.uni (%r3), load, (%r4);\n"),
        ("    call.uni free, (%r2);\n    ret;", "    ret;"),
        at=("tcgen05.ld", "call.uni (%r3), load"),
    ),
    mistake(
        "the function that releases is called twice",
        C,
        "double release",
        ("    call.uni free, (%r2);\n", "    call.uni free, (%r2);\n    call.uni free, (%r2); // again\n"),
        at=("tcgen05.dealloc", "// again"),
    ),
    mistake(
        "the function that releases is not called",
        C,
        "leak",
        ("    call.uni free, (%r2);\n", ""),
        at=("tcgen05.alloc", "call.uni allocate", "    st.global.u32 [%rd2], %r3;"),
    ),
)

RANGES = (
    mistake(
        "64 columns loaded from column 32 of 64",
        P,
        "columns out of range",
        ("add.u32 %r14, %r14, %r8;", "add.u32 %r14, %r14, %r8;\n    add.u32 %r14, %r14, 32;"),
        at=LOAD,
    ),
    mistake(
        "an accumulator wider than the allocation",
        P,
        "columns out of range",
        (ALLOC, ALLOC.replace("64;", "32;")),
        (DEALLOC, DEALLOC.replace("64;", "32;")),
        at=(MMA, LOAD),
    ),
    mistake(
        "one column behind the allocation",
        M,
        "columns out of range",
        ("add.u32 %r9, %r9, 31;", "add.u32 %r9, %r9, 32;"),
        at=("tcgen05.st.sync.aligned.32x32b.x1.b32", "{%r15}, [%r9];"),
    ),
    mistake(
        "an argument behind the allocation",
        C,
        "columns out of range",
        ("add.u32 %r4, %r2, 0;", "add.u32 %r4, %r2, 32;"),
        at=("tcgen05.ld", "call.uni (%r3), load"),
    ),
    mistake(
        "a copy behind the allocation",
        S,
        "columns out of range",
        ("add.u32 %r13, %r8, 196;", "add.u32 %r13, %r8, 254;"),
        at=("[%r13], %rd1;", "kind::mxf8f6f4"),
    ),
    mistake("warps load 16 lanes apart", P, "lanes", ("shl.b32 %r14, %r2, 21;", "shl.b32 %r14, %r2, 20;"), at=LOAD),
    mistake(
        "warps store in the lanes of their neighbour",
        M,
        "lanes",
        ("shl.b32 %r7, %r2, 21;", "xor.b32 %r7, %r2, 1;\n    shl.b32 %r7, %r7, 21;"),
        at=("{%r1, %r10};", "{%r13, %r14}, [%r8];"),
    ),
)

ALIGNED = (
    mistake("one thread allocates", P, "aligned", (ALLOC, ALLOC.replace("%p2", "%p1")), at="tcgen05.alloc"),
    mistake("a load under a predicate of one lane", P, "aligned", ("    tcgen05.ld.sync", "    @%p1 tcgen05.ld.sync"), at=LOAD),
    mistake(
        "a branch of one lane around the allocation",
        M,
        "aligned",
        ("setp.eq.u32 %p1, %r2, 0;", "setp.eq.u32 %p1, %r1, 0;"),
        at=("[%r4], 64;", "%r5, 64;"),
    ),
    mistake(
        "a branch that depends on the lane around a load",
        M,
        "aligned",
        ("setp.eq.u32 %p3, %r3, 2;", "setp.eq.u32 %p3, %r1, 2;"),
        at="{%r15}, [%r9];",
    ),
    mistake(
        "lanes leave the loop one after the other",
        M,
        "aligned",
        ("setp.lt.u32 %p2, %r12, %r3;", "setp.lt.u32 %p2, %r12, %r1;"),
        at="{%r13, %r14}, [%r8];",
    ),
    mistake("a warp of 16 threads", C, "aligned", (".reqntid 32, 1, 1", ".reqntid 16, 1, 1"), at=("tcgen05.alloc", "call.uni allocate")),
)

WAITS = (
    mistake(
        "no wait after a load",
        P,
        "wait::ld",
        ("    tcgen05.wait::ld.sync.aligned;\n", ""),
        at="add.f32 %f0, %f0, %f63;",
        severity="warning",
    ),
    mistake(
        "two warps do not wait after a load",
        P,
        "wait::ld",
        ("    tcgen05.wait::ld.sync.aligned;\n", "    setp.lt.u32 %p7, %r2, 2;\n    @%p7 tcgen05.wait::ld.sync.aligned;\n"),
        at="add.f32 %f0, %f0, %f63;",
        severity="warning",
    ),
    mistake(
        "the wait stands behind the use",
        P,
        "wait::ld",
        (
            "    tcgen05.wait::ld.sync.aligned;\n    add.f32 %f0, %f0, %f63;\n",
            "    add.f32 %f0, %f0, %f63;\n    tcgen05.wait::ld.sync.aligned;\n",
        ),
        at="add.f32 %f0, %f0, %f63;",
        severity="warning",
    ),
    mistake(
        "no wait after a load in a loop",
        M,
        "wait::ld",
        ("[%r8];\n    tcgen05.wait::ld.sync.aligned;\n", "[%r8];\n"),
        at="add.u32 %r11, %r11, %r13;",
        severity="warning",
    ),
    mistake(
        "no wait after a load in a branch",
        M,
        "wait::ld",
        ("[%r9];\n    tcgen05.wait::ld.sync.aligned;\n", "[%r9];\n"),
        at="add.u32 %r11, %r11, %r15;",
        severity="warning",
    ),
    mistake(
        "no wait after a load in a function",
        C,
        "wait::ld",
        ("    tcgen05.wait::ld.sync.aligned;\n", ""),
        at="add.u32 %value, %v, 1;",
        severity="warning",
    ),
    mistake("no wait between store and load", M, "wait::st", ("    tcgen05.wait::st.sync.aligned;\n", ""), at="{%r13, %r14}, [%r8];"),
    mistake(
        "no wait after a store in a function",
        C,
        "wait::st",
        ("    tcgen05.wait::st.sync.aligned;\n", ""),
        at=("tcgen05.ld", "tcgen05.st", "call.uni (%r3), load"),
    ),
    mistake(
        "no wait between the store of metadata and the product",
        Z,
        "wait::st",
        ("    tcgen05.wait::st.sync.aligned;\n", ""),
        at=("tcgen05.mma.sp", "tcgen05.st"),
    ),
)

COMPLETION = (
    mistake("a product is never committed", P, "never committed", (COMMIT, ""), at=(MMA, TRY)),
    mistake(
        "a copy is never committed",
        S,
        "never committed",
        ("    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r10];\n", ""),
        at=("[%r12], %rd1;", "[%r13], %rd1;", "%p4, [%r10], 0;"),
    ),
    mistake("nobody waits for the commit", P, "commit not waited for", ("WAIT:\n" + WAIT, "WAIT:\n"), at=(LOAD, "tcgen05.commit")),
    mistake(
        "only a part of the warps waits for the commit",
        P,
        "commit not waited for",
        ("WAIT:\n" + WAIT, "WAIT:\n    @!%p2 bra WAITED;\n" + WAIT + "WAITED:\n"),
        at=(LOAD, "tcgen05.commit"),
        severity="warning",
    ),
    mistake(
        "a wait for the parity before the first phase",
        P,
        "commit not waited for",
        ("[%r9], 0;", "[%r9], 1;"),
        at=(LOAD, TRY, "tcgen05.commit"),
    ),
    mistake(
        "the commit arrives on another barrier",
        P,
        "nothing arrives",
        ("    .shared .align 4 .b32 slot;\n", "    .shared .align 4 .b32 slot;\n    .shared .align 8 .b64 other;\n"),
        (INIT, INIT + INIT.replace("done", "other")),
        (COMMIT, "    mov.u32 %r30, other;\n" + COMMIT.replace("%r9", "%r30")),
        at=(TRY, "tcgen05.commit"),
    ),
    mistake("the barrier of the commit is not initialised", P, "mbarrier init", (INIT, ""), at=("tcgen05.commit", TRY)),
    mistake(
        "the barrier of the commit expects two arrivals", P, "nothing arrives", (INIT, INIT.replace("1;", "2;")), at=(TRY, "tcgen05.commit")
    ),
)

PROXIES = (
    mistake("no proxy fence before a product", P, "fence.proxy", (FENCE, ""), at=(MMA, "[%r4], {%r6", "[%r5], {%r6")),
    mistake(
        "only one warp has the proxy fence",
        P,
        "fence.proxy",
        (FENCE, FENCE.replace("    fence", "    @%p2 fence")),
        at=(MMA, "[%r4], {%r6", "[%r5], {%r6"),
        severity="warning",
    ),
    mistake(
        "the proxy fence stands before the second loop",
        P,
        "fence.proxy",
        (FENCE, ""),
        ("    mov.u32 %r7, 0;\nFILL_B:\n", FENCE + "    mov.u32 %r7, 0;\nFILL_B:\n"),
        at=(MMA, "[%r5], {%r6"),
    ),
    mistake(
        "no proxy fence before a copy to tensor memory", S, "fence.proxy", (FENCE, ""), at=("[%r12], %rd1;", "[%r4], %r6;", "[%r13], %rd1;")
    ),
)

COLLECTOR = (
    mistake("a collector buffer that nothing filled", S, "collector", (".collector::a::fill", ""), at="collector::a::lastuse"),
    mistake(
        "a collector buffer that was discarded",
        S,
        "collector",
        (".collector::a::fill", ".collector::a::discard"),
        at="collector::a::lastuse",
    ),
    mistake(
        "a collector buffer with another A",
        S,
        "collector",
        (
            "    tcgen05.mma.cta_group::1.kind::f8f6f4.collector::a::lastuse [%r19], %rd2",
            "    add.u64 %rd4, %rd2, 2;\n    tcgen05.mma.cta_group::1.kind::f8f6f4.collector::a::lastuse [%r19], %rd4",
        ),
        at="collector::a::lastuse",
    ),
)

MISTAKES = (*DESCRIPTORS, *PAIRS, *ALLOCATION, *RANGES, *ALIGNED, *WAITS, *COMPLETION, *PROXIES, *COLLECTOR)
