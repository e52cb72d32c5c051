// D = A B^T in clusters whose CTAs share tiles by multicast, of several tiles, clusters and arrivals; and the same copies without products.
// One warp loads, two warpgroups multiply. Tiles of 128 x N, K in steps of 128 bytes.
#include "../../hardware/kernels/sm90.cuh"

using namespace wgmma;

// How a consumer says to another CTA that a stage is free: with a release at the scope of the cluster, or of the CTA.
enum Arrival { Cluster, Cta };

constexpr int M = 128, STEP = 128, THREADS = 384;

template <Arrival How> __device__ void release(uint64_t *b, uint32_t cta) {
  if (How == Cluster)
    cluster::arrive(b, cta);
  else
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(cluster::map(b, cta)) : "memory");
}

#define D64                                                                                                                             \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, " \
  "%28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, "  \
  "%54, %55, %56, %57, %58, %59, %60, %61, %62, %63}"
#define R64 R32, R8(32), R8(40), R8(48), R8(56)
#define WGMMA_64(NAME, FORM, TAIL)                                                                                                      \
  struct NAME {                                                                                                                         \
    static constexpr int words = 64;                                                                                                    \
    static __device__ void from_shared(uint32_t (&d)[64], uint64_t a, uint64_t b, int accumulate) {                                     \
      asm volatile("{.reg .pred p; setp.ne.b32 p, %66, 0; wgmma.mma_async.sync.aligned." FORM " " D64 ", %64, %65, p" TAIL ";}"         \
                   : R64                                                                                                                \
                   : "l"(a), "l"(b), "r"(accumulate)                                                                                    \
                   : "memory");                                                                                                         \
    }                                                                                                                                   \
  };
#define PLUS ", 1, 1"
WGMMA_32(f16_64, "m64n64k16.f32.f16.f16", PLUS ", 0, 0", PLUS ", 0")
WGMMA_32(s8_64, "m64n64k32.s32.s8.s8", "", "")
WGMMA_64(f16_128, "m64n128k16.f32.f16.f16", PLUS ", 0, 0")
WGMMA_64(e4m3_128, "m64n128k32.f32.e4m3.e4m3", PLUS)
struct none_64 {
  static constexpr int words = 32;
  static __device__ void from_shared(uint32_t (&)[32], uint64_t, uint64_t, int) {}
};

template <class Instruction, int STAGES, int CM, int CN, Arrival How>
__device__ void gemm(const TensorMap *a_map, const TensorMap *b_map, uint32_t *d, int rows, int columns, int steps, int step_elements) {
  constexpr int N = 2 * Instruction::words;
  extern __shared__ __align__(1024) uint8_t raw[];
  uint8_t *a_tiles = raw, *b_tiles = raw + STAGES * M * STEP;
  uint64_t *full = reinterpret_cast<uint64_t *>(b_tiles + STAGES * N * STEP), *empty = full + STAGES;
  int group = threadIdx.x / 128, thread = threadIdx.x % 128;
  // The CTAs of a cluster are CM tiles below each other, in CN columns.
  int rank = CM * CN > 1 ? cluster::rank() : 0, row = rank % CM, column = rank / CM;
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; i++) barrier::init(&full[i], 1), barrier::init(&empty[i], 2 * (CM + CN - 1));
    barrier::fence_init();
  }
  if (CM * CN > 1)
    cluster::sync();
  else
    __syncthreads();
  int place = blockIdx.x / (CM * CN), down = rows / M / CM, m = (place % down * CM + row) * M, n = (place / down * CN + column) * N;
  int stage = 0, phase = 0;
  auto next = [&] {
    if (++stage == STAGES) stage = 0, phase ^= 1;
  };
  if (group == 2) {
    fewer_registers<40>();
    if (thread == 0)
      for (int k = 0; k < steps; k++, next()) {
        barrier::wait(&empty[stage], phase ^ 1);
        barrier::expect(&full[stage], (M + N) * STEP);
        uint8_t *a = a_tiles + stage * M * STEP, *b = b_tiles + stage * N * STEP;
        if (CN > 1) {
          uint16_t same_row = 0;
          for (int c = 0; c < CN; c++) same_row |= 1 << (row + CM * c);
          tma::load_multicast(a + column * (M / CN) * STEP, a_map, &full[stage], k * step_elements, m + column * (M / CN), same_row);
        } else {
          tma::load(a, a_map, &full[stage], k * step_elements, m);
        }
        if (CM > 1)
          tma::load_multicast(b + row * (N / CM) * STEP, b_map, &full[stage], k * step_elements, n + row * (N / CM),
                              uint16_t(((1 << CM) - 1) << CM * column));
        else
          tma::load(b, b_map, &full[stage], k * step_elements, n);
      }
  } else {
    more_registers<208>();
    uint32_t sum[Instruction::words];
    for (int i = 0; i < Instruction::words; i++) sum[i] = 0;
    for (int k = 0; k < steps; k++, next()) {
      barrier::wait(&full[stage], phase);
      fence_sums(sum);
      for (int i = 0; i < 4; i++)
        Instruction::from_shared(sum, descriptor(shared(a_tiles + stage * M * STEP) + group * 64 * STEP + 32 * i),
                                 descriptor(shared(b_tiles + stage * N * STEP) + 32 * i), i > 0 || k > 0);
      commit();
      wait<0>();
      if (thread == 0) {
        for (int c = 0; c < CN; c++)
          if (CM * CN > 1)
            release<How>(&empty[stage], row + CM * c);
          else
            barrier::arrive(&empty[stage]);
        for (int c = 0; c < CM; c++)
          if (c != row) release<How>(&empty[stage], c + CM * column);
      }
    }
    int r0 = 64 * group + 16 * (thread / 32) + thread % 32 / 4, c0 = 2 * (thread % 4);
    for (int i = 0; i < Instruction::words; i += 2)
      *reinterpret_cast<uint2 *>(d + size_t(m + r0 + 8 * (i >> 1 & 1)) * columns + n + 8 * (i >> 2) + c0) = make_uint2(sum[i], sum[i + 1]);
  }
  if (CM * CN > 1) cluster::sync();  // shared memory stays until the others have arrived on it
}

#define KERNEL(NAME, TYPE, STAGES, CM, CN, HOW)                                                                                         \
  extern "C" __global__ void __launch_bounds__(THREADS, 1) __cluster_dims__(CM *CN, 1, 1)                                               \
      NAME(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, uint32_t *d, int rows, int columns, int steps,     \
           int step_elements) {                                                                                                         \
    gemm<TYPE, STAGES, CM, CN, HOW>(&a, &b, d, rows, columns, steps, step_elements);                                                    \
  }
#define KERNELS(TYPE, STAGES)                                \
  KERNEL(TYPE##_s##STAGES##_1x1, TYPE, STAGES, 1, 1, Cta)    \
  KERNEL(TYPE##_s##STAGES##_1x2, TYPE, STAGES, 1, 2, Cta)    \
  KERNEL(TYPE##_s##STAGES##_2x1, TYPE, STAGES, 2, 1, Cta)    \
  KERNEL(TYPE##_s##STAGES##_2x2, TYPE, STAGES, 2, 2, Cta)    \
  KERNEL(TYPE##_s##STAGES##_4x1, TYPE, STAGES, 4, 1, Cta)    \
  KERNEL(TYPE##_s##STAGES##_1x2_fenced, TYPE, STAGES, 1, 2, Cluster) \
  KERNEL(TYPE##_s##STAGES##_2x1_fenced, TYPE, STAGES, 2, 1, Cluster) \
  KERNEL(TYPE##_s##STAGES##_2x2_fenced, TYPE, STAGES, 2, 2, Cluster)

KERNELS(f16_64, 3)
KERNELS(f16_128, 3)
KERNELS(f16_128, 5)
KERNELS(e4m3_128, 4)
KERNELS(s8_64, 4)
KERNELS(none_64, 4)
