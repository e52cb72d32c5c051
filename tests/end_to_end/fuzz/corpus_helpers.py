"""What the fuzzer mutates: small modules that touch every part of the machine, and launch files."""

from __future__ import annotations

HEADER = ".version 8.7\n.target sm_100a\n.address_size 64\n"

LOOP = (
    HEADER
    + """
.visible .entry k(.param .u64 .ptr .global .align 4 k_0, .param .u32 k_1)
.maxntid 64
{
    .reg .pred %p<3>; .reg .b32 %r<9>; .reg .f32 %f<3>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [k_0]; ld.param.u32 %r1, [k_1];
    mov.u32 %r2, %tid.x; mov.u32 %r3, 0; mov.f32 %f1, 0f3F800000;
L0: add.s32 %r3, %r3, 1; fma.rn.f32 %f1, %f1, %f1, 0f3F000000;
    setp.lt.s32 %p1, %r3, %r1;
    @%p1 bra L0;
    and.b32 %r5, %r2, 63; mul.wide.u32 %rd2, %r5, 4; add.s64 %rd3, %rd1, %rd2;
    { .reg .b32 t; xor.b32 t, %r3, 3; @!%p1 st.global.u32 [%rd3], t; }
    shfl.sync.bfly.b32 %r6|%p2, %r3, 1, 31, -1;
    @%p2 atom.global.add.u32 %r7, [%rd1], %r6;
    ret;
}
"""
)

SHARED = (
    HEADER
    + """
.extern .shared .align 16 .b8 dyn[];
.shared .align 8 .b64 bar;
.global .align 4 .b32 table[4] = {1, 2, 3, 0x7fffffff};
.visible .entry k(.param .u64 k_0, .param .u32 k_1)
.reqntid 64, 1, 1
{
    .reg .pred %p<4>; .reg .b32 %r<12>; .reg .b64 %rd<6>;
    .loc 1 1 1
    mov.u32 %r1, %tid.x; mov.b32 %r2, dyn; shl.b32 %r3, %r1, 4; add.s32 %r4, %r2, %r3;
    st.shared.v4.b32 [%r4], {%r1, %r2, %r3, 7};
    setp.eq.u32 %p1, %r1, 0; mov.b32 %r5, bar;
    @%p1 mbarrier.init.shared::cta.b64 [%r5], 64;
    bar.sync 0;
    mbarrier.arrive.shared::cta.b64 _, [%r5];
W:  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r5], 0;
    @!%p2 bra W;
    ld.shared.v2.b32 {%r6, %r7}, [%r4+8];
    ld.param.u64 %rd1, [k_0]; cvta.to.global.u64 %rd2, %rd1; mad.wide.u32 %rd3, %r1, 4, %rd2;
    st.global.b32 [%rd3], %r7;
    mov.u64 %rd4, table; ld.global.b32 %r8, [%rd4+12];
    vote.sync.ballot.b32 %r9, %p1, -1; elect.sync %r10|%p3, -1;
    @%p3 st.global.v2.b32 [%rd2], {%r9, %r8};
    exit;
}
.file 1 "k.py"
"""
)

TENSOR = (
    HEADER
    + """
.extern .shared .align 1024 .b8 dyn[];
.visible .entry k(.param .u64 k_0, .param .u32 k_1)
.reqntid 128
{
    .reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %rd<8>;
    mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32; mov.b32 %r2, dyn;
    @%p1 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r2], 32;
    setp.eq.u32 %p2, %r1, 0; add.s32 %r3, %r2, 16;
    @%p2 mbarrier.init.shared::cta.b64 [%r3], 1;
    bar.sync 0;
    ld.shared.b32 %r4, [%r2]; shr.u32 %r5, %r1, 5; shl.b32 %r6, %r5, 21; add.s32 %r7, %r6, %r4;
    tcgen05.st.sync.aligned.32x32b.x2.b32 [%r7], {%r1, %r5};
    tcgen05.wait::st.sync.aligned;
    mov.b64 %rd1, 0x4000404000010080; mov.b32 %r8, 0x8040010; mov.pred %p3, -1;
    @%p2 tcgen05.mma.cta_group::1.kind::f16 [%r4], %rd1, %rd1, %r8, %p3;
    @%p2 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r3];
W:  mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r3], 0;
    @!%p1 bra W;
    tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r9, %r10}, [%r7];
    tcgen05.wait::ld.sync.aligned;
    bar.sync 0; setp.lt.u32 %p1, %r1, 32;
    @%p1 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r4, 32;
    ret;
}
"""
)

COPY = (
    HEADER
    + """
.extern .shared .align 128 .b8 dyn[];
.visible .entry k(.param .u64 k_0, .param .u32 k_1, .param .align 64 .b8 k_2[128])
{
    .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<5>;
    mov.u32 %r1, %tid.x; mov.b32 %r2, dyn; ld.param.u64 %rd1, [k_0];
    shl.b32 %r3, %r1, 4; add.s32 %r4, %r2, %r3; cvt.u64.u32 %rd2, %r3; add.s64 %rd3, %rd1, %rd2;
    cp.async.cg.shared.global [%r4], [%rd3], 16;
    cp.async.commit_group; cp.async.wait_group 0;
    mov.b32 %r5, k_2; cvt.u64.u32 %rd4, %r5; cvta.param.u64 %rd4, %rd4; setp.eq.u32 %p1, %r1, 0;
    add.s32 %r6, %r2, 2048; @%p1 mbarrier.init.shared::cta.b64 [%r6], 1; bar.sync 0;
    @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r6], 128;
    @%p1 cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r2], [%rd4, {0, %r3}], [%r6];
W:  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r6], 0; @!%p2 bra W;
    @%p1 cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd4, {0, 0}], [%r2];
    cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;
    ret;
}
"""
)

CALLS = (
    HEADER
    + """
.const .align 8 .b32 weights[8] = {1, 2, 4, 8, 16, 32, 64, 128};
.shared .align 16 .b32 sums[16];
.func (.param .b32 r) scaled(.param .b32 x, .param .align 8 .b8 pair[8])
{
    .reg .b32 %r<9>;
    ld.param.b32 %r1, [x]; ld.param.v2.b32 {%r2, %r3}, [pair];
    mad.lo.s32 %r4, %r1, %r2, %r3;
    st.param.b32 [r], %r4;
    ret;
}
.visible .entry k(.param .u64 k_0, .param .u32 k_1)
.reqntid 32
{
    .reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %rd<6>; .local .align 8 .b8 frame[16];
    mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 7; shl.b32 %r3, %r2, 2; mov.b64 %rd3, weights; cvt.u64.u32 %rd4, %r3;
    add.s64 %rd5, %rd3, %rd4; ld.const.b32 %r5, [%rd5]; mov.b32 %r6, frame; st.local.v2.b32 [%r6], {%r5, 3};
    mov.b32 %r7, sums; add.s32 %r8, %r7, %r3; st.shared.b32 [%r8], 0; bar.warp.sync -1;
    {
        .param .b32 p0; .param .align 8 .b8 p1[8]; .param .b32 q;
        ld.local.v2.b32 {%r9, %r10}, [%r6];
        st.param.b32 [p0], %r1; st.param.v2.b32 [p1], {%r9, %r10};
        call.uni (q), scaled, (p0, p1);
        ld.param.b32 %r11, [q];
    }
    atom.shared.add.u32 %r12, [%r8], %r11; atom.shared.cas.b32 %r13, [%r7+32], 0, %r1; red.shared.max.s32 [%r7+36], %r11;
    and.b32 %r14, %r1, 8; shl.b32 %r14, %r14, 1; add.s32 %r14, %r7, %r14;
    ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r15}, [%r14];
    setp.gt.u32 %p1, %r1, 15; @%p1 bra OUT;
    redux.sync.add.s32 %r16, %r15, 0xffff;
OUT: bar.warp.sync -1; ld.shared.b32 %r17, [%r8];
    ld.param.u64 %rd1, [k_0]; mad.wide.u32 %rd2, %r1, 4, %rd1; st.global.b32 [%rd2], %r17;
    ret;
}
"""
)

CLUSTER = (
    HEADER
    + """
.shared .align 128 .b8 map[128];
.shared .align 8 .b64 bar;
.visible .entry k(.param .u64 k_0, .param .u32 k_1)
.reqntid 32 .reqnctapercluster 2
{
    .reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %rd<8>;
    mov.u32 %r1, %tid.x; mov.u32 %r2, %cluster_ctarank; xor.b32 %r3, %r2, 1; setp.eq.u32 %p1, %r1, 0;
    mov.b32 %r4, bar; @%p1 mbarrier.init.shared::cta.b64 [%r4], 1; fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    mapa.shared::cluster.u32 %r5, %r4, %r3;
    @%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r5];
W:  mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r4], 0; @!%p2 bra W;
    mov.b32 %r6, map; shl.b32 %r7, %r1, 2; add.s32 %r8, %r6, %r7; st.shared.b32 [%r8], 0; bar.sync 0;
    ld.param.u64 %rd1, [k_0]; cvt.u64.u32 %rd2, %r6;
    @%p1 tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r6], %rd1;
    @%p1 tensormap.replace.tile.rank.shared::cta.b1024.b32 [%r6], 1;
    @%p1 tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r6], 0, 32;
    @%p1 tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r6], 0, 64;
    @%p1 tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%r6], 7;
    bar.sync 0; mapa.shared::cluster.u32 %r9, %r8, %r3; ld.shared::cluster.b32 %r10, [%r9];
    cvta.shared.u64 %rd3, %rd2; mapa.u64 %rd4, %rd3, %r3; ld.b32 %r11, [%rd4];
    mad.wide.u32 %rd5, %r1, 4, %rd1; @%p1 st.global.b32 [%rd5], %r10;
    barrier.cluster.arrive; barrier.cluster.wait;
    ret;
}
"""
)

MODULES = (LOOP, SHARED, TENSOR, COPY, CALLS, CLUSTER)

LAUNCHED = (
    HEADER
    + """
.visible .entry k(.param .u64 A, .param .u64 B, .param .u64 C, .param .u32 n, .param .align 64 .b8 m[128], .param .u64 none)
{
    .reg .b32 %r<3>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [C]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r1;
    ret;
}
.visible .entry copy(.param .u64 from, .param .u64 to, .param .align 8 .b8 pair[16], .param .f32 x)
.reqntid 32
{
    .reg .b32 %r<5>; .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [from]; ld.param.u64 %rd2, [to]; ld.param.b32 %r3, [pair+8];
    mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
    ld.global.b32 %r2, [%rd4]; add.u32 %r2, %r2, %r3; st.global.b32 [%rd5], %r2;
    ret;
}
.visible .entry pair(.param .u64 out, .param .align 64 .b8 m[128])
.reqnctapercluster 2
{
    .reg .b32 %r<5>; .reg .b64 %rd<4>;
    barrier.cluster.arrive; barrier.cluster.wait;
    setmaxnreg.inc.sync.aligned.u32 64;
    ld.param.u64 %rd1, [out]; mov.u32 %r1, %ctaid.x; mul.wide.u32 %rd2, %r1, 8; add.s64 %rd3, %rd1, %rd2; st.global.b32 [%rd3], %r1;
    ret;
}
"""
)
"""``k.ptx`` of the launch files."""

LAUNCH_FILES = (
    """
ptx = "k.ptx"
kernel = "k"
grid = [2, 1, 1]
block = 64
shared_bytes = 4096
policy = "eager"
check = "all"
[[args]]
name = "A"
array = {shape = [8, 8], dtype = "float16", fill = "normal", seed = 1, scale = 0.1}
[[args]]
name = "B"
array = {shape = [8, 8], dtype = "bfloat16", fill = "integers", low = 0, high = 7}
[[args]]
name = "C"
array = {shape = [8, 8], dtype = "float32"}
[[args]]
value = 512
dtype = "i32"
[[args]]
tensor_map = {array = "A", box = [8, 8], swizzle = "none"}
[[args]]
null = true
[[expect]]
name = "C"
matmul = ["A", "B"]
rtol = 1e-2
atol = 1e-3
""",
    """
ptx = "k.ptx"
kernel = "copy"
target = "sm_100a"
grid = 3
only = [[0, 0, 0], [2, 0, 0]]
policy = "random"
seed = 7
check = ["memory", "race", "barrier"]
max_instructions = 5000
contract = false
[[args]]
name = "from"
npy = "a.npy"
[[args]]
name = "to"
array = {shape = [32], dtype = "uint32", fill = "arange"}
[[args]]
bytes = "00112233445566770000000000000000"
[[args]]
value = 1.5
dtype = "f32"
[[expect]]
name = "to"
equals = "from"
exact = true
[[expect]]
name = "from"
npy = "a.npy"
""",
    """
ptx = "k.ptx"
kernel = "pair"
grid = [4, 1, 1]
block = [32, 4, 1]
cluster = [2, 1, 1]
registers = 64
shared_bytes = 0
tmem_offset = 64
model = "spec"
policy = "lazy"
[[args]]
name = "out"
array = {shape = [16, 16], dtype = "float32"}
[[args]]
tensor_map = {array = "out", box = [8, 4], dims = [16, 16], strides = [64], element_strides = [1, 2], swizzle = "32B", oob_fill = "nan"}
[[expect]]
name = "out"
matmul = ["out", "out"]
transpose_a = true
transpose_b = true
atol = 100
""",
)

_WORDS = """
%r1 %r2 %rd1 %rd2 %p1 %p2 %f1 %tid.x %ctaid.x %clock64 dyn bar table k_0 k_1 k_2 L0 W { } [ ] ( ) , ; : @ @! ! | + - _ < > = .
0 1 -1 7 16 31 32 64 128 0x80000000 4294967296 18446744073709551615 99999999999999999999 0f7FC00000 0d7FF0000000000000 1e400
.reg .pred .b8 .b16 .b32 .b64 .b128 .f32 .f64 .shared .global .param .local .const .extern .visible .entry .func .align .version .target
.loc .file .section .pragma .reqntid .maxntid add.s32 add.f32 mul.wide.u32 mov.b64 ld.global.u32 ld.shared.v4.b32 st.global.b32
st.local.b32 bra brx.idx call ret exit trap bar.sync mbarrier.init.shared::cta.b64 tcgen05.mma.cta_group::1.kind::f16 tcgen05.alloc
cvt.rn.f16x2.f32 div.s32 setmaxnreg.inc.sync.aligned.u32 nanosleep.u32 // /* */ " ' \\ é 💥
"""
WORDS = (*_WORDS.split(), "\0", "\t", "\n")
