// D = A B^T with mma.sync: tiles of 64 x 64, cp.async in three stages, ldmatrix, and for f16 results stmatrix. A and B are K-major.
#include <cstdint>

constexpr int T = 64, STEP = 64, PITCH = STEP + 16, STAGES = 3;  // bytes along K

__device__ inline uint32_t shared(const void *p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

__device__ inline void copy_async(uint8_t *to, const uint8_t *from, bool inside) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared(to)), "l"(from), "r"(inside ? 16 : 0) : "memory");
}
__device__ inline void load_matrices(uint32_t (&r)[4], const void *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared(row)) : "memory");
}

#define MMA(NAME, FORM)                                                                                                                 \
  struct NAME {                                                                                                                         \
    static constexpr int words = 4;                                                                                                     \
    static __device__ void run(uint32_t (&d)[4], const uint32_t *a, const uint32_t *b) {                                                \
      asm volatile("mma.sync.aligned." FORM " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                          \
                   : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1])); \
    }                                                                                                                                   \
  };
#define MMA_FLOAT(NAME, FORM)                                                                                                           \
  struct NAME {                                                                                                                         \
    static constexpr int words = 4;                                                                                                     \
    static __device__ void run(uint32_t (&d)[4], const uint32_t *a, const uint32_t *b) {                                                \
      float f[4];                                                                                                                       \
      for (int i = 0; i < 4; i++) f[i] = __uint_as_float(d[i]);                                                                         \
      asm volatile("mma.sync.aligned." FORM " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                          \
                   : "+f"(f[0]), "+f"(f[1]), "+f"(f[2]), "+f"(f[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1])); \
      for (int i = 0; i < 4; i++) d[i] = __float_as_uint(f[i]);                                                                         \
    }                                                                                                                                   \
  };
MMA_FLOAT(f32_f16, "m16n8k16.row.col.f32.f16.f16.f32")
MMA_FLOAT(f32_bf16, "m16n8k16.row.col.f32.bf16.bf16.f32")
MMA_FLOAT(f32_tf32, "m16n8k8.row.col.f32.tf32.tf32.f32")
MMA_FLOAT(f32_e4m3, "m16n8k32.row.col.f32.e4m3.e5m2.f32")
MMA(s32_s8, "m16n8k32.row.col.s32.s8.u8.s32")
MMA(s32_s4, "m16n8k64.row.col.satfinite.s32.s4.s4.s32")
MMA(s32_b1, "m16n8k256.row.col.s32.b1.b1.s32.xor.popc")
struct f16_f16 {
  static constexpr int words = 2;
  static __device__ void run(uint32_t (&d)[2], const uint32_t *a, const uint32_t *b) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
                 : "+r"(d[0]), "+r"(d[1])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
};

template <class Instruction> __device__ void gemm(const uint8_t *a, const uint8_t *b, uint32_t *d, int rows, int columns, int bytes) {
  __shared__ alignas(16) uint8_t tiles[STAGES][2][T * PITCH];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32, m = 32 * (warp % 2), n = 32 * (warp / 2), steps = (bytes + STEP - 1) / STEP;
  int row = blockIdx.x * T, column = blockIdx.y * T;
  uint32_t sum[2][4][Instruction::words] = {};
  auto fetch = [&](int step) {
    if (step < steps)
      for (int i = threadIdx.x; i < 2 * T * STEP / 16; i += 128) {
        int which = i / (T * STEP / 16), r = i / (STEP / 16) % T, c = 16 * (i % (STEP / 16)), k = step * STEP + c;
        bool inside = k < bytes && (which ? column + r < columns : row + r < rows);
        const uint8_t *from = which ? b + size_t(column + r) * bytes + k : a + size_t(row + r) * bytes + k;
        copy_async(&tiles[step % STAGES][which][r * PITCH + c], inside ? from : a, inside);
      }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  fetch(0), fetch(1);
  for (int step = 0; step < steps; step++) {
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    fetch(step + 2);
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
    for (int i = threadIdx.x; i < T * T / 2; i += 128)
      if (row + i / 32 < rows && column + 2 * (i % 32) < columns) d[(row + i / 32) * columns / 2 + column / 2 + i % 32] = words[i / 32 * 36 + i % 32];
  } else {
    for (int i = 0; i < 2; i++)
      for (int j = 0; j < 4; j++)
        for (int w = 0; w < 4; w++) {
          int r = row + m + 16 * i + lane / 4 + 8 * (w / 2), c = column + n + 8 * j + 2 * (lane % 4) + w % 2;
          if (r < rows && c < columns) d[r * columns + c] = sum[i][j][w];
        }
  }
}

#define KERNEL(NAME)                                                                                                                        \
  extern "C" __global__ void __launch_bounds__(128) warp_##NAME(const uint8_t *a, const uint8_t *b, uint32_t *d, int rows, int columns, int bytes) { \
    gemm<NAME>(a, b, d, rows, columns, bytes);                                                                                              \
  }
KERNEL(f32_f16) KERNEL(f16_f16) KERNEL(f32_bf16) KERNEL(f32_tf32) KERNEL(f32_e4m3) KERNEL(s32_s8) KERNEL(s32_s4) KERNEL(s32_b1)

// f64 by m16n8k16, one warp for a tile of 16 x 8.
extern "C" __global__ void warp_f64(const double *a, const double *b, double *d, int columns, int k) {
  int lane = threadIdx.x, row = blockIdx.x * 16 + lane / 4, column = blockIdx.y * 8;
  double s[4] = {};
  for (int base = 0; base < k; base += 16) {
    double fa[8], fb[4];
    for (int i = 0; i < 8; i++) fa[i] = a[(row + 8 * (i & 1)) * k + base + lane % 4 + 4 * (i >> 1)];
    for (int i = 0; i < 4; i++) fb[i] = b[(column + lane / 4) * k + base + lane % 4 + 4 * i];
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, {%0, %1, %2, %3};"
        : "+d"(s[0]), "+d"(s[1]), "+d"(s[2]), "+d"(s[3])
        : "d"(fa[0]), "d"(fa[1]), "d"(fa[2]), "d"(fa[3]), "d"(fa[4]), "d"(fa[5]), "d"(fa[6]), "d"(fa[7]), "d"(fb[0]), "d"(fb[1]), "d"(fb[2]), "d"(fb[3]));
  }
  for (int i = 0; i < 4; i++) d[(row + 8 * (i >> 1)) * columns + column + 2 * (lane % 4) + (i & 1)] = s[i];
}

// Sparse f16: the stored half of A, metadata words for each step and thread, one warp for a tile of 16 x 8.
extern "C" __global__ void warp_sparse(const uint32_t *a, const uint32_t *b, const uint32_t *metadata, float *d, int steps) {
  int lane = threadIdx.x;
  float s[4] = {};
  for (int step = 0; step < steps; step++) {
    uint32_t fa[4], fb[4];
    for (int i = 0; i < 4; i++) {
      fa[i] = a[((lane / 4 + 8 * (i & 1)) * steps + step) * 8 + lane % 4 + 4 * (i >> 1)];
      fb[i] = b[((blockIdx.x * 8 + lane / 4) * steps + step) * 16 + lane % 4 + 4 * i];
    }
    asm volatile(
        "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, 0x0;"
        : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3])
        : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]), "r"(fb[2]), "r"(fb[3]), "r"(metadata[step * 32 + lane]));
  }
  for (int i = 0; i < 4; i++) d[(lane / 4 + 8 * (i >> 1)) * gridDim.x * 8 + blockIdx.x * 8 + 2 * (lane % 4) + (i & 1)] = s[i];
}
