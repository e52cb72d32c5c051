// Tensor copies: tiles of 1 to 5 dimensions in and out, im2col in and out, convolution on wgmma, reductions, and split-K with them.
#include <cuda_fp16.h>

#include "sm90.cuh"

using namespace wgmma;

constexpr int THREADS = 128;

struct Coordinates {
  int at[5];
};

#define TILE_1 "{%2}"
#define TILE_2 "{%2, %3}"
#define TILE_3 "{%2, %3, %4}"
#define TILE_4 "{%2, %3, %4, %5}"
#define TILE_5 "{%2, %3, %4, %5, %6}"
#define LOAD(DIMENSIONS)                                                                                                              \
  asm volatile("cp.async.bulk.tensor." #DIMENSIONS "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, " TILE_##DIMENSIONS "], [%7];" \
               ::"r"(shared(to)), "l"(map), "r"(c.at[0]), "r"(c.at[1]), "r"(c.at[2]), "r"(c.at[3]), "r"(c.at[4]), "r"(shared(b)) : "memory")
#define STORE(DIMENSIONS)                                                                                                             \
  asm volatile("cp.async.bulk.tensor." #DIMENSIONS "d.global.shared::cta.tile.bulk_group [%0, " TILE_##DIMENSIONS "], [%1];"             \
               ::"l"(map), "r"(shared(from)), "r"(c.at[0]), "r"(c.at[1]), "r"(c.at[2]), "r"(c.at[3]), "r"(c.at[4]) : "memory")

template <int Dimensions> __device__ void load(void *to, const TensorMap *map, uint64_t *b, const Coordinates &c) {
  if (Dimensions == 1) LOAD(1);
  if (Dimensions == 2) LOAD(2);
  if (Dimensions == 3) LOAD(3);
  if (Dimensions == 4) LOAD(4);
  if (Dimensions == 5) LOAD(5);
}
template <int Dimensions> __device__ void store(const TensorMap *map, const void *from, const Coordinates &c) {
  if (Dimensions == 1) STORE(1);
  if (Dimensions == 2) STORE(2);
  if (Dimensions == 3) STORE(3);
  if (Dimensions == 4) STORE(4);
  if (Dimensions == 5) STORE(5);
}

__device__ void start(uint64_t *barriers, int count) {
  if (threadIdx.x == 0) {
    for (int i = 0; i < count; i++) barrier::init(&barriers[i], 1);
    barrier::fence_init();
  }
  __syncthreads();
}

// Tile after tile: in, each word changed by its place in shared memory, and out; two stages, so that copies are in flight.
// `starts` has the coordinates of each tile on both sides.
template <int Dimensions>
__device__ void move(const TensorMap *in, const TensorMap *out, const Coordinates *starts, int tiles, int bytes) {
  extern __shared__ __align__(1024) uint8_t buffer[];
  __shared__ uint64_t full[2];
  start(full, 2);
  int stride = (bytes + 1023) / 1024 * 1024;
  auto fetch = [&](int i) {
    barrier::expect(&full[i & 1], bytes);
    load<Dimensions>(buffer + (i & 1) * stride, in, &full[i & 1], starts[2 * i]);
  };
  if (threadIdx.x == 0) fetch(0);
  for (int i = 0; i < tiles; i++) {
    if (threadIdx.x == 0 && i + 1 < tiles) {
      tma::wait_read<0>();
      fetch(i + 1);
    }
    barrier::wait(&full[i & 1], i / 2 % 2);
    uint32_t *words = reinterpret_cast<uint32_t *>(buffer + (i & 1) * stride);
    for (int j = threadIdx.x; j < bytes / 4; j += THREADS) words[j] ^= uint32_t(j) * 0x9E3779B9u >> 20;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
      store<Dimensions>(out, words, starts[2 * i + 1]);
      tma::commit();
    }
  }
  if (threadIdx.x == 0) tma::wait<0>();
}

#define MOVE(DIMENSIONS)                                                                                                               \
  extern "C" __global__ void tiles_##DIMENSIONS##d(const __grid_constant__ TensorMap in, const __grid_constant__ TensorMap out,           \
                                                   const Coordinates *starts, int tiles, int bytes) {                                     \
    move<DIMENSIONS>(&in, &out, starts + 2 * tiles * blockIdx.x, tiles, bytes);                                                         \
  }
MOVE(1) MOVE(2) MOVE(3) MOVE(4) MOVE(5)

// im2col: pixels with an offset of the filter in, without one out. Coordinates: channel, W, (H, (D,)) N; offsets behind them.
template <int Dimensions> __device__ void load_im2col(void *to, const TensorMap *map, uint64_t *b, const Coordinates &c, const Coordinates &o) {
  if (Dimensions == 3)
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5], {%6};" ::"r"(
                     shared(to)),
                 "l"(map), "r"(c.at[0]), "r"(c.at[1]), "r"(c.at[2]), "r"(shared(b)), "h"(short(o.at[0]))
                 : "memory");
  if (Dimensions == 4)
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};" ::"r"(
            shared(to)),
        "l"(map), "r"(c.at[0]), "r"(c.at[1]), "r"(c.at[2]), "r"(c.at[3]), "r"(shared(b)), "h"(short(o.at[0])), "h"(short(o.at[1]))
        : "memory");
  if (Dimensions == 5)
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5, %6}], [%7], "
                 "{%8, %9, %10};" ::"r"(shared(to)),
                 "l"(map), "r"(c.at[0]), "r"(c.at[1]), "r"(c.at[2]), "r"(c.at[3]), "r"(c.at[4]), "r"(shared(b)), "h"(short(o.at[0])),
                 "h"(short(o.at[1])), "h"(short(o.at[2]))
                 : "memory");
}
template <int Dimensions> __device__ void store_im2col(const TensorMap *map, const void *from, const Coordinates &c) {
#define STORE_IM2COL(N, TILE)                                                                                                              \
  asm volatile("cp.async.bulk.tensor." N "d.global.shared::cta.im2col_no_offs.bulk_group [%0, " TILE "], [%1];" ::"l"(map), "r"(shared(from)), \
               "r"(c.at[0]), "r"(c.at[1]), "r"(c.at[2]), "r"(c.at[3]), "r"(c.at[4])                                                        \
               : "memory")
  if (Dimensions == 3) STORE_IM2COL("3", TILE_3);
  if (Dimensions == 4) STORE_IM2COL("4", TILE_4);
  if (Dimensions == 5) STORE_IM2COL("5", TILE_5);
}

// For each tile three sets of coordinates: in, the offsets, out.
template <int Dimensions>
__device__ void move_im2col(const TensorMap *in, const TensorMap *out, const Coordinates *starts, int tiles, int bytes) {
  extern __shared__ __align__(1024) uint8_t buffer[];
  __shared__ uint64_t full;
  start(&full, 1);
  for (int i = 0; i < tiles; i++) {
    if (threadIdx.x == 0) {
      tma::wait_read<0>();
      barrier::expect(&full, bytes);
      load_im2col<Dimensions>(buffer, in, &full, starts[3 * i], starts[3 * i + 1]);
    }
    barrier::wait(&full, i % 2);
    uint32_t *words = reinterpret_cast<uint32_t *>(buffer);
    for (int j = threadIdx.x; j < bytes / 4; j += THREADS) words[j] ^= uint32_t(j) * 0x9E3779B9u >> 20;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
      store_im2col<Dimensions>(out, words, starts[3 * i + 2]);
      tma::commit();
    }
  }
  if (threadIdx.x == 0) tma::wait<0>();
}
#define MOVE_IM2COL(DIMENSIONS)                                                                                                        \
  extern "C" __global__ void im2col_##DIMENSIONS##d(const __grid_constant__ TensorMap in, const __grid_constant__ TensorMap out,          \
                                                    const Coordinates *starts, int tiles, int bytes) {                                    \
    move_im2col<DIMENSIONS>(&in, &out, starts, tiles, bytes);                                                                            \
  }
MOVE_IM2COL(3) MOVE_IM2COL(4) MOVE_IM2COL(5)

#define PLUS ", 1, 1"
WGMMA_32(f16, "m64n64k16.f32.f16.f16", PLUS ", 0, 0", PLUS ", 0")

// Convolution of NHWC images as a GEMM: 64 pixels by 64 filters; for each tap of the filter 64 channels by im2col.
// The filters are [K, R, S, C]; the result leaves through im2col_no_offs. `starts`: the first pixel of each CTA, W, H, N.
extern "C" __global__ void __launch_bounds__(128) convolution(const __grid_constant__ TensorMap image, const __grid_constant__ TensorMap filters,
                                                              const __grid_constant__ TensorMap out, const Coordinates *starts, int taps, int across,
                                                              int channels) {
  __shared__ alignas(1024) uint8_t a[2][64 * 128], b[2][64 * 128], c[64 * 128];
  __shared__ uint64_t full[2];
  start(full, 2);
  int blocks = channels / 64, steps = taps * taps * blocks, thread = threadIdx.x;
  Coordinates first = starts[2 * blockIdx.x], target = starts[2 * blockIdx.x + 1];
  auto fetch = [&](int i) {
    int tap = i / blocks, block = i % blocks;
    Coordinates offsets = {tap % taps, tap / taps}, from = first;
    from.at[0] = 64 * block;
    barrier::expect(&full[i & 1], 2 * 64 * 128);
    load_im2col<4>(a[i & 1], &image, &full[i & 1], from, offsets);
    tma::load(b[i & 1], &filters, &full[i & 1], tap * channels + 64 * block, 64 * blockIdx.y);
  };
  uint32_t sum[32];
  for (uint32_t &word : sum) word = 0;
  if (thread == 0) fetch(0);
  for (int i = 0; i < steps; i++) {
    if (thread == 0 && i + 1 < steps) fetch(i + 1);
    barrier::wait(&full[i & 1], i / 2 % 2);
    fence_sums(sum);
    for (int k = 0; k < 4; k++) f16::from_shared(sum, descriptor(shared(a[i & 1]) + 32 * k), descriptor(shared(b[i & 1]) + 32 * k), i + k > 0);
    commit();
    wait<0>();
    __syncthreads();
  }
  for (int i = 0; i < 32; i += 2) {
    int row = 16 * (thread / 32) + thread % 32 / 4 + 8 * (i >> 1 & 1), byte = 2 * (2 * (thread % 4) + 8 * (i >> 2));
    __half2 pair = __floats2half2_rn(__uint_as_float(sum[i]), __uint_as_float(sum[i + 1]));
    *reinterpret_cast<__half2 *>(c + 128 * row + (byte ^ row % 8 * 16)) = pair;
  }
  fence_async_proxy();
  __syncthreads();
  if (thread == 0) {
    target.at[0] = 64 * blockIdx.y;
    store_im2col<4>(&out, c, target);
    tma::commit();
    tma::wait<0>();
  }
}

// Several CTAs combine tiles of 16 rows of 32 words with the same place: operations whose order does not matter.
template <int Operation> __device__ void reduce_tile(const TensorMap *map, const void *from, int x, int y) {
#define REDUCE(NUMBER, OP)                                                                                                                  \
  if (Operation == NUMBER)                                                                                                                  \
    asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta." OP ".tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map), "r"(x), "r"(y), \
                 "r"(shared(from))                                                                                                          \
                 : "memory");
  REDUCE(0, "add") REDUCE(1, "min") REDUCE(2, "max") REDUCE(3, "inc") REDUCE(4, "dec") REDUCE(5, "and") REDUCE(6, "or") REDUCE(7, "xor")
}
template <int Operation> __device__ void reduce(const TensorMap *in, const TensorMap *out, int rows) {
  __shared__ alignas(1024) uint8_t tile[16 * 128];
  __shared__ uint64_t full;
  start(&full, 1);
  if (threadIdx.x == 0) {
    barrier::expect(&full, sizeof tile);
    tma::load(tile, in, &full, 0, 16 * blockIdx.x);
    barrier::wait(&full, 0);
    reduce_tile<Operation>(out, tile, 0, 16 * blockIdx.x % rows);
    tma::commit();
    tma::wait<0>();
  }
}
#define REDUCTION(NUMBER, NAME)                                                                                                                  \
  extern "C" __global__ void reduce_##NAME(const __grid_constant__ TensorMap in, const __grid_constant__ TensorMap out, int rows) { \
    reduce<NUMBER>(&in, &out, rows);                                                                                                         \
  }
REDUCTION(0, add) REDUCTION(1, min) REDUCTION(2, max) REDUCTION(3, inc) REDUCTION(4, dec) REDUCTION(5, and) REDUCTION(6, or) REDUCTION(7, xor)

WGMMA_32(s8, "m64n64k32.s32.s8.s8", "", "")

// Split-K: each CTA multiplies a part of K and adds its tile of s32 with a tensor reduction.
extern "C" __global__ void __launch_bounds__(128) split_k(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map,
                                                          const __grid_constant__ TensorMap d_map, int steps) {
  __shared__ alignas(1024) uint8_t a[64 * 128], b[64 * 128], d[2][64 * 128];
  __shared__ uint64_t full;
  start(&full, 1);
  int thread = threadIdx.x;
  uint32_t sum[32];
  for (uint32_t &word : sum) word = 0;
  for (int i = 0; i < steps; i++) {
    if (thread == 0) {
      barrier::expect(&full, 2 * 64 * 128);
      int k = 128 * (blockIdx.z * steps + i);
      tma::load(a, &a_map, &full, k, 64 * blockIdx.x);
      tma::load(b, &b_map, &full, k, 64 * blockIdx.y);
    }
    barrier::wait(&full, i % 2);
    fence_sums(sum);
    for (int k = 0; k < 4; k++) s8::from_shared(sum, descriptor(shared(a) + 32 * k), descriptor(shared(b) + 32 * k), i + k > 0);
    commit();
    wait<0>();
    __syncthreads();
  }
  for (int i = 0; i < 32; i++) {
    int row = 16 * (thread / 32) + thread % 32 / 4 + 8 * (i >> 1 & 1), column = 2 * (thread % 4) + 8 * (i >> 2) + (i & 1), byte = column % 32 * 4;
    *reinterpret_cast<uint32_t *>(d[column / 32] + 128 * row + (byte ^ row % 8 * 16)) = sum[i];
  }
  fence_async_proxy();
  __syncthreads();
  if (thread == 0) {
    for (int half = 0; half < 2; half++) reduce_tile<0>(&d_map, d[half], 64 * blockIdx.y + 32 * half, 64 * blockIdx.x);
    tma::commit();
    tma::wait<0>();
  }
}
