// D = A B^T with tcgen05.mma, fed by tensor copies: one warp loads, one issues multiplications, four move sums from tensor memory to shared
// memory, from where a tensor copy stores them. Tiles of 128 x 64 for each CTA, or 256 x 64 for a pair, K in 3 steps of 128 bytes.
// Persistent: two CTAs, or a pair, have three tiles each; tensor memory has the sums of one tile while those of another are stored.
#include "ptx.cuh"

constexpr int M = 128, N = 64, STEP = 128, STEPS = 3, STAGES = 3, TILES = 3, THREADS = 192, COLUMNS = 256, SCALES = 512;
constexpr int SCALE_COLUMN_A = 128, SCALE_COLUMN_B = 132;

struct Storage {
  uint8_t a[STAGES][M * STEP], b[STAGES][N * STEP];
  float d[M * N];
  uint4 scales_a[STAGES][SCALES / 16], scales_b[STAGES][SCALES / 16];
  uint64_t full[STAGES], empty[STAGES], sums_full[2], sums_empty[2];
  uint32_t columns;
};

// Rows of 128 bytes with 128B swizzling, K-major: eight rows are 1,024 bytes; the leading dimension byte offset is not used.
__device__ inline uint64_t descriptor(const void *p) {
  return uint64_t((shared(p) & 0x3FFFF) >> 4) | uint64_t(1) << 16 | uint64_t(1024 >> 4) << 32 | uint64_t(1) << 46 | uint64_t(2) << 61;
}
// 32 rows of 16 bytes without swizzling.
__device__ inline uint64_t scale_descriptor(const void *p) {
  return uint64_t((shared(p) & 0x3FFFF) >> 4) | uint64_t(128 >> 4) << 16 | uint64_t(128 >> 4) << 32 | uint64_t(1) << 46;
}

template <int Group> struct Bf16 {
  static constexpr int elements = 64;
  static constexpr bool scaled = false;
  static __device__ uint32_t idesc(int) { return 1 << 4 | 1 << 7 | 1 << 10 | N / 8 << 17 | M * Group / 16 << 24; }
  static __device__ void run(uint32_t d, uint64_t a, uint64_t b, uint32_t idesc, int accumulate, uint32_t, uint32_t) {
    asm volatile("{.reg .pred p; setp.ne.b32 p, %4, 0; tcgen05.mma.cta_group::%5.kind::f16 [%0], %1, %2, %3, p;}" ::"r"(d), "l"(a), "l"(b),
                 "r"(idesc), "r"(accumulate), "n"(Group)
                 : "memory");
  }
};
template <int Group> struct E4m3 {
  static constexpr int elements = 128;
  static constexpr bool scaled = false;
  // A of e4m3, B of e5m2.
  static __device__ uint32_t idesc(int) { return 1 << 4 | 1 << 10 | N / 8 << 17 | M * Group / 16 << 24; }
  static __device__ void run(uint32_t d, uint64_t a, uint64_t b, uint32_t idesc, int accumulate, uint32_t, uint32_t) {
    asm volatile("{.reg .pred p; setp.ne.b32 p, %4, 0; tcgen05.mma.cta_group::%5.kind::f8f6f4 [%0], %1, %2, %3, p;}" ::"r"(d), "l"(a), "l"(b),
                 "r"(idesc), "r"(accumulate), "n"(Group)
                 : "memory");
  }
};
template <int Group> struct Mxf8 {
  static constexpr int elements = 128;
  static constexpr bool scaled = true;
  // Each of the four multiplications of a step has its byte of the scale factors.
  static __device__ uint32_t idesc(int k) { return k << 4 | N / 8 << 17 | 1 << 23 | M * Group / 128 << 27 | k << 29; }
  static __device__ void run(uint32_t d, uint64_t a, uint64_t b, uint32_t idesc, int accumulate, uint32_t scale_a, uint32_t scale_b) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %4, 0; tcgen05.mma.cta_group::%7.kind::mxf8f6f4.block_scale.scale_vec::1X [%0], %1, %2, %3, [%5], [%6], p;}" ::"r"(d),
        "l"(a), "l"(b), "r"(idesc), "r"(accumulate), "r"(scale_a), "r"(scale_b), "n"(Group)
        : "memory");
  }
};

template <int Group> __device__ inline void synchronise() {
  asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
  if (Group == 2)
    cluster::sync();
  else
    __syncthreads();
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}
// Arrives in each CTA of the group when what this thread has issued is complete.
template <int Group> __device__ inline void commit(uint64_t *b) {
  if (Group == 1)
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(shared(b)) : "memory");
  else
    asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;" ::"r"(shared(b)),
                 "h"(uint16_t(3))
                 : "memory");
}
// The barrier of CTA 0 of a pair counts the bytes of both.
template <int Group> __device__ inline void load(void *to, const TensorMap *map, uint64_t *b, int x, int y) {
  uint32_t full = shared(b);
  if (Group == 2) asm volatile("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(full) : "r"(shared(b)));
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::%5 [%0], [%1, {%2, %3}], [%4];" ::"r"(
                   shared(to)),
               "l"(map), "r"(x), "r"(y), "r"(full), "n"(Group)
               : "memory");
}

template <class Kind, int Group>
__device__ void gemm(const uint8_t *scales_a, const uint8_t *scales_b, const TensorMap *a_map, const TensorMap *b_map, const TensorMap *d_map) {
  extern __shared__ __align__(1024) uint8_t raw[];
  Storage &s = *reinterpret_cast<Storage *>(raw);
  constexpr int WIDTH = N / Group;  // rows of B in a CTA
  int warp = threadIdx.x / 32, rank = Group == 2 ? blockIdx.x % 2 : 0, group = blockIdx.x / Group;
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; i++) barrier::init(&s.full[i], 1), barrier::init(&s.empty[i], 1);
    for (int i = 0; i < 2; i++) barrier::init(&s.sums_full[i], 1), barrier::init(&s.sums_empty[i], Group);
    barrier::fence_init();
  }
  if (warp == 0) {
    asm volatile("tcgen05.alloc.cta_group::%2.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(shared(&s.columns)), "r"(COLUMNS), "n"(Group) : "memory");
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::%0.sync.aligned;" ::"n"(Group));
  }
  synchronise<Group>();
  uint32_t tensor = s.columns;

  // Tile t of a group has the rows of the group and the columns of t.
  int row = (group * Group + rank) * M;
  if (threadIdx.x == 128) {
#pragma unroll 1
    for (int i = 0; i < TILES * STEPS; i++) {
      int stage = i % STAGES, step = i % STEPS, tile = i / STEPS;
      barrier::wait(&s.empty[stage], i / STAGES % 2 ^ 1);
      if (rank == 0) barrier::expect(&s.full[stage], Group * (M + WIDTH) * STEP + (Kind::scaled ? 2 * SCALES : 0));
      load<Group>(s.a[stage], a_map, &s.full[stage], step * Kind::elements, row);
      load<Group>(s.b[stage], b_map, &s.full[stage], step * Kind::elements, tile * N + rank * WIDTH);
      if (Kind::scaled) {
        tma::load_bytes(s.scales_a[stage], scales_a + (group * STEPS + step) * SCALES, SCALES, &s.full[stage]);
        tma::load_bytes(s.scales_b[stage], scales_b + (tile * STEPS + step) * SCALES, SCALES, &s.full[stage]);
      }
    }
  } else if (threadIdx.x == 160 && rank == 0) {
#pragma unroll 1
    for (int i = 0; i < TILES * STEPS; i++) {
      int stage = i % STAGES, step = i % STEPS, tile = i / STEPS;
      if (step == 0) barrier::wait(&s.sums_empty[tile % 2], tile / 2 % 2 ^ 1);
      barrier::wait(&s.full[stage], i / STAGES % 2);
      asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
      if (Kind::scaled) {
        asm volatile("tcgen05.cp.cta_group::%2.32x128b.warpx4 [%0], %1;" ::"r"(tensor + SCALE_COLUMN_A), "l"(scale_descriptor(s.scales_a[stage])), "n"(Group) : "memory");
        asm volatile("tcgen05.cp.cta_group::%2.32x128b.warpx4 [%0], %1;" ::"r"(tensor + SCALE_COLUMN_B), "l"(scale_descriptor(s.scales_b[stage])), "n"(Group) : "memory");
      }
      for (int k = 0; k < 4; k++)
        Kind::run(tensor + tile % 2 * N, descriptor(s.a[stage] + 32 * k), descriptor(s.b[stage] + 32 * k), Kind::idesc(k), step + k > 0,
                  tensor + SCALE_COLUMN_A, tensor + SCALE_COLUMN_B);
      commit<Group>(&s.empty[stage]);
      if (step == STEPS - 1) commit<Group>(&s.sums_full[tile % 2]);
    }
  } else if (warp < 4) {
#pragma unroll 1
    for (int tile = 0; tile < TILES; tile++) {
      barrier::wait(&s.sums_full[tile % 2], tile / 2 % 2);
      asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
      if (threadIdx.x == 0) tma::wait_read<0>();
      asm volatile("bar.sync 1, 128;" ::: "memory");
#pragma unroll 1
      for (int column = 0; column < N; column += 4) {
        uint4 v;
        asm volatile("tcgen05.ld.sync.aligned.32x32b.x4.b32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                     : "r"(tensor + (warp << 21) + tile % 2 * N + column));
        asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
        *reinterpret_cast<uint4 *>(&s.d[threadIdx.x * N + column]) = v;
      }
      asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
      tma::fence_shared();
      asm volatile("bar.sync 1, 128;" ::: "memory");
      if (threadIdx.x == 0) {
        Group == 2 ? barrier::arrive(&s.sums_empty[tile % 2], 0) : barrier::arrive(&s.sums_empty[tile % 2]);
        tma::store(d_map, s.d, tile * N, row);
        tma::commit();
      }
    }
    if (threadIdx.x == 0) tma::wait<0>();
  }
  __syncwarp();
  synchronise<Group>();
  if (warp == 0) asm volatile("tcgen05.dealloc.cta_group::%2.sync.aligned.b32 %0, %1;" ::"r"(tensor), "r"(COLUMNS), "n"(Group));
}

#define PARAMETERS                                                                                                                    \
  const void *, const void *, const uint8_t *scales_a, const uint8_t *scales_b, void *, const __grid_constant__ TensorMap a,           \
      const __grid_constant__ TensorMap b, const __grid_constant__ TensorMap d
#define KERNEL(NAME, KIND) \
  extern "C" __global__ void __launch_bounds__(THREADS) NAME(PARAMETERS) { gemm<KIND<1>, 1>(scales_a, scales_b, &a, &b, &d); }
#define KERNEL_PAIR(NAME, KIND)                                                                             \
  extern "C" __global__ void __launch_bounds__(THREADS) __cluster_dims__(2, 1, 1) NAME(PARAMETERS) {        \
    gemm<KIND<2>, 2>(scales_a, scales_b, &a, &b, &d);                                                       \
  }
KERNEL(gemm_bf16, Bf16)
KERNEL(gemm_e4m3, E4m3)
KERNEL(gemm_mxf8, Mxf8)
KERNEL_PAIR(pair_bf16, Bf16)
KERNEL_PAIR(pair_e4m3, E4m3)
