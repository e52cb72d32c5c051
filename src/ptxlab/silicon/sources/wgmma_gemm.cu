// D = A B^T with wgmma in a cluster of two CTAs: each loads its rows of A and half of the rows of B, which both use, by multicast.
// One thread loads, a warpgroup multiplies, full and empty mbarriers connect them. D is 128 x 64, K has 5 steps of 128 bytes.
#include "ptx.cuh"

constexpr int M = 64, N = 64, STEP = 128, STEPS = 5, STAGES = 3, THREADS = 256;

struct Storage {
  uint8_t a[STAGES][M * STEP], b[STAGES][N * STEP];
  uint64_t full[STAGES], empty[STAGES];
};

// Rows of 128 bytes with 128B swizzling, K-major: eight rows are 1,024 bytes; the leading dimension byte offset is not used.
__device__ inline uint64_t descriptor(const void *p) {
  return uint64_t((shared(p) & 0x3FFFF) >> 4) | uint64_t(1) << 16 | uint64_t(1024 >> 4) << 32 | uint64_t(1) << 62;
}

#define R8(i) "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3]), "+r"(d[i + 4]), "+r"(d[i + 5]), "+r"(d[i + 6]), "+r"(d[i + 7])
#define WGMMA(NAME, FORM, TAIL)                                                                                                             \
  struct NAME {                                                                                                                             \
    static constexpr int elements = STEP / sizeof(TYPE_##NAME);                                                                             \
    static __device__ void run(uint32_t (&d)[32], uint64_t a, uint64_t b, int accumulate) {                                                 \
      asm volatile("{.reg .pred p; setp.ne.b32 p, %34, 0; wgmma.mma_async.sync.aligned." FORM                                               \
                   " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                               \
                   "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, p" TAIL ";}"                 \
                   : R8(0), R8(8), R8(16), R8(24) : "l"(a), "l"(b), "r"(accumulate) : "memory");                                            \
    }                                                                                                                                       \
  };
using TYPE_bf16 = uint16_t;
using TYPE_tf32 = uint32_t;
using TYPE_e4m3 = uint8_t;
using TYPE_s8 = uint8_t;
WGMMA(bf16, "m64n64k16.f32.bf16.bf16", ", 1, 1, 0, 0")
WGMMA(tf32, "m64n64k8.f32.tf32.tf32", ", 1, 1")
WGMMA(e4m3, "m64n64k32.f32.e4m3.e5m2", ", 1, 1")
WGMMA(s8, "m64n64k32.s32.s8.u8.satfinite", "")

template <class Instruction> __device__ void gemm(uint32_t *d, const TensorMap *a_map, const TensorMap *b_map) {
  extern __shared__ __align__(1024) uint8_t raw[];
  Storage &s = *reinterpret_cast<Storage *>(raw);
  uint32_t rank = cluster::rank(), other = rank ^ 1;
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; i++) barrier::init(&s.full[i], 1), barrier::init(&s.empty[i], 2);
    barrier::fence_init();
  }
  cluster::sync();
  if (threadIdx.x == 128) {
#pragma unroll 1
    for (int step = 0; step < STEPS; step++) {
      int stage = step % STAGES;
      barrier::wait(&s.empty[stage], step / STAGES % 2 ^ 1);
      barrier::expect(&s.full[stage], (M + N) * STEP);
      tma::load(s.a[stage], a_map, &s.full[stage], step * Instruction::elements, rank * M);
      tma::load_multicast(s.b[stage] + rank * N / 2 * STEP, b_map, &s.full[stage], step * Instruction::elements, rank * N / 2, 3);
    }
  } else if (threadIdx.x < 128) {
    uint32_t sum[32] = {};
#pragma unroll 1
    for (int step = 0; step < STEPS; step++) {
      int stage = step % STAGES;
      barrier::wait(&s.full[stage], step / STAGES % 2);
      for (uint32_t &word : sum) asm volatile("" : "+r"(word)::"memory");
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
      for (int k = 0; k < 4; k++) Instruction::run(sum, descriptor(s.a[stage] + 32 * k), descriptor(s.b[stage] + 32 * k), step + k > 0);
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
      if (threadIdx.x == 0) barrier::arrive(&s.empty[stage]), barrier::arrive(&s.empty[stage], other);
    }
    int row = rank * M + 16 * (threadIdx.x / 32) + threadIdx.x % 32 / 4, column = 2 * (threadIdx.x % 4);
    for (int i = 0; i < 32; i += 2)
      *reinterpret_cast<uint2 *>(d + (row + 8 * (i >> 1 & 1)) * N + 8 * (i >> 2) + column) = make_uint2(sum[i], sum[i + 1]);
  }
  cluster::sync();  // shared memory stays until the other CTA has arrived on it
}

#define KERNEL(NAME)                                                                                                                         \
  extern "C" __global__ void __launch_bounds__(THREADS) __cluster_dims__(2, 1, 1)                                                            \
      gemm_##NAME(const void *, const void *, uint32_t *d, const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b) {       \
    gemm<NAME>(d, &a, &b);                                                                                                                   \
  }
KERNEL(bf16) KERNEL(tf32) KERNEL(e4m3) KERNEL(s8)
