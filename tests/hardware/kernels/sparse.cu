// D = A B^T with sparse wgmma in every type: A holds the stored elements, the registers of a thread their metadata. A comes from shared
// memory or registers. One warpgroup, D of 64 x 64, steps of 128 bytes of B and 64 of A.
#include "sm90.cuh"

using namespace wgmma;

constexpr int ROWS = 64, COLUMNS = 64, A_STEP = 64, B_STEP = 128;

// Rows of 64 bytes with 64B swizzling: 16-byte piece c of row r stands at c ^ r / 2 % 4.
__device__ inline uint64_t descriptor_64(uint32_t address) {
  return uint64_t((address & 0x3FFFF) >> 4) | uint64_t(1) << 16 | uint64_t(512 >> 4) << 32 | uint64_t(2) << 62;
}

// FORM names shape and types, SELECTOR the threads with metadata; TAIL_S and TAIL_R follow scale-d, for A in shared memory and registers.
#define SPARSE(WORDS, D, R, P, A, A0, A1, A2, A3, B, META, NAME, FORM, SELECTOR, TAIL_S, TAIL_R)                                         \
  struct NAME {                                                                                                                          \
    static constexpr int words = WORDS;                                                                                                  \
    static __device__ void from_shared(uint32_t (&d)[WORDS], uint64_t a, uint64_t b, uint32_t metadata, int accumulate) {                \
      asm volatile("{.reg .pred p; setp.ne.b32 p, %" P ", 0; wgmma.mma_async.sp.sync.aligned." FORM " " D ", %" A ", %" A0 ", %" A1 ", " SELECTOR \
                   ", p" TAIL_S ";}"                                                                                                     \
                   : R : "l"(a), "l"(b), "r"(metadata), "r"(accumulate) : "memory");                                                     \
    }                                                                                                                                    \
    static __device__ void from_registers(uint32_t (&d)[WORDS], const uint32_t (&a)[4], uint64_t b, uint32_t metadata, int accumulate) { \
      asm volatile("{.reg .pred p; setp.ne.b32 p, %" META ", 0; wgmma.mma_async.sp.sync.aligned." FORM " " D ", {%" A ", %" A0 ", %" A1 ", %" A2 \
                   "}, %" A3 ", %" B ", " SELECTOR ", p" TAIL_R ";}"                                                                     \
                   : R : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(metadata), "r"(accumulate) : "memory");                 \
    }                                                                                                                                    \
  };
#define SPARSE_32(...) SPARSE(32, D32, R32, "35", "32", "33", "34", "35", "36", "37", "38", __VA_ARGS__)
#define SPARSE_16(...) SPARSE(16, D16, R16, "19", "16", "17", "18", "19", "20", "21", "22", __VA_ARGS__)

#define PLUS ", 1, 1"
SPARSE_32(f32_f16, "m64n64k32.f32.f16.f16", "0", PLUS ", 0, 0", PLUS ", 0")
SPARSE_16(f16_f16, "m64n64k32.f16.f16.f16", "1", PLUS ", 0, 0", PLUS ", 0")
SPARSE_32(f32_bf16, "m64n64k32.f32.bf16.bf16", "1", ", -1, 1, 0, 0", ", -1, 1, 0")
SPARSE_32(f32_tf32, "m64n64k16.f32.tf32.tf32", "0", PLUS, PLUS)
SPARSE_32(f32_e4m3_e4m3, "m64n64k64.f32.e4m3.e4m3", "0", PLUS, PLUS)
SPARSE_32(f32_e5m2_e4m3, "m64n64k64.f32.e5m2.e4m3", "0", PLUS, PLUS)
SPARSE_16(f16_e4m3_e5m2, "m64n64k64.f16.e4m3.e5m2", "0", PLUS, PLUS)
SPARSE_16(f16_e5m2_e5m2, "m64n64k64.f16.e5m2.e5m2", "0", PLUS, PLUS)
SPARSE_32(s32_s8_s8, "m64n64k64.s32.s8.s8", "0", "", "")
SPARSE_32(s32_u8_s8_satfinite, "m64n64k64.s32.u8.s8.satfinite", "0", "", "")

// `metadata` has a word for each instruction and thread.
template <class Instruction, bool Registers>
__device__ void gemm(const uint8_t *a, const uint8_t *b, const uint32_t *metadata, uint32_t *d, int steps) {
  __shared__ alignas(1024) uint8_t a_tile[2][ROWS * A_STEP], b_tile[2][COLUMNS * B_STEP];
  int thread = threadIdx.x, row = 16 * (thread / 32) + thread % 32 / 4;
  uint32_t sum[Instruction::words], fragment[2][4];
  for (uint32_t &word : sum) word = 0;
  for (int step = 0; step < steps; step++) {
    int stage = step % 2;
    if (Registers)
      for (int k = 0; k < 2; k++)
        for (int i = 0; i < 4; i++)
          fragment[k][i] = *reinterpret_cast<const uint32_t *>(a + (row + 8 * (i & 1)) * steps * A_STEP + step * A_STEP + 32 * k + 4 * (thread % 4) + 16 * (i >> 1));
    else
      for (int i = thread; i < ROWS * 4; i += 128)
        *reinterpret_cast<uint4 *>(a_tile[stage] + 64 * (i / 4) + 16 * (i % 4 ^ i / 8 % 4)) =
            *reinterpret_cast<const uint4 *>(a + i / 4 * steps * A_STEP + step * A_STEP + 16 * (i % 4));
    load_tile(b_tile[stage], b + step * B_STEP, steps * B_STEP, COLUMNS);
    uint32_t words[2] = {metadata[2 * step * 128 + thread], metadata[(2 * step + 1) * 128 + thread]};
    fence_async_proxy();
    __syncthreads();
    fence_sums(sum);
    for (int k = 0; k < 2; k++) {
      uint64_t b_part = descriptor(shared(b_tile[stage]) + 64 * k);
      if (Registers)
        Instruction::from_registers(sum, fragment[k], b_part, words[k], step + k > 0);
      else
        Instruction::from_shared(sum, descriptor_64(shared(a_tile[stage]) + 32 * k), b_part, words[k], step + k > 0);
    }
    commit();
    wait<0>();
  }
  for (int i = 0; i < Instruction::words; i++) d[i * 128 + thread] = sum[i];
}

#define KERNELS(NAME)                                                                                                                       \
  extern "C" __global__ void __launch_bounds__(128) sparse_##NAME(const uint8_t *a, const uint8_t *b, const uint32_t *metadata, uint32_t *d, int steps) { \
    gemm<NAME, false>(a, b, metadata, d, steps);                                                                                            \
  }                                                                                                                                         \
  extern "C" __global__ void __launch_bounds__(128) sparse_##NAME##_registers(const uint8_t *a, const uint8_t *b, const uint32_t *metadata, uint32_t *d, int steps) { \
    gemm<NAME, true>(a, b, metadata, d, steps);                                                                                             \
  }

KERNELS(f32_f16) KERNELS(f16_f16) KERNELS(f32_bf16) KERNELS(f32_tf32) KERNELS(f32_e4m3_e4m3)
KERNELS(f32_e5m2_e4m3) KERNELS(f16_e4m3_e5m2) KERNELS(f16_e5m2_e5m2) KERNELS(s32_s8_s8) KERNELS(s32_u8_s8_satfinite)
