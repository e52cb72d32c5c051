// D = A B^T with wgmma in every type: 128 x 64 tiles, K in steps of 128 bytes, two stages, groups in flight while the next stage loads.
#include "wgmma.cuh"

using namespace wgmma;

// Whether a matrix stands K-major (rows of M or N, K contiguous) or MN-major; A may also come from registers.
enum Source { KMajor, MNMajor, Registers };

constexpr int M = 128, N = 64, STEP = 128;

template <class Instruction, Source A, Source B>
__device__ void gemm(const uint8_t *a, const uint8_t *b, uint32_t *d, int steps) {
  __shared__ alignas(1024) uint8_t a_tile[2][M * STEP];
  __shared__ alignas(1024) uint8_t b_tile[2][N * STEP];
  int group = threadIdx.x / 128, thread = threadIdx.x % 128, pitch = steps * STEP;
  int row = 64 * group + 16 * (thread / 32) + thread % 32 / 4;
  a += size_t(blockIdx.x) * M * pitch;
  uint32_t sum[Instruction::words];
  uint32_t fragment[4][4];
  for (uint32_t &word : sum) word = 0x7FC07FC0;  // not used: the first multiplication does not accumulate

  for (int step = 0; step < steps; step++) {
    int stage = step % 2;
    // MN-major 16-bit elements: 64 rows of K, each with 64 elements of M or N; a matrix of 128 rows is two such tiles.
    if (A == KMajor) load_tile(a_tile[stage], a + step * STEP, pitch, M);
    if (A == MNMajor)
      for (int half = 0; half < 2; half++) load_tile(a_tile[stage] + half * 64 * STEP, a + (step * 64 * 2 + half) * STEP, 2 * STEP, 64);
    if (A == Registers)
      for (int k = 0; k < 4; k++)
        for (int i = 0; i < 4; i++)
          fragment[k][i] = *reinterpret_cast<const uint32_t *>(a + size_t(row + 8 * (i & 1)) * pitch + step * STEP + 32 * k + 4 * (thread % 4) + 16 * (i >> 1));
    if (B == KMajor) load_tile(b_tile[stage], b + step * STEP, pitch, N);
    if (B == MNMajor) load_tile(b_tile[stage], b + step * 64 * STEP, STEP, 64);
    fence_async_proxy();
    __syncthreads();

    uint32_t a_start = shared_address(a_tile[stage]) + group * 64 * STEP, b_start = shared_address(b_tile[stage]);
    fence();
    for (int k = 0; k < 4; k++) {
      uint64_t b_descriptor = descriptor(b_start + k * (B == MNMajor ? 2048 : 32));
      if (A == Registers)
        Instruction::from_registers(sum, fragment[k], b_descriptor, step + k > 0);
      else
        Instruction::from_shared(sum, descriptor(a_start + k * (A == MNMajor ? 2048 : 32)), b_descriptor, step + k > 0);
    }
    commit();
    wait<A == Registers ? 0 : 1>();  // the stage before this one is free; registers may be read until the end
    __syncthreads();
  }
  wait<0>();

  d += size_t(blockIdx.x) * M * Instruction::words * 2;
  for (int i = 0; i < Instruction::words; i++) {
    bool half = Instruction::words == 16;
    int r = row + 8 * (half ? i & 1 : i >> 1 & 1);
    int column = half ? 4 * (i >> 1) + thread % 4 : 8 * (i >> 2) + 2 * (thread % 4) + (i & 1);
    d[r * Instruction::words * 2 + column] = sum[i];
  }
}

#define PLUS ", 1, 1"
#define KERNEL(NAME, A, B)                                                                                                         \
  extern "C" __global__ void NAME##_##A##_##B(const uint8_t *a, const uint8_t *b, uint32_t *d, int steps) { gemm<NAME, A, B>(a, b, d, steps); }

WGMMA_32(f32_f16, "m64n64k16.f32.f16.f16", PLUS ", 0, 0", PLUS ", 0")
WGMMA_16(f16_f16, "m64n64k16.f16.f16.f16", PLUS ", 0, 0", PLUS ", 0")
WGMMA_32(f32_bf16, "m64n64k16.f32.bf16.bf16", PLUS ", 0, 0", PLUS ", 0")
WGMMA_32(f32_tf32, "m64n64k8.f32.tf32.tf32", PLUS, PLUS)
WGMMA_32(f32_e4m3_e4m3, "m64n64k32.f32.e4m3.e4m3", PLUS, PLUS)
WGMMA_32(f32_e4m3_e5m2, "m64n64k32.f32.e4m3.e5m2", PLUS, PLUS)
WGMMA_32(f32_e5m2_e4m3, "m64n64k32.f32.e5m2.e4m3", PLUS, PLUS)
WGMMA_32(f32_e5m2_e5m2, "m64n64k32.f32.e5m2.e5m2", PLUS, PLUS)
WGMMA_16(f16_e4m3_e4m3, "m64n64k32.f16.e4m3.e4m3", PLUS, PLUS)
WGMMA_16(f16_e4m3_e5m2, "m64n64k32.f16.e4m3.e5m2", PLUS, PLUS)
WGMMA_16(f16_e5m2_e4m3, "m64n64k32.f16.e5m2.e4m3", PLUS, PLUS)
WGMMA_16(f16_e5m2_e5m2, "m64n64k32.f16.e5m2.e5m2", PLUS, PLUS)
WGMMA_32(s32_s8_s8, "m64n64k32.s32.s8.s8", "", "")
WGMMA_32(s32_s8_u8, "m64n64k32.s32.s8.u8", "", "")
WGMMA_32(s32_u8_s8, "m64n64k32.s32.u8.s8", "", "")
WGMMA_32(s32_u8_u8, "m64n64k32.s32.u8.u8", "", "")
WGMMA_32(s32_s8_s8_satfinite, "m64n64k32.s32.s8.s8.satfinite", "", "")
WGMMA_32(s32_u8_u8_satfinite, "m64n64k32.s32.u8.u8.satfinite", "", "")
WGMMA_32(s32_b1, "m64n64k256.s32.b1.b1.and.popc", "", "")
// Transposed and negated operands. With A in registers only B has a major-ness.
WGMMA_32(f32_f16_nn, "m64n64k16.f32.f16.f16", ", -1, -1, 0, 0", ", -1, -1, 0")
WGMMA_16(f16_f16_pn, "m64n64k16.f16.f16.f16", ", 1, -1, 0, 0", ", 1, -1, 0")
WGMMA_32(f32_bf16_np, "m64n64k16.f32.bf16.bf16", ", -1, 1, 0, 0", ", -1, 1, 0")
WGMMA_32(f32_tf32_np, "m64n64k8.f32.tf32.tf32", ", -1, 1", ", -1, 1")
WGMMA_32(f32_e4m3_e5m2_pn, "m64n64k32.f32.e4m3.e5m2", ", 1, -1", ", 1, -1")
WGMMA_32(f32_f16_ta, "m64n64k16.f32.f16.f16", PLUS ", 1, 0", "")
WGMMA_32(f32_f16_tb, "m64n64k16.f32.f16.f16", PLUS ", 0, 1", PLUS ", 1")
WGMMA_32(f32_bf16_tab, "m64n64k16.f32.bf16.bf16", PLUS ", 1, 1", "")
WGMMA_16(f16_f16_tab, "m64n64k16.f16.f16.f16", PLUS ", 1, 1", "")

#define BOTH(NAME) KERNEL(NAME, KMajor, KMajor) KERNEL(NAME, Registers, KMajor)
BOTH(f32_f16) BOTH(f16_f16) BOTH(f32_bf16) BOTH(f32_tf32)
BOTH(f32_e4m3_e4m3) BOTH(f32_e4m3_e5m2) BOTH(f32_e5m2_e4m3) BOTH(f32_e5m2_e5m2)
BOTH(f16_e4m3_e4m3) BOTH(f16_e4m3_e5m2) BOTH(f16_e5m2_e4m3) BOTH(f16_e5m2_e5m2)
BOTH(s32_s8_s8) BOTH(s32_s8_u8) BOTH(s32_u8_s8) BOTH(s32_u8_u8) BOTH(s32_s8_s8_satfinite) BOTH(s32_u8_u8_satfinite) BOTH(s32_b1)
BOTH(f32_f16_nn) BOTH(f16_f16_pn) BOTH(f32_bf16_np) BOTH(f32_tf32_np) BOTH(f32_e4m3_e5m2_pn)
KERNEL(f32_f16_ta, MNMajor, KMajor) KERNEL(f32_f16_tb, KMajor, MNMajor) KERNEL(f32_f16_tb, Registers, MNMajor)
KERNEL(f32_bf16_tab, MNMajor, MNMajor) KERNEL(f16_f16_tab, MNMajor, MNMajor)
