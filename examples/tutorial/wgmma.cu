// C = A B^T with wgmma: A [m, k] and B [n, k] in f16, C [m, n] in f32. One CTA of one warpgroup computes a tile of 64 x 64.
#include <cstdint>

constexpr int M = 64, N = 64, K = 64, STAGES = 2;
constexpr int A_BYTES = M * K * 2, B_BYTES = N * K * 2, STAGE_BYTES = A_BYTES + B_BYTES;

struct alignas(64) TensorMap {
  char bytes[128];
};

__device__ uint32_t shared_address(const void *p) { return uint32_t(__cvta_generic_to_shared(p)); }

// Rows of 128 bytes with 128B swizzling, as in gemm.cu. There is no version, and the swizzling mode stands at bit 62.
__device__ uint64_t descriptor(uint32_t address) {
  uint64_t start = address >> 4, leading = 1, stride = 1024 >> 4, swizzle = 1;
  return start | leading << 16 | stride << 32 | swizzle << 62;
}

#define INITIALISE(barrier) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier)) : "memory")
#define WAIT(barrier, parity)                                                                                                   \
  asm volatile("{.reg .pred done; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; @!done bra AGAIN;}"           \
               ::"r"(shared_address(barrier)), "r"(parity) : "memory")
#define EXPECT(barrier, bytes)                                                                                                  \
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes) : "memory")
#define COPY(map, x, y, to, barrier)                                                                                            \
  asm volatile("cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"       \
               ::"r"(to), "l"(map), "r"(x), "r"(y), "r"(shared_address(barrier)) : "memory")

#define FOUR(i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define MULTIPLY(c, a, b, accumulate)                                                                                           \
  asm volatile("{.reg .pred p; setp.ne.b32 p, %34, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "                      \
               "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, "     \
               "%23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, p, 1, 1, 0, 0;}"                                        \
               : FOUR(0), FOUR(4), FOUR(8), FOUR(12), FOUR(16), FOUR(20), FOUR(24), FOUR(28)                                    \
               : "l"(a), "l"(b), "r"(int(accumulate)))

extern "C" __global__ void __launch_bounds__(128)
gemm(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map, float *c_matrix, int n, int steps) {
  extern __shared__ __align__(1024) uint8_t shared[];  // the stages, each A and then B
  __shared__ uint64_t full[STAGES];
  int row = blockIdx.y * M, column = blockIdx.x * N;
  float c[32] = {};

  // 1. Initialise the barriers.
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; stage++) INITIALISE(&full[stage]);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();

#pragma unroll 1
  for (int step = -1; step < steps; step++) {
    // 2. One thread fills the stage of the next step, while the warpgroup multiplies.
    if (threadIdx.x == 0 && step + 1 < steps) {
      int stage = (step + 1) % STAGES;
      uint32_t a = shared_address(shared) + stage * STAGE_BYTES, b = a + A_BYTES;
      EXPECT(&full[stage], STAGE_BYTES);
      COPY(&a_map, (step + 1) * K, row, a, &full[stage]);
      COPY(&b_map, (step + 1) * K, column, b, &full[stage]);
    }
    if (step < 0) continue;

    // 3. All 128 threads multiply: each holds 32 elements of C in registers.
    int stage = step % STAGES, round = step / STAGES;
    uint32_t a = shared_address(shared) + stage * STAGE_BYTES, b = a + A_BYTES;
    WAIT(&full[stage], round % 2);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int k = 0; k < K; k += 16)
      MULTIPLY(c, descriptor(a + k * 2), descriptor(b + k * 2), step > 0 || k > 0);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    __syncthreads();  // the next copies overwrite what all warps have multiplied
  }

  // 4. Each thread stores its elements: pairs of columns of two rows.
  int lane = threadIdx.x % 32, first = row + threadIdx.x / 32 * 16 + lane / 4;
  for (int i = 0; i < 32; i += 2) {
    float *to = c_matrix + (first + i / 2 % 2 * 8) * n + column + i / 4 * 8 + lane % 4 * 2;
    *reinterpret_cast<float2 *>(to) = make_float2(c[i], c[i + 1]);
  }
}
