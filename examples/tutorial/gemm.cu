// C = A B^T with tcgen05: A [m, k] and B [n, k] in f16, C [m, n] in f32. One CTA of 128 threads computes a tile of 128 x 128.
#include <cstdint>

constexpr int M = 128, N = 128, K = 64, STAGES = 2;  // the tile, a step of the K loop, and how many steps are in shared memory at a time
constexpr int A_BYTES = M * K * 2, B_BYTES = N * K * 2, STAGE_BYTES = A_BYTES + B_BYTES;
constexpr int PIECE = 32;                            // C leaves in pieces of 32 columns

// D is f32 (1 at bit 4), A and B are f16 (0 at bits 7 and 10) and K-major (0 at bits 15 and 16); N / 8 stands at bit 17, M / 16 at bit 24.
constexpr uint32_t INSTRUCTION = 1 << 4 | 0 << 7 | 0 << 10 | 0 << 15 | 0 << 16 | N / 8 << 17 | M / 16 << 24;

struct alignas(64) TensorMap {
  char bytes[128];
};

__device__ uint32_t shared_address(const void *p) { return uint32_t(__cvta_generic_to_shared(p)); }

// Rows of 128 bytes with 128B swizzling: 8 rows, 1024 bytes, are an atom, and the next 8 rows follow it.
__device__ uint64_t descriptor(uint32_t address) {
  uint64_t start = address >> 4, leading = 1, stride = 1024 >> 4, version = 1, swizzle = 2;
  return start | leading << 16 | stride << 32 | version << 46 | swizzle << 61;
}

// The instructions, as macros: a finding then names the line that uses them.
#define INITIALISE(barrier) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier)) : "memory")
#define WAIT(barrier, parity)                                                                                                   \
  asm volatile("{.reg .pred done; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; @!done bra AGAIN;}"           \
               ::"r"(shared_address(barrier)), "r"(parity) : "memory")
#define EXPECT(barrier, bytes)                                                                                                  \
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes) : "memory")
#define COPY(map, x, y, to, barrier)                                                                                            \
  asm volatile("cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"       \
               ::"r"(shared_address(to)), "l"(map), "r"(x), "r"(y), "r"(shared_address(barrier)) : "memory")
#define MULTIPLY(d, a, b, accumulate)                                                                                           \
  asm volatile("{.reg .pred p; setp.ne.b32 p, %4, 0; tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p;}"                  \
               ::"r"(d), "l"(a), "l"(b), "r"(INSTRUCTION), "r"(int(accumulate)) : "memory")
#define COMMIT(barrier)                                                                                                         \
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(shared_address(barrier)) : "memory")
#define FENCE_BEFORE() asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory")
#define FENCE_AFTER() asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory")

#define FOUR(i) "=r"(v[i]), "=r"(v[i + 1]), "=r"(v[i + 2]), "=r"(v[i + 3])
#define LOAD(v, address)                                                                                                        \
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x32.b32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
               "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, [%32];"                        \
               : FOUR(0), FOUR(4), FOUR(8), FOUR(12), FOUR(16), FOUR(20), FOUR(24), FOUR(28) : "r"(address))
#define WAIT_LOAD() asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory")

extern "C" __global__ void __launch_bounds__(128)
gemm(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map, const __grid_constant__ TensorMap c_map, int steps) {
  extern __shared__ __align__(1024) uint8_t shared[];  // the stages, each A and then B; behind them a piece of C
  __shared__ uint64_t full[STAGES], empty[STAGES], done;
  __shared__ uint32_t slot;
  uint8_t *c_tile = shared + STAGES * STAGE_BYTES;
  int warp = threadIdx.x / 32, row = blockIdx.y * M, column = blockIdx.x * N;

  // 1. Allocate columns of tensor memory, and initialise the barriers.
  if (warp == 0) {
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(shared_address(&slot)), "r"(N) : "memory");
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
  }
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; stage++) {
      INITIALISE(&full[stage]);
      INITIALISE(&empty[stage]);
    }
    INITIALISE(&done);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  FENCE_BEFORE();
  __syncthreads();
  FENCE_AFTER();
  uint32_t d = slot;

  if (threadIdx.x == 0) {
    // 2. One thread fills the stages.
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
      int stage = step % STAGES, round = step / STAGES;
      uint8_t *a = shared + stage * STAGE_BYTES, *b = a + A_BYTES;
      WAIT(&empty[stage], (round + 1) % 2);
      EXPECT(&full[stage], STAGE_BYTES);
      COPY(&a_map, step * K, row, a, &full[stage]);
      COPY(&b_map, step * K, column, b, &full[stage]);
    }
  } else if (threadIdx.x == 32) {
    // 3. Another one multiplies what is in them.
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
      int stage = step % STAGES, round = step / STAGES;
      uint32_t a = shared_address(shared) + stage * STAGE_BYTES, b = a + A_BYTES;
      WAIT(&full[stage], round % 2);
      FENCE_AFTER();
      for (int k = 0; k < K; k += 16)
        MULTIPLY(d, descriptor(a + k * 2), descriptor(b + k * 2), step > 0 || k > 0);
      COMMIT(&empty[stage]);
    }
    COMMIT(&done);
  }
  asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");

  // 4. All threads wait for the last product, and bring C to global memory.
  WAIT(&done, 0);
  FENCE_AFTER();
#pragma unroll 1
  for (int piece = 0; piece < N; piece += PIECE) {
    uint32_t v[PIECE];
    LOAD(v, d + (warp * 32 << 16) + piece);  // thread i of the warp gets lane 32 * warp + i
    WAIT_LOAD();
    uint4 *to = reinterpret_cast<uint4 *>(c_tile + threadIdx.x * PIECE * 4);
    for (int i = 0; i < PIECE; i += 4) to[i / 4] = make_uint4(v[i], v[i + 1], v[i + 2], v[i + 3]);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
      asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
                   ::"l"(&c_map), "r"(column + piece), "r"(row), "r"(shared_address(c_tile)) : "memory");
      asm volatile("cp.async.bulk.commit_group;");
      asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
    __syncthreads();
  }

  // 5. Release tensor memory.
  FENCE_BEFORE();
  __syncthreads();
  FENCE_AFTER();
  if (warp == 0) asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(d), "r"(N));
}
