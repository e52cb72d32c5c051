// Lists of registers for inline PTX: UPTO_j(M, S) is M(0, 0, 0) S M(1, 8, 16) ... S M(j - 1, 8 (j - 1), 16 (j - 1)).
#pragma once
#define UPTO_1(M, S) M(0, 0, 0)
#define UPTO_2(M, S) UPTO_1(M, S) S M(1, 8, 16)
#define UPTO_3(M, S) UPTO_2(M, S) S M(2, 16, 32)
#define UPTO_4(M, S) UPTO_3(M, S) S M(3, 24, 48)
#define UPTO_5(M, S) UPTO_4(M, S) S M(4, 32, 64)
#define UPTO_6(M, S) UPTO_5(M, S) S M(5, 40, 80)
#define UPTO_7(M, S) UPTO_6(M, S) S M(6, 48, 96)
#define UPTO_8(M, S) UPTO_7(M, S) S M(7, 56, 112)
#define UPTO_9(M, S) UPTO_8(M, S) S M(8, 64, 128)
#define UPTO_10(M, S) UPTO_9(M, S) S M(9, 72, 144)
#define UPTO_11(M, S) UPTO_10(M, S) S M(10, 80, 160)
#define UPTO_12(M, S) UPTO_11(M, S) S M(11, 88, 176)
#define UPTO_13(M, S) UPTO_12(M, S) S M(12, 96, 192)
#define UPTO_14(M, S) UPTO_13(M, S) S M(13, 104, 208)
#define UPTO_15(M, S) UPTO_14(M, S) S M(14, 112, 224)
#define UPTO_16(M, S) UPTO_15(M, S) S M(15, 120, 240)
#define UPTO_17(M, S) UPTO_16(M, S) S M(16, 128, 256)
#define UPTO_18(M, S) UPTO_17(M, S) S M(17, 136, 272)
#define UPTO_19(M, S) UPTO_18(M, S) S M(18, 144, 288)
#define UPTO_20(M, S) UPTO_19(M, S) S M(19, 152, 304)
#define UPTO_21(M, S) UPTO_20(M, S) S M(20, 160, 320)
#define UPTO_22(M, S) UPTO_21(M, S) S M(21, 168, 336)
#define UPTO_23(M, S) UPTO_22(M, S) S M(22, 176, 352)
#define UPTO_24(M, S) UPTO_23(M, S) S M(23, 184, 368)
#define UPTO_25(M, S) UPTO_24(M, S) S M(24, 192, 384)
#define UPTO_26(M, S) UPTO_25(M, S) S M(25, 200, 400)
#define UPTO_27(M, S) UPTO_26(M, S) S M(26, 208, 416)
#define UPTO_28(M, S) UPTO_27(M, S) S M(27, 216, 432)
#define UPTO_29(M, S) UPTO_28(M, S) S M(28, 224, 448)
#define UPTO_30(M, S) UPTO_29(M, S) S M(29, 232, 464)
#define UPTO_31(M, S) UPTO_30(M, S) S M(30, 240, 480)
#define UPTO_32(M, S) UPTO_31(M, S) S M(31, 248, 496)

// Two or four registers, and how they are loaded and stored.
#define PAIR(i, at2, at4) "d" #i "_0, d" #i "_1"
#define QUAD(i, at2, at4) PAIR(i, at2, at4) ", d" #i "_2, d" #i "_3"
#define LOAD_PAIR(i, at2, at4) "ld.v2.b32 {" PAIR(i, at2, at4) "}, [%0+" #at2 "];\n"
#define LOAD_QUAD(i, at2, at4) "ld.v4.b32 {" QUAD(i, at2, at4) "}, [%0+" #at4 "];\n"
#define STORE_PAIR(i, at2, at4) "st.v2.b32 [%0+" #at2 "], {" PAIR(i, at2, at4) "};\n"
#define STORE_QUAD(i, at2, at4) "st.v4.b32 [%0+" #at4 "], {" QUAD(i, at2, at4) "};\n"
