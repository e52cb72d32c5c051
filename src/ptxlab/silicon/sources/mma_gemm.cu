// D = A B^T with mma.sync: tiles of 64 x 64, cp.async in three stages, ldmatrix, and for f16 results stmatrix.
// A and B have 96 rows of 160 bytes; both are no whole number of tiles.
#include <cstdint>

constexpr int ROWS = 96, BYTES = 160, T = 64, STEP = 64, PITCH = STEP + 16, STAGES = 3, STEPS = (BYTES + STEP - 1) / STEP;

__device__ inline uint32_t shared(const void *p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

__device__ inline void copy_async(uint8_t *to, const uint8_t *from, bool inside) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared(to)), "l"(from), "r"(inside ? 16 : 0) : "memory");
}
__device__ inline void load_matrices(uint32_t (&r)[4], const void *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared(row))
               : "memory");
}

#define MMA(NAME, FORM)                                                                                                                     \
  struct NAME {                                                                                                                             \
    static constexpr int words = 4;                                                                                                         \
    static __device__ void run(uint32_t (&d)[4], const uint32_t *a, const uint32_t *b) {                                                    \
      asm volatile(FORM " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                                  \
                   : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])                                                                         \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                                                     \
    }                                                                                                                                       \
  };
MMA(s8, "mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.u8.s32")
#define MMA_FLOAT(NAME, FORM)                                                                                                               \
  struct NAME {                                                                                                                             \
    static constexpr int words = 4;                                                                                                         \
    static __device__ void run(uint32_t (&d)[4], const uint32_t *a, const uint32_t *b) {                                                    \
      float f[4];                                                                                                                           \
      for (int i = 0; i < 4; i++) f[i] = __uint_as_float(d[i]);                                                                             \
      asm volatile(FORM " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                                  \
                   : "+f"(f[0]), "+f"(f[1]), "+f"(f[2]), "+f"(f[3])                                                                         \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                                                     \
      for (int i = 0; i < 4; i++) d[i] = __float_as_uint(f[i]);                                                                             \
    }                                                                                                                                       \
  };
MMA_FLOAT(bf16, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32")
MMA_FLOAT(tf32, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32")
MMA_FLOAT(e4m3, "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32")
struct f16 {
  static constexpr int words = 2;
  static __device__ void run(uint32_t (&d)[2], const uint32_t *a, const uint32_t *b) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
                 : "+r"(d[0]), "+r"(d[1])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
};

template <class Instruction> __device__ void gemm(const uint8_t *a, const uint8_t *b, uint32_t *d) {
  __shared__ alignas(16) uint8_t tiles[STAGES][2][T * PITCH];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32, m = 32 * (warp % 2), n = 32 * (warp / 2);
  int row = blockIdx.x / 2 * T, column = blockIdx.x % 2 * T;
  uint32_t sum[2][4][Instruction::words] = {};
  auto fetch = [&](int step) {
    if (step < STEPS)
#pragma unroll 1
      for (int i = threadIdx.x; i < 2 * T * STEP / 16; i += 128) {
        int which = i / (T * STEP / 16), r = i / (STEP / 16) % T, c = 16 * (i % (STEP / 16)), k = step * STEP + c;
        bool inside = k < BYTES && (which ? column : row) + r < ROWS;
        const uint8_t *from = which ? b + (column + r) * BYTES + k : a + (row + r) * BYTES + k;
        copy_async(&tiles[step % STAGES][which][r * PITCH + c], inside ? from : a, inside);
      }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  fetch(0), fetch(1);
#pragma unroll 1
  for (int step = 0; step < STEPS; step++) {
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    fetch(step + 2);
#pragma unroll 1
    for (int k = 0; k < STEP; k += 32) {
      uint32_t fa[2][4], fb[2][4];
      for (int i = 0; i < 2; i++) {
        load_matrices(fa[i], &tiles[step % STAGES][0][(m + 16 * i + lane % 16) * PITCH + k + 16 * (lane / 16)]);
        load_matrices(fb[i], &tiles[step % STAGES][1][(n + 16 * i + lane % 8 + lane / 16 * 8) * PITCH + k + 16 * (lane / 8 % 2)]);
      }
      for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++) Instruction::run(sum[i][j], fa[i], &fb[j / 2][2 * (j % 2)]);
    }
  }
  if constexpr (Instruction::words == 2) {
    __syncthreads();
    uint32_t *words = reinterpret_cast<uint32_t *>(tiles);  // rows of 32 words and 4 more
    for (int i = 0; i < 2; i++)
      for (int j = 0; j < 4; j++)
        asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(shared(words + (m + 16 * i + lane % 16) * 36 + n / 2 + 4 * j)),
                     "r"(sum[i][j][0]), "r"(sum[i][j][1])
                     : "memory");
    __syncthreads();
#pragma unroll 1
    for (int i = threadIdx.x; i < T * T / 2; i += 128)
      if (row + i / 32 < ROWS && column + 2 * (i % 32) < ROWS) d[((row + i / 32) * ROWS + column) / 2 + i % 32] = words[i / 32 * 36 + i % 32];
  } else {
    for (int i = 0; i < 2; i++)
      for (int j = 0; j < 4; j++)
        for (int w = 0; w < 4; w++) {
          int r = row + m + 16 * i + lane / 4 + 8 * (w / 2), c = column + n + 8 * j + 2 * (lane % 4) + w % 2;
          if (r < ROWS && c < ROWS) d[r * ROWS + c] = sum[i][j][w];
        }
  }
}

#define KERNEL(NAME)                                                                                                            \
  extern "C" __global__ void __launch_bounds__(128) gemm_##NAME(const uint8_t *a, const uint8_t *b, uint32_t *d) { gemm<NAME>(a, b, d); }
KERNEL(bf16) KERNEL(tf32) KERNEL(f16) KERNEL(e4m3) KERNEL(s8)
