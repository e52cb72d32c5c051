# ruff: noqa: E501 (one line for each syntax)
"""Syntax of PTX instructions of all families, written from the PTX ISA, section "Instructions" and its subsections.

One line for each syntax: an optional weight, the opcode, a semicolon, the operands::

    (name=a|b)   one of the modifiers        (a|b)   the same without a name
    {name=a|b}   one of them or none         $NAME   a list of `LISTS`

The lines say what the sections' syntax says, not which combinations its text forbids: that is for the assembler to judge. Operands::

    d:T   destination register of type T        r:T   register of type T       s:T   register or constant of type T
    m:S   address in state space S              i:..  constant: a|b|c or lo-hi  =x    x itself
    tm    tensor map and coordinates            p     predicate                name?X  X, if the group is there
    ~X    X or nothing                          X/Y   the pair X|Y             <name>  what the group matched
"""

from __future__ import annotations

__all__ = ["FAMILIES", "LISTS"]

LISTS = {
    "INT": "u16|u32|u64|s16|s32|s64",
    "CARRY": "u32|s32|u64|s64",
    "RND": "rn|rz|rm|rp",
    "IRND": "rni|rzi|rmi|rpi",
    "BITS": "b16|b32|b64",
    "ANY": "b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64",
    "MEMORY": "b8|b16|b32|b64|u8|u16|u32|u64|s8|s16|s32|s64|f32|f64",
    "FCMP": "eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan",
    "UCMP": "eq|ne|lt|le|gt|ge|lo|ls|hi|hs",
    "SCMP": "eq|ne|lt|le|gt|ge",
    "SCOPE": "cta|cluster|gpu|sys",
    "SPACE": "global|shared|shared::cta|shared::cluster|local|const",
    "SHARED": "shared|shared::cta",
    "L1": "L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate",
    "L2": "L2::evict_normal|L2::evict_first|L2::evict_last",
    "FETCH": "L2::64B|L2::128B|L2::256B",
    "INT8": "u8|s8|u16|s16|u32|s32|u64|s64",
    "F8": "e4m3x2|e5m2x2",
    "F64X2": "e2m3x2|e3m2x2|e2m1x2",
    "NARROW": "e4m3|e5m2|e3m2|e2m3|e2m1",
    "NARROW4": "e5m2x4|e4m3x4|e3m2x4|e2m3x4|e2m1x4|ue8m0x4",
    "DIM": "1d|2d|3d|4d|5d",
    "ROP": "add|min|max|inc|dec|and|or|xor",
    "COLLECTOR": "collector::a::fill|collector::a::use|collector::a::lastuse|collector::a::discard",
    "GROUP": "cta_group::1|cta_group::2",
}

LISTS |= {f"M64K{k}": "|".join(f"m64n{n}k{k}" for n in range(8, 257, 8)) for k in (8, 16, 32, 64, 256)}

FAMILIES: dict[str, str] = {
    "integer": """
        (add|sub)(t=$INT) ; d:<t>, s:<t>, s:<t>
        (add|sub).sat.s32 ; d:s32, s:s32, s:s32
        (add|sub).cc(t=$CARRY) ; d:<t>, s:<t>, s:<t>
        (addc|subc){cc}(t=$CARRY) ; d:<t>, s:<t>, s:<t>
        mul(mode=lo|hi)(t=$INT) ; d:<t>, s:<t>, s:<t>
        mul.wide(t=u16|s16|u32|s32) ; d:<t>*2, s:<t>, s:<t>
        mad(mode=lo|hi)(t=$INT) ; d:<t>, s:<t>, s:<t>, s:<t>
        mad.wide(t=u16|s16|u32|s32) ; d:<t>*2, s:<t>, s:<t>, s:<t>*2
        mad.hi.sat.s32 ; d:s32, s:s32, s:s32, s:s32
        mad(lo|hi).cc(t=$CARRY) ; d:<t>, s:<t>, s:<t>, s:<t>
        madc(lo|hi){cc}(t=$CARRY) ; d:<t>, s:<t>, s:<t>, s:<t>
        clmad(lo|hi).u64 ; d:u64, s:u64, s:u64, s:u64
        mul24(lo|hi)(t=u32|s32) ; d:<t>, s:<t>, s:<t>
        mad24(lo|hi)(t=u32|s32) ; d:<t>, s:<t>, s:<t>, s:<t>
        mad24.hi.sat.s32 ; d:s32, s:s32, s:s32, s:s32
        sad(t=$INT) ; d:<t>, s:<t>, s:<t>, s:<t>
        (div|rem)(t=$INT) ; d:<t>, s:<t>, s:<t>
        (abs|neg)(t=s16|s32|s64) ; d:<t>, s:<t>
        (min|max)(t=$INT) ; d:<t>, s:<t>, s:<t>
        (min|max).relu.s32 ; d:s32, s:s32, s:s32
        (popc|clz)(t=b32|b64) ; d:u32, s:<t>
        bfind{shiftamt}(t=$CARRY) ; d:u32, s:<t>
        fns.b32 ; d:b32, s:b32, s:b32, s:s32
        brev(t=b32|b64) ; d:<t>, s:<t>
        bfe(t=$CARRY) ; d:<t>, s:<t>, s:u32, s:u32
        bfi(t=b32|b64) ; d:<t>, s:<t>, s:<t>, s:u32, s:u32
        szext(clamp|wrap)(t=u32|s32) ; d:<t>, s:<t>, s:u32
        bmsk(clamp|wrap).b32 ; d:b32, s:u32, s:u32
        dp4a(a=u32|s32)(b=u32|s32) ; d:b32, s:<a>, s:<b>, s:b32
        dp2a(lo|hi)(a=u32|s32)(b=u32|s32) ; d:b32, s:<a>, s:<b>, s:b32
        shf(l|r)(clamp|wrap).b32 ; d:b32, s:b32, s:b32, s:u32
        prmt.b32{f4e|b4e|rc8|ecl|ecr|rc16} ; d:b32, s:b32, s:b32, s:b32
        vadd(a=u32|s32)(b=u32|s32)(c=u32|s32){sat} ; d:<a>, r:<b>, r:<c>
        vmad(a=u32|s32)(b=u32|s32)(c=u32|s32){shr7|shr15} ; d:<a>, r:<b>, r:<c>, r:b32
        vset.u32.u32($SCMP) ; d:u32, r:u32, r:u32
    """,
    "float": """
        2*(add|sub|mul){$RND}{ftz}{sat}.f32 ; d:f32, s:f32, s:f32
        (add|sub|mul){$RND}.f64 ; d:f64, s:f64, s:f64
        (add|sub){$RND}{sat}.f32(t=f16|bf16) ; d:f32, r:<t>, s:f32
        (fma|mad)($RND){ftz}{sat}.f32 ; d:f32, s:f32, s:f32, s:f32
        (fma|mad)($RND).f64 ; d:f64, s:f64, s:f64, s:f64
        fma($RND){sat}.f32(t=f16|bf16) ; d:f32, r:<t>, r:<t>, s:f32
        div(approx|full|$RND){ftz}.f32 ; d:f32, s:f32, s:f32
        div($RND).f64 ; d:f64, s:f64, s:f64
        (abs|neg){ftz}.f32 ; d:f32, s:f32
        (abs|neg).f64 ; d:f64, s:f64
        (min|max){ftz}{NaN}{xorsign.abs}.f32 ; d:f32, s:f32, s:f32
        (min|max){ftz}{NaN}{abs}.f32 ; d:f32, s:f32, s:f32, s:f32
        (min|max).f64 ; d:f64, s:f64, s:f64
        (rcp|sqrt)(approx|$RND){ftz}.f32 ; d:f32, s:f32
        (rcp|sqrt)($RND).f64 ; d:f64, s:f64
        rcp.approx.ftz.f64 ; d:f64, s:f64
        rsqrt.approx{ftz}(t=f32|f64) ; d:<t>, s:<t>
        (sin|cos|lg2|ex2).approx{ftz}.f32 ; d:f32, s:f32
        tanh.approx.f32 ; d:f32, s:f32
        testp(finite|infinite|number|notanumber|normal|subnormal)(t=f32|f64) ; d:pred, s:<t>
        copysign(t=f32|f64) ; d:<t>, s:<t>, s:<t>
    """,
    "half": """
        (add|sub|mul){rn}{ftz}{sat}(t=f16|f16x2) ; d:<t>, r:<t>, r:<t>
        (add|sub|mul){rn}(t=bf16|bf16x2) ; d:<t>, r:<t>, r:<t>
        (add|sub|mul){$RND}{ftz}.f32x2 ; d:f32x2, r:f32x2, r:f32x2
        fma($RND){ftz}.f32x2 ; d:f32x2, r:f32x2, r:f32x2, r:f32x2
        fma.rn{ftz}{sat}(t=f16|f16x2) ; d:<t>, r:<t>, r:<t>, r:<t>
        fma.rn{ftz}{relu}(t=f16|f16x2) ; d:<t>, r:<t>, r:<t>, r:<t>
        fma.rn{relu}(t=bf16|bf16x2) ; d:<t>, r:<t>, r:<t>, r:<t>
        fma.rn.oob{relu}(t=f16|f16x2|bf16|bf16x2) ; d:<t>, r:<t>, r:<t>, r:<t>
        (abs|neg){ftz}(t=f16|f16x2) ; d:<t>, r:<t>
        (abs|neg)(t=bf16|bf16x2) ; d:<t>, r:<t>
        (min|max){ftz}{NaN}{xorsign.abs}(t=f16|f16x2) ; d:<t>, r:<t>, r:<t>
        (min|max){NaN}{xorsign.abs}(t=bf16|bf16x2) ; d:<t>, r:<t>, r:<t>
        (tanh|ex2).approx(t=f16|f16x2) ; d:<t>, r:<t>
        ex2.approx.ftz(t=bf16|bf16x2) ; d:<t>, r:<t>
        tanh.approx(t=bf16|bf16x2) ; d:<t>, r:<t>
        (add|sub){sat}(t=u16x2|s16x2|u8x4|s8x4) ; d:<t>, r:<t>, r:<t>
        add{sat}(t=u32|s32) ; d:<t>, s:<t>, s:<t>
        neg.s8x4 ; d:s8x4, r:s8x4
        (min|max){relu}(t=s16x2|s8x4) ; d:<t>, s:<t>, s:<t>
        (min|max)(t=u16x2|u8x4) ; d:<t>, s:<t>, s:<t>
        set($SCMP)(t=u8x4|s8x4|u16x2|s16x2) ; d:<t>, r:<t>, r:<t>
        (add|sub){rn}{satfinite}(to=e5m2x4|e4m3x4)(a=$NARROW4) ; d:b32, r:b32, r:b32
    """,
    "convert": """
        3*cvt{$RND}{$IRND}{ftz}{sat}(d=$INT8|f16|bf16|f32|f64)(a=$INT8|f16|bf16|f32|f64) ; d:<d>, r:<a>
        3*cvt($IRND){ftz}{sat}(d=$INT8)(a=f16|bf16|f32|f64) ; d:<d>, r:<a>
        3*cvt($RND){ftz}{sat}(d=f16|bf16|f32|f64)(a=$INT8) ; d:<d>, r:<a>
        3*cvt{sat}(d=$INT8)(a=$INT8) ; d:<d>, r:<a>
        2*cvt{$RND}{ftz}{sat}(d=f16|bf16|f32|f64)(a=f16|bf16|f32|f64) ; d:<d>, r:<a>
        cvt($IRND){ftz}{sat}(d=f16|bf16|f32|f64)(a=f16|bf16|f32|f64) ; d:<d>, r:<a>
        2*cvt(rn|rz){relu}{satfinite}(d=f16|bf16).f32 ; d:<d>, s:f32
        2*cvt(rn|rz){relu}{satfinite}(d=f16x2|bf16x2).f32 ; d:<d>, s:f32, s:f32
        cvt.rs{relu}{satfinite}(d=f16x2|bf16x2).f32 ; d:<d>, s:f32, s:f32, s:b32
        cvt.rna{satfinite}.tf32.f32 ; d:b32, s:f32
        cvt(rn|rz){satfinite}{relu}.tf32.f32 ; d:b32, s:f32
        2*cvt.rn.satfinite{relu}($F8|e2m3x2|e3m2x2).f32 ; d:b16, s:f32, s:f32
        cvt.rn.satfinite{relu}($F8|e2m3x2|e3m2x2)(a=f16x2|bf16x2) ; d:b16, r:<a>
        2*cvt.rn{relu}.f16x2($F8|e2m3x2|e3m2x2) ; d:f16x2, r:b16
        cvt.rn{relu}{satfinite}.bf16x2($F8|e2m3x2|e3m2x2|s2f6x2) ; d:bf16x2, r:b16
        cvt.rn{relu}{satfinite}.scaled::n2::ue8m0.bf16x2($F8|e2m3x2|e3m2x2|s2f6x2) ; d:bf16x2, r:b16, s:b16
        cvt.rs{relu}.satfinite(e4m3x4|e5m2x4|e2m3x4|e3m2x4).f32 ; d:b32, r:v4.f32, s:b32
        cvt(rz|rp){satfinite}.ue8m0x2.f32 ; d:b16, s:f32, s:f32
        cvt(rz|rp){satfinite}.ue8m0x2.bf16x2 ; d:b16, r:bf16x2
        cvt.rn.bf16x2.ue8m0x2 ; d:bf16x2, r:b16
        cvt.rn.satfinite{relu}{s=scaled::n2::ue8m0}.s2f6x2.f32 ; d:b16, s:f32, s:f32, s?s:b16
        cvt.rn.satfinite{relu}{s=scaled::n2::ue8m0}.s2f6x2.bf16x2 ; d:b16, r:bf16x2, s?s:b16
        cvt.pack.sat(u16|s16).s32 ; d:b32, s:s32, s:s32
        cvt.pack.sat(u2|s2|u4|s4|u8|s8).s32.b32 ; d:b32, s:s32, s:s32, s:b32
        2*cvta{to}(global|shared|shared::cta|shared::cluster|local|const|param|param::entry).u64 ; d:u64, r:u64
    """,
    "compare": """
        setp(eq|ne)(t=$BITS) ; dp, s:<t>, s:<t>
        setp($SCMP)(t=s16|s32|s64) ; dp, s:<t>, s:<t>
        setp($UCMP)(t=u16|u32|u64) ; dp, s:<t>, s:<t>
        setp($FCMP){ftz}(t=f32|f16) ; dp, r:<t>, r:<t>
        setp($FCMP)(t=f64|bf16) ; dp, r:<t>, r:<t>
        setp($UCMP)(and|or|xor)(t=$INT) ; dp, s:<t>, s:<t>, p
        setp($FCMP)(and|or|xor){ftz}(t=f32|f16|bf16|f64) ; dp, r:<t>, r:<t>, p
        setp($FCMP){ftz}(t=f16x2|bf16x2) ; dp/dp, r:<t>, r:<t>
        setp($FCMP)(and|or|xor){ftz}(t=f16x2|bf16x2) ; dp/dp, r:<t>, r:<t>, p
        setp($SCMP)(and|or|xor)(t=s16|s32|s64) ; dp/dp, s:<t>, s:<t>, p
        set($SCMP)(d=u32|s32|f32)(t=$INT) ; d:<d>, s:<t>, s:<t>
        set($FCMP){ftz}(d=u32|s32|f32)(t=f32|f64) ; d:<d>, s:<t>, s:<t>
        set($FCMP)(and|or|xor){ftz}(d=u32|s32|f32)(t=f32|f64) ; d:<d>, s:<t>, s:<t>, p
        set($FCMP){ftz}(d=u16|s16|u32|s32|f16|bf16)(t=f16|bf16) ; d:<d>, r:<t>, r:<t>
        set($SCMP)(d=f16|bf16)(t=$INT) ; d:<d>, s:<t>, s:<t>
        set($FCMP){ftz}(d=f16x2|u32|s32)(t=f16x2) ; d:<d>, r:<t>, r:<t>
        set($FCMP)(d=bf16x2|u32|s32)(t=bf16x2) ; d:<d>, r:<t>, r:<t>
        selp(t=$ANY) ; d:<t>, s:<t>, s:<t>, p
        slct(t=$ANY).s32 ; d:<t>, s:<t>, s:<t>, s:s32
        slct{ftz}(t=$ANY).f32 ; d:<t>, s:<t>, s:<t>, s:f32
        2*(and|or|xor)(t=$BITS) ; d:<t>, s:<t>, s:<t>
        (and|or|xor).pred ; dp, p, p
        not.pred ; dp, p
        (not|cnot)(t=$BITS) ; d:<t>, s:<t>
        lop3.b32 ; d:b32, s:b32, s:b32, s:b32, i:0-255
        lop3(or|and).b32 ; d:b32/dp, s:b32, s:b32, s:b32, i:0-255, p
        2*shl(t=$BITS) ; d:<t>, s:<t>, s:u32
        2*shr(t=$BITS|$INT) ; d:<t>, s:<t>, s:u32
        3*mov(t=$ANY|b128) ; d:<t>, s:<t>
        mov.pred ; dp, p
        mov.b32 ; d:b32, r:v2.b16
        mov.b64 ; d:b64, r:v2.b32
        mov.b64 ; d:b64, r:v4.b16
        mov.b128 ; d:b128, r:v2.b64
        mov.b64 ; d:v2.b32, r:b64
        mov.b32 ; d:v2.b16, r:b32
        mov.u32 ; d:u32, i:%tid.x|%laneid|%ctaid.y|%clock|%smid|%cluster_ctarank|%lanemask_lt|%warpid|%nctaid.z|%dynamic_smem_size
        mov.u64 ; d:u64, i:%clock64|%globaltimer|%gridid|smem|gvar
        mov.u32 ; d:u32, i:smem|mbar|sdst|gvar
    """,
    "memory": """
        4*ld{weak}{s=$SPACE}{ca|cg|cs|lu|cv}{v=v2|v4|v8}(t=$MEMORY) ; d:<v>.<t>, m:<s>
        2*ld{weak}{s=global}{$L1}{$L2}{h=L2::cache_hint}{$FETCH}{v=v2|v4|v8}(t=$MEMORY) ; d:<v>.<t>, m:<s>, h?s:b64
        ld{s=$SPACE}(t=b128) ; d:<t>, m:<s>
        ld.volatile{s=$SPACE}{v=v2|v4}(t=$MEMORY) ; d:<v>.<t>, m:<s>
        3*ld(relaxed|acquire)($SCOPE){s=$SPACE}{v=v2|v4}(t=$MEMORY) ; d:<v>.<t>, m:<s>
        ld(relaxed|acquire)($SCOPE){s=global}{$L1}{$L2}{h=L2::cache_hint}{$FETCH}{v=v4|v8}(t=$MEMORY) ; d:<v>.<t>, m:<s>, h?s:b64
        ld.mmio(relaxed|acquire).sys{s=global}(t=$MEMORY) ; d:<t>, m:<s>
        2*ld.global{ca|cg|cs}.nc{$L1}{h=L2::cache_hint}{$FETCH}{v=v2|v4|v8}(t=$MEMORY|b128) ; d:<v>.<t>, m:global, h?s:b64
        ldu{s=global}{v=v2|v4}(t=$MEMORY) ; d:<v>.<t>, m:<s>
        3*st{weak}{s=$SPACE}{wb|cg|cs|wt}{v=v2|v4|v8}(t=$MEMORY) ; m:<s>, r:<v>.<t>
        2*st{weak}{s=global}{$L1}{$L2}{h=L2::cache_hint}{v=v2|v4|v8}(t=$MEMORY) ; m:<s>, r:<v>.<t>, h?s:b64
        st.volatile{s=$SPACE}{v=v2|v4}(t=$MEMORY|b128) ; m:<s>, r:<v>.<t>
        3*st(relaxed|release)($SCOPE){s=$SPACE}{v=v2|v4}(t=$MEMORY) ; m:<s>, r:<v>.<t>
        st.mmio(relaxed|release).sys{s=global}(t=$MEMORY) ; m:<s>, r:<t>
        2*atom{relaxed|acquire|release|acq_rel}{$SCOPE}{s=global|$SHARED|shared::cluster}.add(t=u32|s32|u64|f32|f64) ; d:<t>, m:<s>, s:<t>
        atom{relaxed|acq_rel}{$SCOPE}{s=global|$SHARED}(min|max)(t=u32|s32|u64|s64) ; d:<t>, m:<s>, s:<t>
        atom{relaxed|acq_rel}{$SCOPE}{s=global|$SHARED}(inc|dec).u32 ; d:u32, m:<s>, s:u32
        atom{relaxed|acq_rel}{$SCOPE}{s=global|$SHARED}(and|or|xor)(t=b32|b64) ; d:<t>, m:<s>, s:<t>
        atom{acquire|release}{$SCOPE}{s=global|$SHARED}.exch(t=b32|b64|b128) ; d:<t>, m:<s>, r:<t>
        atom{acquire|release}{$SCOPE}{s=global|$SHARED}.cas(t=b16|b32|b64|b128) ; d:<t>, m:<s>, r:<t>, r:<t>
        atom{relaxed}{$SCOPE}{s=global|shared}{h=L2::cache_hint}.add.noftz(t=f16|f16x2|bf16|bf16x2) ; d:<t>, m:<s>, r:<t>, h?s:b64
        atom{relaxed}{$SCOPE}{s=global}{h=L2::cache_hint}.add(v=v2|v4).f32 ; d:<v>.f32, m:<s>, r:<v>.f32, h?s:b64
        atom{relaxed}{$SCOPE}{s=global}(add|min|max).noftz(v=v2|v4|v8)(t=f16|bf16) ; d:<v>.<t>, m:<s>, r:<v>.<t>
        atom{relaxed}{$SCOPE}{s=global}(add|min|max).noftz(v=v2|v4)(t=f16x2|bf16x2) ; d:<v>.<t>, m:<s>, r:<v>.<t>
        2*red{relaxed|release}{$SCOPE}{s=global|$SHARED|shared::cluster}(add|min|max)(t=u32|s32|u64|s64|f32|f64) ; m:<s>, s:<t>
        red{relaxed|release}{$SCOPE}{s=global|$SHARED}(and|or|xor)(t=b32|b64) ; m:<s>, s:<t>
        red{relaxed}{$SCOPE}{s=global|shared}{h=L2::cache_hint}.add.noftz(t=f16|f16x2|bf16|bf16x2) ; m:<s>, r:<t>, h?s:b64
        red{relaxed}{$SCOPE}{s=global}.add(v=v2|v4).f32 ; m:<s>, r:<v>.f32
        red{relaxed}{$SCOPE}{s=global}(add|min|max).noftz(v=v2|v4|v8)(t=f16|bf16) ; m:<s>, r:<v>.<t>
        2*cp.async.ca($SHARED).global{h=L2::cache_hint}{$FETCH} ; m:shared, m:global, i:4|8|16, h?s:b64
        cp.async.cg($SHARED).global{h=L2::cache_hint}{$FETCH} ; m:shared, m:global, i:16, ~s:u32, h?s:b64
        cp.async(ca|cg)($SHARED).global{$FETCH} ; m:shared, m:global, i:16, p
        cp.async.commit_group ;
        cp.async.wait_group ; i:0|1|2|7
        cp.async.wait_all ;
        prefetch{s=global|local}(L1|L2) ; m:<s>
        prefetch.global(L2::evict_last|L2::evict_normal) ; m:global
        prefetch{s=const|param}.tensormap ; m:<s>
        prefetchu.L1 ; m:
        applypriority{s=global}.L2::evict_normal ; m:<s>, i:128
        discard{s=global}.L2 ; m:<s>, i:128
        createpolicy.fractional($L2|L2::evict_unchanged){L2::evict_first|L2::evict_unchanged}.b64 ; d:b64, ~s:f32
        createpolicy.range{s=global}($L2|L2::evict_unchanged){L2::evict_first|L2::evict_unchanged}.b64 ; d:b64, m:global, s:b32, s:b32
        createpolicy.cvt.L2.b64 ; d:b64, s:b64
        isspacep(global|$SHARED|shared::cluster|local|const|param|param::entry) ; dp, r:u64
        mapa{s=shared::cluster}(t=u32|u64) ; d:<t>, r:<t>, s:u32
        getctarank{s=shared::cluster}(t=u32|u64) ; d:u32, r:<t>
        st.async{weak}{shared::cluster}.mbarrier::complete_tx::bytes{v=v2|v4}(t=b32|b64|u32|u64|s32|s64|f32|f64) ; m:cluster, r:<v>.<t>, m:mbar
        st.async{mmio}.release($SCOPE){global}(t=b32|b64|u32|f32|f64) ; m:global, r:<t>
        st.bulk{weak}{shared::cta} ; m:shared, s:u64, i:0
        red.async.relaxed.cluster{shared::cluster}.mbarrier::complete_tx::bytes(inc|dec|min|max|add|and|or|xor)(t=u32|s32|b32|u64) ; m:cluster, r:<t>, m:mbar
        red.async{mmio}.release($SCOPE){global}.add(t=u32|s32|u64|s64) ; m:global, r:<t>
        multimem.ld_reduce{relaxed|acquire}{$SCOPE}{s=global}(add|min|max|and|or|xor)(t=u32|s32|b32|u64|b64|f32) ; d:<t>, m:<s>
        multimem.red{relaxed|release}{$SCOPE}{s=global}.add(t=u32|s32|u64|f32|f64) ; m:<s>, r:<t>
    """,
    "warp": """
        3*shfl.sync(up|down|bfly|idx).b32 ; d:b32, s:b32, s:b32, s:b32, s:b32
        2*shfl.sync(up|down|bfly|idx).b32 ; d:b32/dp, s:b32, s:b32, s:b32, s:b32
        2*vote.sync(all|any|uni).pred ; dp, p, s:b32
        vote.sync.ballot.b32 ; d:b32, p, s:b32
        2*match.any.sync(t=b32|b64) ; d:b32, s:<t>, s:b32
        2*match.all.sync(t=b32|b64) ; d:b32/dp, s:<t>, s:b32
        match.all.sync(t=b32|b64) ; d:b32, s:<t>, s:b32
        2*redux.sync(add|min|max)(t=u32|s32) ; d:<t>, s:<t>, s:b32
        redux.sync(and|or|xor).b32 ; d:b32, s:b32, s:b32
        2*redux.sync(min|max){abs}{NaN}.f32 ; d:f32, s:f32, s:b32
        activemask.b32 ; d:b32
        elect.sync ; d:b32/dp, s:b32
        elect.sync ; =_/dp, s:b32
        bar.warp.sync ; s:b32
        shfl(up|down|bfly|idx).b32 ; d:b32, s:b32, s:b32, s:b32
        vote(all|any|uni).pred ; dp, p
        vote.ballot.b32 ; d:b32, p
    """,
    "mma": """
        mma.sync.aligned.m16n8k8.row.col.f32(a=f16|bf16)<a>.f32 ; d:v4.f32, r:v2.b32, r:v1.b32, r:v4.f32
        2*mma.sync.aligned.m16n8k16.row.col.f32(a=f16|bf16)<a>.f32 ; d:v4.f32, r:v4.b32, r:v2.b32, r:v4.f32
        mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 ; d:v2.b32, r:v2.b32, r:v1.b32, r:v2.b32
        mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 ; d:v2.b32, r:v4.b32, r:v2.b32, r:v2.b32
        mma.sync.aligned.m8n8k4(row|col)(row|col).f16.f16.f16.f16 ; d:v4.b32, r:v2.b32, r:v2.b32, r:v4.b32
        mma.sync.aligned.m8n8k4(row|col)(row|col).f32.f16.f16.f32 ; d:v8.f32, r:v2.b32, r:v2.b32, r:v8.f32
        mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 ; d:v4.f32, r:v2.b32, r:v1.b32, r:v4.f32
        mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 ; d:v4.f32, r:v4.b32, r:v2.b32, r:v4.f32
        mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64{$RND} ; d:v2.f64, r:v1.f64, r:v1.f64, r:v2.f64
        mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64{$RND} ; d:v4.f64, r:v2.f64, r:v1.f64, r:v4.f64
        mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64{$RND} ; d:v4.f64, r:v4.f64, r:v2.f64, r:v4.f64
        mma.sync.aligned.m8n8k16.row.col{satfinite}.s32(u8|s8)(u8|s8).s32 ; d:v2.s32, r:v1.b32, r:v1.b32, r:v2.s32
        mma.sync.aligned.m16n8k16.row.col{satfinite}.s32(u8|s8)(u8|s8).s32 ; d:v4.s32, r:v2.b32, r:v1.b32, r:v4.s32
        2*mma.sync.aligned.m16n8k32.row.col{satfinite}.s32(u8|s8)(u8|s8).s32 ; d:v4.s32, r:v4.b32, r:v2.b32, r:v4.s32
        mma.sync.aligned.m8n8k32.row.col{satfinite}.s32(u4|s4)(u4|s4).s32 ; d:v2.s32, r:v1.b32, r:v1.b32, r:v2.s32
        mma.sync.aligned.m16n8k32.row.col{satfinite}.s32(u4|s4)(u4|s4).s32 ; d:v4.s32, r:v2.b32, r:v1.b32, r:v4.s32
        mma.sync.aligned.m16n8k64.row.col{satfinite}.s32(u4|s4)(u4|s4).s32 ; d:v4.s32, r:v4.b32, r:v2.b32, r:v4.s32
        mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32(xor|and).popc ; d:v2.s32, r:v1.b32, r:v1.b32, r:v2.s32
        mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32(xor|and).popc ; d:v4.s32, r:v2.b32, r:v1.b32, r:v4.s32
        mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32(xor|and).popc ; d:v4.s32, r:v4.b32, r:v2.b32, r:v4.s32
        mma.sync.aligned.m16n8k16.row.col.f32(e4m3|e5m2)(e4m3|e5m2).f32 ; d:v4.f32, r:v2.b32, r:v1.b32, r:v4.f32
        mma.sync.aligned.m16n8k32.row.col(d=f32)(e4m3|e5m2)(e4m3|e5m2).f32 ; d:v4.f32, r:v4.b32, r:v2.b32, r:v4.f32
        mma.sync.aligned.m16n8k32.row.col.f16(e4m3|e5m2)(e4m3|e5m2).f16 ; d:v2.b32, r:v4.b32, r:v2.b32, r:v2.b32
        2*mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32($NARROW)($NARROW).f32 ; d:v4.f32, r:v4.b32, r:v2.b32, r:v4.f32
        mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale{scale_vec::1X}.f32($NARROW)($NARROW).f32.ue8m0 ; d:v4.f32, r:v4.b32, r:v2.b32, r:v4.f32, r:b32, r:id, r:b32, r:id
        mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale{scale_vec::2X}.f32.e2m1.e2m1.f32.ue8m0 ; d:v4.f32, r:v4.b32, r:v2.b32, r:v4.f32, r:b32, r:id, r:b32, r:id
        mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale(scale_vec::2X|scale_vec::4X).f32.e2m1.e2m1.f32(ue8m0|ue4m3) ; d:v4.f32, r:v4.b32, r:v2.b32, r:v4.f32, r:b32, r:id, r:b32, r:id
        mma(sp|sp::ordered_metadata).sync.aligned.m16n8k16.row.col.f32(a=f16|bf16)<a>.f32 ; d:v4.f32, r:v2.b32, r:v2.b32, r:v4.f32, r:b32, i:0|1
        mma(sp|sp::ordered_metadata).sync.aligned.m16n8k32.row.col.f32(a=f16|bf16)<a>.f32 ; d:v4.f32, r:v4.b32, r:v4.b32, r:v4.f32, r:b32, i:0|1
        mma(sp|sp::ordered_metadata).sync.aligned.m16n8k32.row.col.f16.f16.f16.f16 ; d:v2.b32, r:v4.b32, r:v4.b32, r:v2.b32, r:b32, i:0|1
        mma(sp|sp::ordered_metadata).sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32 ; d:v4.f32, r:v4.b32, r:v4.b32, r:v4.f32, r:b32, i:0|1
        mma(sp|sp::ordered_metadata).sync.aligned.m16n8k64.row.col{satfinite}.s32(u8|s8)(u8|s8).s32 ; d:v4.s32, r:v4.b32, r:v4.b32, r:v4.s32, r:b32, i:0
        mma(sp|sp::ordered_metadata).sync.aligned.m16n8k128.row.col{satfinite}.s32(u4|s4)(u4|s4).s32 ; d:v4.s32, r:v4.b32, r:v4.b32, r:v4.s32, r:b32, i:0
        mma(sp|sp::ordered_metadata).sync.aligned.m16n8k64.row.col{k=kind::f8f6f4}.f32(e4m3|e5m2)(e4m3|e5m2).f32 ; d:v4.f32, r:v4.b32, r:v4.b32, r:v4.f32, r:b32, i:0
        3*ldmatrix.sync.aligned.m8n8(v=x1|x2|x4){trans}{$SHARED}.b16 ; d:<v>.b32, m:shared
        2*ldmatrix.sync.aligned.m16n16(v=x1|x2).trans{$SHARED}.b8 ; d:<v>*2.b32, m:shared
        ldmatrix.sync.aligned.m16n16(v=x1|x2).trans{$SHARED}.b8x16(b6x16_p32|b4x16_p64) ; d:<v>*2.b32, m:shared
        ldmatrix.sync.aligned.m8n16(v=x1|x2|x4){$SHARED}.b8x16(b6x16_p32|b4x16_p64) ; d:<v>.b32, m:shared
        2*stmatrix.sync.aligned.m8n8(v=x1|x2|x4){trans}{$SHARED}.b16 ; m:shared, r:<v>.b32
        stmatrix.sync.aligned.m16n8(v=x1|x2|x4).trans{$SHARED}.b8 ; m:shared, r:<v>.b32
        2*movmatrix.sync.aligned.m8n8.trans.b16 ; d:b32, r:b32
    """,
    "barrier": """
        3*bar{cta}.sync ; i:0-15
        bar{cta}.sync ; s:u32, s:u32
        2*bar{cta}.sync ; i:0-15, i:32|64|96|128
        2*bar{cta}.arrive ; i:0-15, i:32|64|96|128
        bar{cta}.red(and|or).pred ; dp, i:0-15, p
        bar{cta}.red.popc.u32 ; d:u32, i:0-15, p
        bar{cta}.red(and|or).pred ; dp, i:0-15, i:32|64, p
        bar{cta}.red.popc.u32 ; d:u32, i:0-15, i:32|64, p
        3*barrier{cta}.sync{aligned} ; s:u32
        2*barrier{cta}.sync{aligned} ; i:0-15, i:32|64|96|128
        2*barrier{cta}.arrive{aligned} ; i:0-15, i:32|64|96|128
        barrier{cta}.red(and|or){aligned}.pred ; dp, i:0-15, p
        barrier{cta}.red.popc{aligned}.u32 ; d:u32, i:0-15, i:32|64, p
        4*barrier.cluster.arrive{release|relaxed}{aligned} ;
        3*barrier.cluster.wait{acquire}{aligned} ;
        2*bar.warp.sync ; s:b32
    """,
    "mbarrier": """
        2*mbarrier.init{$SHARED}.b64 ; m:mbar, s:u32
        mbarrier.inval{$SHARED}.b64 ; m:mbar
        3*mbarrier(arrive|arrive_drop){$SHARED}.b64 ; d:b64, m:mbar, ~s:u32
        3*mbarrier(arrive|arrive_drop)(release|relaxed)(cta|cluster){$SHARED}.b64 ; d:b64, m:mbar, ~s:u32
        2*mbarrier(arrive|arrive_drop){release.cluster}.shared::cluster.b64 ; =_, m:mbar, ~s:u32
        mbarrier(arrive|arrive_drop).noComplete{release.cta}{$SHARED}.b64 ; d:b64, m:mbar, s:u32
        3*mbarrier(arrive|arrive_drop).expect_tx{$SHARED}.b64 ; d:b64, m:mbar, s:u32
        2*mbarrier(arrive|arrive_drop).expect_tx(release|relaxed)(cta|cluster){$SHARED}.b64 ; d:b64, m:mbar, s:u32
        2*mbarrier(arrive|arrive_drop).expect_tx{release.cluster|relaxed.cluster}.shared::cluster.b64 ; =_, m:mbar, s:u32
        2*mbarrier(expect_tx|complete_tx){relaxed.cta|relaxed.cluster}{$SHARED|shared::cluster}.b64 ; m:mbar, s:u32
        mbarrier.pending_count.b64 ; d:u32, r:b64
        3*mbarrier.test_wait{acquire.cta|acquire.cluster|relaxed.cta|relaxed.cluster}{$SHARED}.b64 ; dp, m:mbar, r:b64
        3*mbarrier.test_wait.parity{acquire.cta|acquire.cluster|relaxed.cluster}{$SHARED}.b64 ; dp, m:mbar, s:u32
        3*mbarrier.try_wait{acquire.cta|acquire.cluster|relaxed.cta}{$SHARED}.b64 ; dp, m:mbar, r:b64, ~s:u32
        3*mbarrier.try_wait.parity{acquire.cta|acquire.cluster|relaxed.cluster}{$SHARED}.b64 ; dp, m:mbar, s:u32, ~s:u32
        cp.async.mbarrier.arrive{noinc}{$SHARED}.b64 ; m:mbar
    """,
    "fence": """
        4*fence{sc|acq_rel|acquire|release}($SCOPE) ;
        2*fence(acquire|release)(sync_restrict::shared::cta|sync_restrict::shared::cluster)(cta|cluster) ;
        fence.acquire.sync_restrict::shared::cluster.cluster ;
        fence.release.sync_restrict::shared::cta.cluster ;
        2*fence.mbarrier_init.release.cluster ;
        3*fence.proxy(alias|async) ;
        3*fence.proxy.async(global|$SHARED|shared::cluster) ;
        3*fence.proxy.tensormap::generic.release($SCOPE) ;
        3*fence.proxy.tensormap::generic.acquire($SCOPE) ; m:global, i:128
        fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster ;
        fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster ;
        3*membar(cta|gl|sys) ;
        2*membar.proxy(alias|async) ;
    """,
    "bulk": """
        3*cp.async.bulk(shared::cluster).global.mbarrier::complete_tx::bytes{h=L2::cache_hint} ; m:shared, m:global, s:size, m:mbar, h?s:b64
        2*cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes{h=L2::cache_hint} ; m:shared, m:global, s:size, m:mbar, h?s:b64
        2*cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster{h=L2::cache_hint} ; m:shared, m:global, s:size, m:mbar, s:b16, h?s:b64
        2*cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes ; m:cluster, m:shared, s:size, m:mbar
        2*cp.async.bulk.global.shared::cta.bulk_group{h=L2::cache_hint} ; m:global, m:shared, s:size, h?s:b64
        cp.async.bulk.global.shared::cta.bulk_group{h=L2::cache_hint}.cp_mask ; m:global, m:shared, s:size, h?s:b64, s:b16
        2*cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes($ROP)(s32|u32|s64|u64) ; m:cluster, m:shared, s:size, m:mbar
        3*cp.reduce.async.bulk.global.shared::cta.bulk_group{h=L2::cache_hint}($ROP)(f16|bf16|b32|u32|s32|b64|u64|s64|f32|f64) ; m:global, m:shared, s:size, h?s:b64
        cp.reduce.async.bulk.global.shared::cta.bulk_group{h=L2::cache_hint}.add.noftz(f16|bf16) ; m:global, m:shared, s:size, h?s:b64
        2*cp.async.bulk.prefetch.L2.global{h=L2::cache_hint} ; m:global, s:size, h?s:b64
        cp.async.bulk.commit_group ;
        2*cp.async.bulk.wait_group{read} ; i:0|1|3
        clusterlaunchcontrol.try_cancel.async{shared::cta}.mbarrier::complete_tx::bytes{multicast::cluster::all}.b128 ; m:shared, m:mbar
        clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 ; dp, r:b128
        clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 ; d:v4.b32, r:b128
        clusterlaunchcontrol.query_cancel(get_first_ctaid::x|get_first_ctaid::y|get_first_ctaid::z).b32.b128 ; d:b32, r:b128
    """,
    "tensor": """
        4*cp.async.bulk.tensor(dim=$DIM)(shared::cta|shared::cluster).global{tile}.mbarrier::complete_tx::bytes{$GROUP}{h=L2::cache_hint} ; m:shared, tm, m:mbar, h?s:b64
        2*cp.async.bulk.tensor(dim=$DIM).shared::cluster.global{tile}.mbarrier::complete_tx::bytes.multicast::cluster{$GROUP}{h=L2::cache_hint} ; m:shared, tm, m:mbar, s:b16, h?s:b64
        2*cp.async.bulk.tensor(dim=3d|4d|5d)(shared::cta|shared::cluster).global.im2col.mbarrier::complete_tx::bytes{$GROUP}{h=L2::cache_hint} ; m:shared, tm, m:mbar, offsets, h?s:b64
        2*cp.async.bulk.tensor(dim=3d|4d|5d)(shared::cta|shared::cluster).global(im2col::w|im2col::w::128).mbarrier::complete_tx::bytes{$GROUP}{h=L2::cache_hint} ; m:shared, tm, m:mbar, r:v2.b16, h?s:b64
        2*cp.async.bulk.tensor(dim=2d)(shared::cta|shared::cluster).global(k=tile::gather4).mbarrier::complete_tx::bytes{$GROUP}{h=L2::cache_hint} ; m:shared, tm, m:mbar, h?s:b64
        3*cp.async.bulk.tensor(dim=$DIM).global.shared::cta{tile}.bulk_group{h=L2::cache_hint} ; tm, m:shared, h?s:b64
        cp.async.bulk.tensor(dim=3d|4d|5d).global.shared::cta.im2col_no_offs.bulk_group{h=L2::cache_hint} ; tm, m:shared, h?s:b64
        cp.async.bulk.tensor(dim=2d).global.shared::cta(k=tile::scatter4).bulk_group{h=L2::cache_hint} ; tm, m:shared, h?s:b64
        3*cp.reduce.async.bulk.tensor(dim=$DIM).global.shared::cta($ROP){tile}.bulk_group{h=L2::cache_hint} ; tm, m:shared, h?s:b64
        cp.reduce.async.bulk.tensor(dim=3d|4d|5d).global.shared::cta($ROP).im2col_no_offs.bulk_group{h=L2::cache_hint} ; tm, m:shared, h?s:b64
        2*cp.async.bulk.prefetch.tensor(dim=$DIM).L2.global{tile}{h=L2::cache_hint} ; tm, h?s:b64
        cp.async.bulk.prefetch.tensor(dim=3d|4d|5d).L2.global.im2col{h=L2::cache_hint} ; tm, offsets, h?s:b64
        cp.async.bulk.prefetch.tensor(dim=3d|4d|5d).L2.global(im2col::w|im2col::w::128){h=L2::cache_hint} ; tm, r:v2.b16, h?s:b64
        cp.async.bulk.prefetch.tensor(dim=2d).L2.global(k=tile::gather4){h=L2::cache_hint} ; tm, h?s:b64
    """,
    "tensormap": """
        2*tensormap.replace.tile.global_address(s=global|shared::cta).b1024.b64 ; m:<s>, s:b64
        2*tensormap.replace.tile.rank(s=global|shared::cta).b1024.b32 ; m:<s>, s:b32
        3*tensormap.replace.tile(elemtype)(s=global|shared::cta).b1024.b32 ; m:<s>, i:0-15
        3*tensormap.replace.tile(interleave_layout|swizzle_mode|fill_mode|swizzle_atomicity)(s=global|shared::cta).b1024.b32 ; m:<s>, i:0|1|2|3|4
        3*tensormap.replace.tile(box_dim|global_dim|element_stride)(s=global|shared::cta).b1024.b32 ; m:<s>, i:0-4, s:b32
        2*tensormap.replace.tile.global_stride(s=global|shared::cta).b1024.b64 ; m:<s>, i:0-4, s:b64
        4*tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release($SCOPE).sync.aligned ; m:global, m:shared, i:128
        prefetch{s=const|param}.tensormap ; m:<s>
    """,
    "wgmma": """
        wgmma.fence.sync.aligned ;
        wgmma.commit_group.sync.aligned ;
        wgmma.wait_group.sync.aligned ; i:0-7
        4*wgmma.mma_async.sync.aligned(shape=$M64K16)(d=f16|f32)(a=f16).f16 ; d:n, r:b64, r:b64, p, i:1|-1, i:1|-1, i:0|1, i:0|1
        4*wgmma.mma_async.sync.aligned(shape=$M64K16)(d=f16|f32)(a=f16).f16 ; d:n, r:v4.b32, r:b64, p, i:1|-1, i:1|-1, i:0|1
        3*wgmma.mma_async.sync.aligned(shape=$M64K16)(d=f32).bf16.bf16 ; d:n, r:b64, r:b64, p, i:1|-1, i:1|-1, i:0|1, i:0|1
        3*wgmma.mma_async.sync.aligned(shape=$M64K8)(d=f32).tf32.tf32 ; d:n, r:b64, r:b64, p, i:1|-1, i:1|-1
        3*wgmma.mma_async.sync.aligned(shape=$M64K32)(d=f16|f32)(e4m3|e5m2)(e4m3|e5m2) ; d:n, r:b64, r:b64, p, i:1|-1, i:1|-1
        2*wgmma.mma_async.sync.aligned(shape=$M64K32)(d=f16|f32)(e4m3|e5m2)(e4m3|e5m2) ; d:n, r:v4.b32, r:b64, p, i:1|-1, i:1|-1
        3*wgmma.mma_async.sync.aligned(shape=$M64K32)(d=s32)(u8|s8)(u8|s8){satfinite} ; d:n, r:b64, r:b64, p
        2*wgmma.mma_async.sync.aligned(shape=$M64K256)(d=s32).b1.b1.and.popc ; d:n, r:b64, r:b64, p
        2*wgmma.mma_async.sp.sync.aligned(shape=$M64K32)(d=f16|f32).f16.f16 ; d:n, r:b64, r:b64, r:b32, i:0|1, p, i:1|-1, i:1|-1, i:0|1, i:0|1
        2*wgmma.mma_async.sp.sync.aligned(shape=$M64K64)(d=f16|f32)(e4m3|e5m2)(e4m3|e5m2) ; d:n, r:b64, r:b64, r:b32, i:0, p, i:1|-1, i:1|-1
        2*wgmma.mma_async.sp.sync.aligned(shape=$M64K64)(d=s32)(u8|s8)(u8|s8){satfinite} ; d:n, r:v4.b32, r:b64, r:b32, i:0, p
    """,
    "tcgen05": """
        2*tcgen05.alloc($GROUP).sync.aligned{shared::cta}.b32 ; m:shared, i:32|64|128|256|512
        tcgen05.dealloc($GROUP).sync.aligned.b32 ; r:b32, i:32|64|128|256|512
        tcgen05.relinquish_alloc_permit($GROUP).sync.aligned ;
        4*tcgen05.ld.sync.aligned(shape=32x32b|16x64b|16x128b|16x256b)(num=x1|x2|x4|x8|x16|x32|x64|x128){pack::16b}.b32 ; d:t, tmem
        2*tcgen05.ld.sync.aligned(shape=16x32bx2)(num=x1|x2|x4|x8|x16|x32){pack::16b}.b32 ; d:t, tmem, i:0|1|16|32
        2*tcgen05.ld.red.sync.aligned(shape=32x32b)(num=x2|x4|x8|x16)(min|max)(u32|s32) ; d:t, d:b32, tmem
        tcgen05.ld.red.sync.aligned(shape=32x32b)(num=x2|x4|x8|x16)(min|max){abs}{NaN}.f32 ; d:t, d:f32, tmem
        4*tcgen05.st.sync.aligned(shape=32x32b|16x64b|16x128b|16x256b)(num=x1|x2|x4|x8|x16|x32|x64|x128){unpack::16b}.b32 ; tmem, r:t
        tcgen05.st.sync.aligned(shape=16x32bx2)(num=x1|x2|x4|x8){unpack::16b}.b32 ; tmem, i:0|1|16|32, r:t
        tcgen05(wait::ld|wait::st).sync.aligned ;
        tcgen05(fence::before_thread_sync|fence::after_thread_sync) ;
        2*tcgen05.cp($GROUP)(128x256b|4x256b|128x128b){b8x16.b6x16_p32|b8x16.b4x16_p64} ; tmem, r:b64
        2*tcgen05.cp($GROUP)(64x128b.warpx2::02_13|64x128b.warpx2::01_23|32x128b.warpx4){b8x16.b6x16_p32|b8x16.b4x16_p64} ; tmem, r:b64
        tcgen05.shift($GROUP).down ; tmem
        2*tcgen05.commit($GROUP).mbarrier::arrive::one{shared::cluster}.b64 ; m:mbar
        tcgen05.commit($GROUP).mbarrier::arrive::one{shared::cluster}.multicast::cluster.b64 ; m:mbar, s:b16
        4*tcgen05.mma($GROUP)(kind::f16|kind::tf32|kind::f8f6f4|kind::i8){$COLLECTOR} ; tmem, r:b64, r:b64, r:b32, p
        3*tcgen05.mma($GROUP)(kind::f16|kind::tf32|kind::f8f6f4|kind::i8){ashift}{$COLLECTOR} ; tmem, tmem, r:b64, r:b32, p
        2*tcgen05.mma($GROUP)(kind::f16|kind::tf32) ; tmem, r:b64, r:b64, r:b32, p, i:0-15
        tcgen05.mma.cta_group::1(kind::f16|kind::tf32|kind::f8f6f4) ; tmem, r:b64, r:b64, r:b32, r:v4.b32, p
        2*tcgen05.mma($GROUP).kind::mxf8f6f4.block_scale{scale_vec::1X|block32}{$COLLECTOR} ; tmem, r:b64, r:b64, r:b32, tmem, tmem, p
        tcgen05.mma($GROUP).kind::mxf4.block_scale{scale_vec::2X|block32}{$COLLECTOR} ; tmem, r:b64, r:b64, r:b32, tmem, tmem, p
        2*tcgen05.mma($GROUP).kind::mxf4nvf4.block_scale(scale_vec::2X|scale_vec::4X|block16|block32) ; tmem, tmem, r:b64, r:b32, tmem, tmem, p
        2*tcgen05.mma.sp($GROUP)(kind::f16|kind::tf32|kind::f8f6f4|kind::i8){$COLLECTOR} ; tmem, r:b64, r:b64, tmem, r:b32, p
        tcgen05.mma.sp($GROUP)(kind::mxf8f6f4|kind::mxf4|kind::mxf4nvf4).block_scale(scale_vec::1X|scale_vec::2X|scale_vec::4X|block16|block32) ; tmem, tmem, r:b64, tmem, r:b32, tmem, tmem, p
        2*tcgen05.mma.ws.cta_group::1(kind::f16|kind::tf32|kind::f8f6f4|kind::i8){collector::b0::fill|collector::b1::use|collector::b2::lastuse|collector::b3::discard} ; tmem, r:b64, r:b64, r:b32, p, ~r:b64
        tcgen05.mma.ws.sp.cta_group::1(kind::f16|kind::tf32|kind::f8f6f4|kind::i8) ; tmem, tmem, r:b64, tmem, r:b32, p
    """,
    "control": """
        2*bra{uni} ; label
        ret{uni} ;
        exit ;
        trap ;
        brkpt ;
        2*pmevent ; i:0-15
        pmevent.mask ; i:1|255|65535
        3*nanosleep.u32 ; s:u32
        3*setmaxnreg(inc|dec).sync.aligned.u32 ; i:24|32|40|104|160|232|256
        3*griddepcontrol(launch_dependents|wait) ;
        2*alloca(t=u32|u64) ; d:<t>, s:<t>, ~i:8|16
        stacksave(t=u32|u64) ; d:<t>
        stackrestore(t=u32|u64) ; r:<t>
    """,
}
