// D = A B^T fed by tensor copies: one warp loads, two warpgroups multiply, and full and empty mbarriers connect them.
// Tiles of 128 x 64, K in steps of 128 bytes. Clusters share tiles by multicast; schedules: a tile for each CTA, persistent, stream-K.
#include "sm90.cuh"

using namespace wgmma;

enum Sums { Straight, Promoted };  // Promoted: each step has sums of its own, which are added to the others in f32
enum Schedule { OneTile, Persistent, StreamK };

constexpr int M = 128, N = 64, STEP = 128, STAGES = 3, THREADS = 384;

struct Storage {
  uint8_t a[STAGES][M * STEP];
  uint8_t b[STAGES][N * STEP];
  uint64_t full[STAGES], empty[STAGES];
};

struct Ring {
  int stage = 0, phase = 0;
  __device__ void next() {
    if (++stage == STAGES) stage = 0, phase ^= 1;
  }
};

// The steps of a CTA: from `first` up to `end`, counted over all tiles one after the other.
template <Schedule S> struct Work {
  int at, end, steps, tiles;
  __device__ Work(int tiles_, int steps_) : steps(steps_), tiles(tiles_) {
    if (S == StreamK) {
      at = int(blockIdx.x * int64_t(tiles * steps) / gridDim.x);
      end = int((blockIdx.x + 1) * int64_t(tiles * steps) / gridDim.x);
    } else {
      at = blockIdx.x * steps;
      end = S == OneTile ? at + steps : tiles * steps;
    }
  }
  __device__ bool more() const { return at < end; }
  __device__ int tile() const { return at / steps; }
  __device__ int first() const { return at % steps; }
  __device__ int last() const { return min(steps, first() + end - at); }
  __device__ void next() {
    if (S == StreamK)
      at += last() - first();
    else
      at += int(gridDim.x) * steps;
  }
};

template <class Instruction, Sums How, Schedule S, int CM, int CN>
__device__ void gemm(const TensorMap *a_map, const TensorMap *b_map, uint32_t *d, int rows, int columns, int steps, int step_elements,
                     float *partial, uint32_t *flags) {
  extern __shared__ __align__(1024) uint8_t raw[];
  Storage &s = *reinterpret_cast<Storage *>(raw);
  int group = threadIdx.x / 128, thread = threadIdx.x % 128;
  // The CTAs of a cluster are CM tiles below each other, in CN columns.
  int rank = CM * CN > 1 ? cluster::rank() : 0, row = rank % CM, column = rank / CM;
  int across = columns / N;
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; i++) barrier::init(&s.full[i], 1), barrier::init(&s.empty[i], 2 * (CM + CN - 1));
    barrier::fence_init();
  }
  if (CM * CN > 1)
    cluster::sync();
  else
    __syncthreads();

  Work<S> work(rows / M * across, steps);
  auto tile_m = [&](int tile) { return CM * CN > 1 ? tile / (CM * CN) % (rows / M / CM) * CM + row : tile / across; };
  auto tile_n = [&](int tile) { return CM * CN > 1 ? tile / (CM * CN) / (rows / M / CM) * CN + column : tile % across; };
  Ring ring;
  if (group == 2) {
    fewer_registers<40>();
    if (thread == 0)
      for (; work.more(); work.next()) {
        int m = tile_m(work.tile()) * M, n = tile_n(work.tile()) * N;
        for (int k = work.first(), end = work.last(); k < end; k++, ring.next()) {
          uint64_t *full = &s.full[ring.stage];
          barrier::wait(&s.empty[ring.stage], ring.phase ^ 1);
          barrier::expect(full, (M + N) * STEP);
          uint8_t *a = s.a[ring.stage], *b = s.b[ring.stage];
          if (CN > 1) {
            uint16_t same_row = 0;
            for (int c = 0; c < CN; c++) same_row |= 1 << (row + CM * c);
            tma::load_multicast(a + column * (M / CN) * STEP, a_map, full, k * step_elements, m + column * (M / CN), same_row);
          } else {
            tma::load(a, a_map, full, k * step_elements, m);
          }
          if (CM > 1)
            tma::load_multicast(b + row * (N / CM) * STEP, b_map, full, k * step_elements, n + row * (N / CM), uint16_t(((1 << CM) - 1) << CM * column));
          else
            tma::load(b, b_map, full, k * step_elements, n);
        }
      }
  } else {
    more_registers<208>();
    for (; work.more(); work.next()) {
      int m = tile_m(work.tile()) * M, n = tile_n(work.tile()) * N, start = work.first(), end = work.last();
      uint32_t sum[32], main[32];
      for (int i = 0; i < 32; i++) sum[i] = main[i] = 0;
      for (int k = start; k < end; k++, ring.next()) {
        barrier::wait(&s.full[ring.stage], ring.phase);
        fence_sums(sum);
        for (int i = 0; i < 4; i++)
          Instruction::from_shared(sum, descriptor(shared(s.a[ring.stage]) + group * 64 * STEP + 32 * i), descriptor(shared(s.b[ring.stage]) + 32 * i),
                                   i > 0 || (How == Straight && k > start));
        commit();
        wait<0>();
        if (thread == 0) {
          for (int c = 0; c < CN; c++) CM *CN > 1 ? cluster::arrive(&s.empty[ring.stage], row + CM * c) : barrier::arrive(&s.empty[ring.stage]);
          for (int c = 0; c < CM; c++)
            if (c != row) cluster::arrive(&s.empty[ring.stage], c + CM * column);
        }
        if (How == Promoted)
          for (int i = 0; i < 32; i++) main[i] = __float_as_uint(__fadd_rn(__uint_as_float(main[i]), __uint_as_float(sum[i])));
      }
      if (How == Straight)
        for (int i = 0; i < 32; i++) main[i] = sum[i];
      int r0 = 64 * group + 16 * (thread / 32) + thread % 32 / 4, c0 = 2 * (thread % 4);
      if (S == StreamK && start > 0) {
        // Another CTA has the beginning of the tile: it adds these sums.
        float *mine = partial + size_t(blockIdx.x) * M * N;
        for (int i = 0; i < 32; i++) mine[(r0 + 8 * (i >> 1 & 1)) * N + 8 * (i >> 2) + c0 + (i & 1)] = __uint_as_float(main[i]);
        __threadfence();
        asm volatile("bar.sync 1, 256;" ::: "memory");
        if (threadIdx.x == 0) asm volatile("st.release.gpu.global.b32 [%0], %1;" ::"l"(flags + blockIdx.x), "r"(1) : "memory");
        continue;
      }
      if (S == StreamK)
        for (int other = blockIdx.x + 1, missing = steps - end; missing > 0; other++) {
          if (threadIdx.x == 0) {
            uint32_t done = 0;
            for (;;) {
              asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(done) : "l"(flags + other) : "memory");
              if (done) break;
              __nanosleep(100);
            }
          }
          asm volatile("bar.sync 1, 256;" ::: "memory");
          const float *theirs = partial + size_t(other) * M * N;
          for (int i = 0; i < 32; i++)
            main[i] = __float_as_uint(__fadd_rn(__uint_as_float(main[i]), theirs[(r0 + 8 * (i >> 1 & 1)) * N + 8 * (i >> 2) + c0 + (i & 1)]));
          int64_t all = int64_t(work.tiles) * steps;
          missing -= int((other + 1) * all / gridDim.x) - int(other * all / gridDim.x);
        }
      for (int i = 0; i < 32; i += 2)
        *reinterpret_cast<uint2 *>(d + size_t(m + r0 + 8 * (i >> 1 & 1)) * columns + n + 8 * (i >> 2) + c0) = make_uint2(main[i], main[i + 1]);
    }
  }
  if (CM * CN > 1) cluster::sync();  // shared memory stays until the others have arrived on it
}

#define PLUS ", 1, 1"
WGMMA_32(f16, "m64n64k16.f32.f16.f16", PLUS ", 0, 0", PLUS ", 0")
WGMMA_32(bf16, "m64n64k16.f32.bf16.bf16", PLUS ", 0, 0", PLUS ", 0")
WGMMA_32(tf32, "m64n64k8.f32.tf32.tf32", PLUS, PLUS)
WGMMA_32(e4m3, "m64n64k32.f32.e4m3.e4m3", PLUS, PLUS)
WGMMA_32(e5m2, "m64n64k32.f32.e5m2.e4m3", PLUS, PLUS)
WGMMA_32(s8, "m64n64k32.s32.s8.u8", "", "")

#define KERNEL(NAME, TYPE, SUMS, SCHEDULE, CM, CN)                                                                                      \
  extern "C" __global__ void __launch_bounds__(THREADS, 1) __cluster_dims__(CM *CN, 1, 1)                                               \
      NAME(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, uint32_t *d, int rows, int columns, int steps, int step_elements, \
           float *partial, uint32_t *flags) {                                                                                           \
    gemm<TYPE, SUMS, SCHEDULE, CM, CN>(&a, &b, d, rows, columns, steps, step_elements, partial, flags);                                 \
  }

KERNEL(gemm_f16, f16, Straight, OneTile, 1, 1)
KERNEL(gemm_tf32_persistent, tf32, Straight, Persistent, 1, 1)
KERNEL(gemm_bf16_stream_k, bf16, Straight, StreamK, 1, 1)
KERNEL(gemm_e4m3, e4m3, Straight, OneTile, 1, 1)
KERNEL(gemm_e4m3_promoted, e4m3, Promoted, OneTile, 1, 1)
KERNEL(gemm_e5m2_promoted_stream_k, e5m2, Promoted, StreamK, 1, 1)
KERNEL(gemm_s8_multicast_b, s8, Straight, OneTile, 2, 1)
KERNEL(gemm_f16_multicast_a, f16, Straight, OneTile, 1, 2)
KERNEL(gemm_bf16_multicast_both, bf16, Straight, OneTile, 2, 2)
