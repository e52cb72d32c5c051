// Clusters and distributed shared memory: reductions, scans, sorting, exchanges with st.async, multicast, bulk copies between CTAs.
#include "sm90.cuh"

namespace {

constexpr int THREADS = 128;

__device__ void store_async(uint32_t to, uint32_t value, uint32_t barrier) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(to), "r"(value), "r"(barrier) : "memory");
}
__device__ void store_async(uint32_t to, uint4 v, uint32_t barrier) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to), "r"(v.x), "r"(v.y), "r"(v.z),
               "r"(v.w), "r"(barrier)
               : "memory");
}
__device__ float load_float(uint32_t address) { return __uint_as_float(cluster::load(address)); }
__device__ void start(uint64_t *barriers, int count, int arrivals) {
  if (threadIdx.x == 0) {
    for (int i = 0; i < count; i++) barrier::init(&barriers[i], arrivals);
    barrier::fence_init();
  }
  cluster::sync();
}

}  // namespace

// Counts of bytes; the bins are spread over the CTAs of the cluster and incremented from all of them.
extern "C" __global__ void __cluster_dims__(4, 1, 1) cluster_histogram(const uint8_t *data, uint32_t *counts, int each) {
  __shared__ uint32_t bins[64];
  for (int i = threadIdx.x; i < 64; i += THREADS) bins[i] = 0;
  cluster::sync();
  uint32_t rank = cluster::rank();
  for (int i = threadIdx.x; i < each; i += THREADS) {
    uint32_t value = data[blockIdx.x * each + i];
    asm volatile("red.relaxed.cluster.shared::cluster.add.u32 [%0], 1;" ::"r"(cluster::map(&bins[value % 64], value / 64)) : "memory");
  }
  cluster::sync();
  for (int i = threadIdx.x; i < 64; i += THREADS) counts[blockIdx.x / 4 * 256 + rank * 64 + i] = bins[i];
}

// Normalises rows that are spread over the CTAs of a cluster: the mean, then the variance, each summed in the order of the ranks.
extern "C" __global__ void __cluster_dims__(4, 1, 1) cluster_layer_norm(const float *x, const float *weight, float *y, int columns, float epsilon) {
  __shared__ float part[4], mine[2];
  int row = blockIdx.x / 4, rank = cluster::rank(), each = columns / 4;
  const float *in = x + size_t(row) * columns + rank * each;
  float mean = 0, variance = 0;
  for (int pass = 0; pass < 2; pass++) {
    float sum = 0;
    for (int i = threadIdx.x; i < each; i += THREADS) {
      float d = __fsub_rn(in[i], mean);
      sum = pass ? fmaf(d, d, sum) : __fadd_rn(sum, in[i]);
    }
    for (int step = 16; step; step /= 2) sum = __fadd_rn(sum, __shfl_xor_sync(~0u, sum, step));
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) mine[pass] = __fadd_rn(__fadd_rn(part[0], part[1]), __fadd_rn(part[2], part[3]));
    cluster::sync();
    float all = 0;
    for (uint32_t other = 0; other < 4; other++) all = __fadd_rn(all, load_float(cluster::map(&mine[pass], other)));
    (pass ? variance : mean) = __fdiv_rn(all, float(columns));
  }
  float scale = __fdiv_rn(1.f, __fsqrt_rn(__fadd_rn(variance, epsilon)));
  for (int i = threadIdx.x; i < each; i += THREADS)
    y[size_t(row) * columns + rank * each + i] = __fmul_rn(__fmul_rn(__fsub_rn(in[i], mean), scale), weight[rank * each + i]);
  cluster::sync();
}

// Softmax of rows that are spread over the CTAs of a cluster, with ex2.approx and a division.
extern "C" __global__ void __cluster_dims__(2, 1, 1) cluster_softmax(const float *x, float *y, int columns) {
  __shared__ float part[4], top, total;
  int row = blockIdx.x / 2, rank = cluster::rank(), each = columns / 2;
  const float *in = x + size_t(row) * columns + rank * each;
  float most = -INFINITY, sum = 0;
  for (int i = threadIdx.x; i < each; i += THREADS) most = fmaxf(most, in[i]);
  for (int step = 16; step; step /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = most;
  __syncthreads();
  if (threadIdx.x == 0) top = fmaxf(fmaxf(part[0], part[1]), fmaxf(part[2], part[3]));
  cluster::sync();
  most = fmaxf(load_float(cluster::map(&top, 0)), load_float(cluster::map(&top, 1)));
  for (int i = threadIdx.x; i < each; i += THREADS) sum = __fadd_rn(sum, __expf(__fsub_rn(in[i], most)));
  for (int step = 16; step; step /= 2) sum = __fadd_rn(sum, __shfl_xor_sync(~0u, sum, step));
  __syncthreads();
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) total = __fadd_rn(__fadd_rn(part[0], part[1]), __fadd_rn(part[2], part[3]));
  cluster::sync();
  sum = __fadd_rn(load_float(cluster::map(&total, 0)), load_float(cluster::map(&total, 1)));
  for (int i = threadIdx.x; i < each; i += THREADS) y[size_t(row) * columns + rank * each + i] = __fdiv_rn(__expf(__fsub_rn(in[i], most)), sum);
  cluster::sync();
}

// An all-reduce around the ring of 8 CTAs: each step sends a word of each thread to the next CTA with st.async.
extern "C" __global__ void __cluster_dims__(8, 1, 1) cluster_ring(const float *x, float *y) {
  __shared__ alignas(16) uint32_t inbox[2][THREADS];
  __shared__ uint64_t full[2];
  start(full, 2, 1);
  uint32_t rank = cluster::rank(), next = (rank + 1) % 8;
  float own = x[blockIdx.x * THREADS + threadIdx.x], sum = own, passing = own;
  for (int step = 0; step < 7; step++) {
    int slot = step % 2;
    if (threadIdx.x == 0) barrier::expect(&full[slot], THREADS * 4);
    store_async(cluster::map(&inbox[slot][threadIdx.x], next), __float_as_uint(passing), cluster::map(&full[slot], next));
    barrier::wait(&full[slot], step / 2 % 2);
    passing = __uint_as_float(inbox[slot][threadIdx.x]);
    sum = fmaf(passing, 1.0009765625f, sum);  // the order of the sums shows
    cluster::sync();
  }
  y[blockIdx.x * THREADS + threadIdx.x] = sum;
}

// A transposition of blocks between 4 CTAs: each sends 16 bytes of each thread to each CTA with st.async.
extern "C" __global__ void __cluster_dims__(4, 1, 1) cluster_all_to_all(const uint4 *x, uint4 *y) {
  __shared__ uint4 inbox[4][THREADS];
  __shared__ uint64_t full;
  start(&full, 1, 1);
  uint32_t rank = cluster::rank();
  if (threadIdx.x == 0) barrier::expect(&full, 4 * THREADS * 16);
  for (uint32_t i = 0; i < 4; i++) {
    uint32_t to = (rank + i) % 4;
    store_async(cluster::map(&inbox[rank][threadIdx.x], to), x[(blockIdx.x * 4 + to) * THREADS + threadIdx.x], cluster::map(&full, to));
  }
  barrier::wait(&full, 0);
  for (int i = 0; i < 4; i++) y[(blockIdx.x * 4 + i) * THREADS + threadIdx.x] = inbox[i][threadIdx.x];
  cluster::sync();
}

// CTA 0 loads and sends items through a ring of four slots to CTA 1, which returns the slots by arrivals on the barriers of CTA 0.
extern "C" __global__ void __cluster_dims__(2, 1, 1) cluster_pipeline(const uint32_t *x, uint32_t *y, int items) {
  __shared__ uint32_t slots[4][THREADS];
  __shared__ uint64_t full[4], empty[4];
  if (threadIdx.x == 0) {
    for (int i = 0; i < 4; i++) barrier::init(&full[i], 1), barrier::init(&empty[i], THREADS);
    barrier::fence_init();
  }
  cluster::sync();
  if (cluster::rank() == 0) {
    for (int i = 0; i < items; i++) {
      int slot = i % 4, round = i / 4;
      barrier::wait(&empty[slot], round % 2 ^ 1);
      store_async(cluster::map(&slots[slot][threadIdx.x], 1), x[i * THREADS + threadIdx.x] * 2654435761u, cluster::map(&full[slot], 1));
    }
  } else {
    uint32_t hash = 0;
    if (threadIdx.x == 0)
      for (int i = 0; i < 4 && i < items; i++) barrier::expect(&full[i], THREADS * 4);
    for (int i = 0; i < items; i++) {
      int slot = i % 4, round = i / 4;
      barrier::wait(&full[slot], round % 2);
      hash = (hash << 5 | hash >> 27) ^ slots[slot][threadIdx.x];
      y[i * THREADS + threadIdx.x] = hash;
      asm volatile("bar.sync 0;" ::: "memory");
      if (threadIdx.x == 0 && i + 4 < items) barrier::expect(&full[slot], THREADS * 4);
      asm volatile("bar.sync 0;" ::: "memory");
      cluster::arrive(&empty[slot], 0);
    }
  }
  cluster::sync();
}

// Inclusive prefix sums over the CTAs of a cluster; the totals of the CTAs before are read from their shared memory.
extern "C" __global__ void __cluster_dims__(8, 1, 1) cluster_scan(const uint32_t *x, uint32_t *y) {
  __shared__ uint32_t warps[4], total;
  int i = blockIdx.x * THREADS + threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  uint32_t v = x[i];
  for (int step = 1; step < 32; step *= 2) {
    uint32_t before = __shfl_up_sync(~0u, v, step);
    if (lane >= step) v += before;
  }
  if (lane == 31) warps[warp] = v;
  __syncthreads();
  for (int w = 0; w < warp; w++) v += warps[w];
  if (threadIdx.x == THREADS - 1) total = v;
  cluster::sync();
  for (uint32_t other = 0; other < cluster::rank(); other++) v += cluster::load(cluster::map(&total, other));
  y[i] = v;
  cluster::sync();
}

// A bitonic sort of a word for each thread of 4 CTAs; partners in another CTA are read through distributed shared memory.
extern "C" __global__ void __cluster_dims__(4, 1, 1) cluster_sort(const int *x, int *y) {
  __shared__ int keys[2][THREADS];
  int i = cluster::rank() * THREADS + threadIdx.x, turn = 0;
  int key = x[blockIdx.x * THREADS + threadIdx.x];
  for (int size = 2; size <= 4 * THREADS; size *= 2)
    for (int step = size / 2; step; step /= 2) {
      keys[turn][threadIdx.x] = key;
      cluster::sync();
      int other = i ^ step, theirs = int(cluster::load(cluster::map(&keys[turn][other % THREADS], other / THREADS)));
      bool smaller = ((i & size) == 0) == (i < other);
      key = smaller ? min(key, theirs) : max(key, theirs);
      turn ^= 1;
    }
  y[blockIdx.x * THREADS + threadIdx.x] = key;
  cluster::sync();
}

// One bulk copy for each CTA, delivered to all four by multicast; then a ring of bulk copies between the CTAs.
extern "C" __global__ void __cluster_dims__(4, 1, 1) cluster_bulk(const uint32_t *x, uint32_t *y) {
  __shared__ alignas(128) uint32_t gathered[4][THREADS], received[THREADS];
  __shared__ uint64_t full[2];
  start(full, 2, 1);
  uint32_t rank = cluster::rank();
  if (threadIdx.x == 0) {
    barrier::expect(&full[0], 4 * THREADS * 4);
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(
                     shared(gathered[rank])),
                 "l"(x + blockIdx.x * THREADS), "r"(THREADS * 4), "r"(shared(&full[0])), "h"(uint16_t(15))
                 : "memory");
  }
  barrier::wait(&full[0], 0);
  uint32_t sum = 0;
  for (int i = 0; i < 4; i++) sum = sum * 31 + gathered[i][threadIdx.x];
  __syncthreads();
  gathered[rank][threadIdx.x] = sum + rank;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    barrier::expect(&full[1], THREADS * 4);
    uint32_t next = (rank + 1) % 4;
    asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(cluster::map(received, next)),
                 "r"(shared(gathered[rank])), "r"(THREADS * 4), "r"(cluster::map(&full[1], next))
                 : "memory");
  }
  barrier::wait(&full[1], 0);
  y[blockIdx.x * THREADS + threadIdx.x] = received[threadIdx.x] * 2654435761u ^ sum;
  cluster::sync();
}

// Counters in CTA 0, changed from all CTAs with red.async, which completes on an mbarrier of CTA 0; and cp.reduce.async.bulk.
extern "C" __global__ void __cluster_dims__(4, 1, 1) cluster_reduce_async(const uint32_t *x, uint32_t *y) {
  __shared__ alignas(128) uint32_t counters[4][THREADS], mine[THREADS], sums[THREADS];
  __shared__ uint64_t full[2];
  counters[0][threadIdx.x] = 0, counters[1][threadIdx.x] = ~0u, counters[2][threadIdx.x] = 0, counters[3][threadIdx.x] = 0;
  sums[threadIdx.x] = threadIdx.x;
  start(full, 2, 1);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  cluster::sync();
  if (cluster::rank() == 0 && threadIdx.x == 0) barrier::expect(&full[0], 4 * 4 * THREADS * 4), barrier::expect(&full[1], 4 * THREADS * 4);
  cluster::sync();
  uint32_t v = x[blockIdx.x * THREADS + threadIdx.x], done = cluster::map(&full[0], 0);
#define REDUCE(OP, TYPE, I)                                                                                                              \
  asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes." OP "." TYPE " [%0], %1, [%2];" ::"r"(           \
                   cluster::map(&counters[I][threadIdx.x], 0)),                                                                          \
               "r"(v), "r"(done)                                                                                                         \
               : "memory")
  REDUCE("add", "u32", 0);
  REDUCE("min", "u32", 1);
  REDUCE("max", "s32", 2);
  REDUCE("xor", "b32", 3);
  mine[threadIdx.x] = v >> 3;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0)
    asm volatile("cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [%0], [%1], %2, [%3];" ::"r"(
                     cluster::map(sums, 0)),
                 "r"(shared(mine)), "r"(THREADS * 4), "r"(cluster::map(&full[1], 0))
                 : "memory");
  if (cluster::rank() == 0) {
    barrier::wait(&full[0], 0);
    barrier::wait(&full[1], 0);
    for (int i = 0; i < 4; i++) y[(blockIdx.x / 4 * 5 + i) * THREADS + threadIdx.x] = counters[i][threadIdx.x];
    y[(blockIdx.x / 4 * 5 + 4) * THREADS + threadIdx.x] = sums[threadIdx.x];
  }
  cluster::sync();
}

// A stencil over a line that the CTAs of a cluster share: the halos are written into the neighbours' shared memory.
extern "C" __global__ void __cluster_dims__(4, 1, 1) cluster_stencil(const float *x, float *y, int steps) {
  __shared__ float line[2][THREADS + 2];
  int rank = cluster::rank(), t = threadIdx.x + 1;
  for (int i = threadIdx.x; i < 2 * (THREADS + 2); i += THREADS) (&line[0][0])[i] = 0;
  float v = x[blockIdx.x * THREADS + threadIdx.x];
  cluster::sync();
  for (int step = 0; step < steps; step++) {
    int now = step % 2;
    line[now][t] = v;
    if (threadIdx.x == 0 && rank > 0) cluster::store(cluster::map(&line[now][THREADS + 1], rank - 1), __float_as_uint(v));
    if (threadIdx.x == THREADS - 1 && rank < 3) cluster::store(cluster::map(&line[now][0], rank + 1), __float_as_uint(v));
    cluster::sync();
    v = fmaf(0.5f, line[now][t], __fmul_rn(0.25f, __fadd_rn(line[now][t - 1], line[now][t + 1])));
  }
  y[blockIdx.x * THREADS + threadIdx.x] = v;
  cluster::sync();
}
