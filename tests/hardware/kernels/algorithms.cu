// Sorting, scans, reductions, hashes, linear algebra, dynamic programming: kernels of every control flow, exact operations only.
#include <cstdint>

namespace {

constexpr int THREADS = 128;

__device__ inline uint32_t rotate(uint32_t x, int n) { return __funnelshift_l(x, x, n); }

// An integer that sorts as the float does: NaN of either sign last and first.
__device__ inline uint32_t sortable(float x) {
  uint32_t bits = __float_as_uint(x);
  return bits ^ (int(bits) < 0 ? ~0u : 0x80000000u);
}

}  // namespace

// A bitonic sort of 256 floats with their places, in shared memory.
extern "C" __global__ void bitonic_sort(const float *x, float *y, int *places) {
  __shared__ uint64_t keys[2 * THREADS];
  for (int i = threadIdx.x; i < 2 * THREADS; i += THREADS) keys[i] = uint64_t(sortable(x[blockIdx.x * 2 * THREADS + i])) << 32 | i;
  for (int size = 2; size <= 2 * THREADS; size *= 2)
    for (int step = size / 2; step; step /= 2) {
      __syncthreads();
      int i = 2 * threadIdx.x - (threadIdx.x & (step - 1)), j = i + step;
      uint64_t a = keys[i], b = keys[j];
      if ((a > b) == ((i & size) == 0)) keys[i] = b, keys[j] = a;
    }
  __syncthreads();
  for (int i = threadIdx.x; i < 2 * THREADS; i += THREADS) {
    int place = int(uint32_t(keys[i]));
    places[blockIdx.x * 2 * THREADS + i] = place;
    y[blockIdx.x * 2 * THREADS + i] = x[blockIdx.x * 2 * THREADS + place];
  }
}

// Batcher's odd-even merge sort of 32 integers in each warp, with shuffles.
extern "C" __global__ void merge_sort_warp(const int *x, int *y) {
  int i = blockIdx.x * THREADS + threadIdx.x, lane = threadIdx.x % 32, key = x[i];
  for (int p = 1; p < 32; p *= 2)
    for (int k = p; k; k /= 2) {
      int j = k % p, from = lane - j, block = from >= 0 ? from / k : -1;
      bool low = block >= 0 && block % 2 == 0 && lane + k < 32 && lane / (2 * p) == (lane + k) / (2 * p);
      int back = lane - k, from_back = back - j;
      bool high = back >= 0 && from_back >= 0 && from_back / k % 2 == 0 && back / (2 * p) == lane / (2 * p);
      int up = __shfl_down_sync(~0u, key, k), down = __shfl_up_sync(~0u, key, k);
      if (low)
        key = min(key, up);
      else if (high)
        key = max(key, down);
    }
  y[i] = key;
}

// A stable radix sort of 512 words by four bits at a time: ranks within warps by match, offsets by a scan over warps and digits.
extern "C" __global__ void radix_sort(const uint32_t *x, uint32_t *y) {
  __shared__ uint32_t keys[2][4 * THREADS], counts[16][4][4];
  for (int i = threadIdx.x; i < 4 * THREADS; i += THREADS) keys[0][i] = x[blockIdx.x * 4 * THREADS + i];
  __syncthreads();
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, turn = 0;
  for (int shift = 0; shift < 32; shift += 4, turn ^= 1) {
    for (int i = threadIdx.x; i < 256; i += THREADS) (&counts[0][0][0])[i] = 0;
    __syncthreads();
    uint32_t key[4], rank[4];
    for (int part = 0; part < 4; part++) {
      key[part] = keys[turn][part * THREADS + threadIdx.x];
      uint32_t digit = key[part] >> shift & 15, same = __match_any_sync(~0u, digit);
      rank[part] = __popc(same & ((1u << lane) - 1));
      if (rank[part] == 0) counts[digit][part][warp] = __popc(same);
    }
    __syncthreads();
    if (warp == 0) {
      uint32_t *all = &counts[0][0][0], mine[8], sum = 0;
      for (int i = 0; i < 8; i++) mine[i] = sum, sum += all[8 * lane + i];
      uint32_t before = sum;
      for (int step = 1; step < 32; step *= 2) {
        uint32_t other = __shfl_up_sync(~0u, before, step);
        if (lane >= step) before += other;
      }
      for (int i = 0; i < 8; i++) all[8 * lane + i] = before - sum + mine[i];
    }
    __syncthreads();
    for (int part = 0; part < 4; part++) keys[turn ^ 1][counts[key[part] >> shift & 15][part][warp] + rank[part]] = key[part];
    __syncthreads();
  }
  for (int i = threadIdx.x; i < 4 * THREADS; i += THREADS) y[blockIdx.x * 4 * THREADS + i] = keys[turn][i];
}

// The largest eight of each row, with places: each thread keeps a sorted list, lists are merged in a tree.
extern "C" __global__ void top_k(const float *x, float *values, int *places, int columns) {
  __shared__ uint64_t lists[THREADS][8];
  uint64_t list[8];
  for (uint64_t &entry : list) entry = 0;
  for (int i = threadIdx.x; i < columns; i += THREADS) {
    uint64_t key = uint64_t(sortable(x[blockIdx.x * columns + i])) << 32 | uint32_t(~i);
    for (int j = 0; j < 8; j++)
      if (key > list[j]) {
        uint64_t other = list[j];
        list[j] = key, key = other;
      }
  }
  for (int j = 0; j < 8; j++) lists[threadIdx.x][j] = list[j];
  for (int step = THREADS / 2; step; step /= 2) {
    __syncthreads();
    if (threadIdx.x < step) {
      int a = 0, b = 0;
      for (int j = 0; j < 8; j++) {
        uint64_t p = lists[threadIdx.x][a], q = lists[threadIdx.x + step][b];
        list[j] = p > q ? p : q;
        p > q ? a++ : b++;
      }
      for (int j = 0; j < 8; j++) lists[threadIdx.x][j] = list[j];
    }
  }
  __syncthreads();
  if (threadIdx.x < 8) {
    int place = ~int(uint32_t(lists[0][threadIdx.x]));
    places[blockIdx.x * 8 + threadIdx.x] = place;
    values[blockIdx.x * 8 + threadIdx.x] = x[blockIdx.x * columns + place];
  }
}

// A scan over all CTAs in one pass: each publishes its total and, once it knows it, the sum up to its end ("decoupled look-back").
extern "C" __global__ void scan_look_back(const uint32_t *x, uint32_t *y, uint64_t *states, uint32_t *ticket) {
  __shared__ uint32_t warps[THREADS / 32], before, number;
  if (threadIdx.x == 0) number = atomicAdd(ticket, 1);
  __syncthreads();
  int tile = number, i = tile * THREADS + threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  uint32_t v = x[i];
  for (int step = 1; step < 32; step *= 2) {
    uint32_t other = __shfl_up_sync(~0u, v, step);
    if (lane >= step) v += other;
  }
  if (lane == 31) warps[warp] = v;
  __syncthreads();
  for (int w = 0; w < warp; w++) v += warps[w];
  if (threadIdx.x == THREADS - 1) {
    auto publish = [&](uint64_t state) { asm volatile("st.release.gpu.global.b64 [%0], %1;" ::"l"(states + tile), "l"(state) : "memory"); };
    uint32_t sum = 0;
    publish(uint64_t(tile ? 1 : 2) << 32 | v);
    for (int other = tile - 1; other >= 0;) {
      uint64_t state;
      asm volatile("ld.acquire.gpu.global.b64 %0, [%1];" : "=l"(state) : "l"(states + other) : "memory");
      if (state >> 32 == 0) {
        __nanosleep(100);
        continue;
      }
      sum += uint32_t(state);
      if (state >> 32 == 2) break;
      other--;
    }
    if (tile) publish(uint64_t(2) << 32 | uint32_t(sum + v));
    before = sum;
  }
  __syncthreads();
  y[i] = v + before;
}

// Sums of segments that flags begin, by a scan of pairs; in f32, in a fixed tree.
extern "C" __global__ void scan_segments(const float *x, const uint8_t *flags, float *y) {
  __shared__ float values[2][2 * THREADS];
  __shared__ uint8_t heads[2][2 * THREADS];
  int base = blockIdx.x * 2 * THREADS, turn = 0;
  for (int i = threadIdx.x; i < 2 * THREADS; i += THREADS) values[0][i] = x[base + i], heads[0][i] = flags[base + i];
  for (int step = 1; step < 2 * THREADS; step *= 2, turn ^= 1) {
    __syncthreads();
    for (int i = threadIdx.x; i < 2 * THREADS; i += THREADS) {
      bool join = i >= step && !heads[turn][i];
      values[turn ^ 1][i] = join ? __fadd_rn(values[turn][i - step], values[turn][i]) : values[turn][i];
      heads[turn ^ 1][i] = heads[turn][i] || (i >= step && heads[turn][i - step]) || i < step;
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 2 * THREADS; i += THREADS) y[base + i] = values[turn][i];
}

// Reductions of each row: sums with a correction of the rounding error, minimum and maximum with NaN, the place of the least, products in f64.
extern "C" __global__ void reductions(const float *x, float *sums, float *extremes, int *places, double *products, int columns) {
  __shared__ float scratch[4][THREADS];
  __shared__ uint64_t least[THREADS];
  __shared__ double product[THREADS];
  x += blockIdx.x * columns;
  float sum = 0, error = 0, low = INFINITY, high = -INFINITY;
  uint64_t place = ~0ull;
  double p = 1;
  for (int i = threadIdx.x; i < columns; i += THREADS) {
    float v = x[i], y = __fsub_rn(v, error), t = __fadd_rn(sum, y);
    error = __fsub_rn(__fsub_rn(t, sum), y);
    sum = t;
    asm("min.NaN.f32 %0, %0, %1;" : "+f"(low) : "f"(v));
    asm("max.NaN.f32 %0, %0, %1;" : "+f"(high) : "f"(v));
    uint64_t key = uint64_t(sortable(v)) << 32 | i;
    if (key < place) place = key;
    p *= v;
  }
  scratch[0][threadIdx.x] = sum, scratch[1][threadIdx.x] = low, scratch[2][threadIdx.x] = high;
  least[threadIdx.x] = place, product[threadIdx.x] = p;
  for (int step = THREADS / 2; step; step /= 2) {
    __syncthreads();
    if (threadIdx.x < step) {
      int other = threadIdx.x + step;
      scratch[0][threadIdx.x] = __fadd_rn(scratch[0][threadIdx.x], scratch[0][other]);
      asm("min.NaN.f32 %0, %1, %2;" : "=f"(scratch[1][threadIdx.x]) : "f"(scratch[1][threadIdx.x]), "f"(scratch[1][other]));
      asm("max.NaN.f32 %0, %1, %2;" : "=f"(scratch[2][threadIdx.x]) : "f"(scratch[2][threadIdx.x]), "f"(scratch[2][other]));
      if (least[other] < least[threadIdx.x]) least[threadIdx.x] = least[other];
      product[threadIdx.x] *= product[other];
    }
  }
  if (threadIdx.x == 0) {
    sums[blockIdx.x] = scratch[0][0], extremes[2 * blockIdx.x] = scratch[1][0], extremes[2 * blockIdx.x + 1] = scratch[2][0];
    places[blockIdx.x] = int(uint32_t(least[0])), products[blockIdx.x] = product[0];
  }
}

// Counts of bytes: increments are joined over the lanes that match, then added in shared and in global memory.
extern "C" __global__ void histogram(const uint8_t *x, uint32_t *counts, int n) {
  __shared__ uint32_t bins[256];
  for (int i = threadIdx.x; i < 256; i += THREADS) bins[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * THREADS + threadIdx.x; i < n; i += gridDim.x * THREADS) {
    uint32_t active = __activemask(), same = __match_any_sync(active, x[i]);
    if (__ffs(same) - 1 == threadIdx.x % 32) atomicAdd(&bins[x[i]], __popc(same));
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += THREADS)
    if (bins[i]) atomicAdd(&counts[i], bins[i]);
}

// SHA-256 of messages of 64 bytes, one for each thread; CRC-32 by a table in constant memory that threads make; MurmurHash3.
__constant__ uint32_t K256[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74,
    0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d,
    0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e,
    0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5,
    0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
extern "C" __global__ void sha256(const uint32_t *messages, uint32_t *digests) {
  int thread = blockIdx.x * THREADS + threadIdx.x;
  uint32_t w[64], h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  for (int block = 0; block < 2; block++) {
    for (int i = 0; i < 16; i++) w[i] = block ? (i == 0 ? 0x80000000u : i == 15 ? 512 : 0) : __byte_perm(messages[thread * 16 + i], 0, 0x0123);
    for (int i = 16; i < 64; i++) {
      uint32_t a = w[i - 15], b = w[i - 2];
      w[i] = w[i - 16] + (rotate(a, 25) ^ rotate(a, 14) ^ a >> 3) + w[i - 7] + (rotate(b, 15) ^ rotate(b, 13) ^ b >> 10);
    }
    uint32_t s[8];
    for (int i = 0; i < 8; i++) s[i] = h[i];
#pragma unroll 1
    for (int i = 0; i < 64; i++) {
      uint32_t e = s[4], a = s[0];
      uint32_t t1 = s[7] + (rotate(e, 26) ^ rotate(e, 21) ^ rotate(e, 7)) + ((e & s[5]) ^ (~e & s[6])) + K256[i] + w[i];
      uint32_t t2 = (rotate(a, 30) ^ rotate(a, 19) ^ rotate(a, 10)) + ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
      for (int j = 7; j; j--) s[j] = s[j - 1];
      s[4] += t1, s[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++) h[i] += s[i];
  }
  for (int i = 0; i < 8; i++) digests[thread * 8 + i] = h[i];
}
extern "C" __global__ void hashes(const uint8_t *x, uint32_t *crc, uint32_t *murmur, int length) {
  __shared__ uint32_t table[256];
  for (int i = threadIdx.x; i < 256; i += THREADS) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; bit++) value = value & 1 ? value >> 1 ^ 0xEDB88320u : value >> 1;
    table[i] = value;
  }
  __syncthreads();
  int thread = blockIdx.x * THREADS + threadIdx.x;
  uint32_t c = ~0u, h = 42;
  for (int i = 0; i < length; i++) {
    uint8_t byte = x[thread * length + i];
    c = table[(c ^ byte) & 255] ^ c >> 8;
    uint32_t k = rotate(byte * 0xcc9e2d51u, 15) * 0x1b873593u;
    h = rotate(h ^ k, 13) * 5 + 0xe6546b64u;
  }
  crc[thread] = ~c, murmur[thread] = h ^ h >> 16;
}

// Products of integers of 256 bits, with carries; and 128-bit division by words.
extern "C" __global__ void big_integers(const uint32_t *a, const uint32_t *b, uint32_t *products, uint64_t *quotients) {
  int thread = blockIdx.x * THREADS + threadIdx.x;
  uint32_t r[16] = {};
  for (int i = 0; i < 8; i++) {
    uint64_t carry = 0;
    for (int j = 0; j < 8; j++) {
      uint64_t t = uint64_t(a[thread * 8 + i]) * b[thread * 8 + j] + r[i + j] + carry;
      r[i + j] = uint32_t(t), carry = t >> 32;
    }
    r[i + 8] = uint32_t(carry);
  }
  uint32_t low, middle, high;
  asm("add.cc.u32 %0, %3, %6; addc.cc.u32 %1, %4, %7; addc.u32 %2, %5, %8;"
      : "=r"(low), "=r"(middle), "=r"(high)
      : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[8]), "r"(r[9]), "r"(r[10]));
  asm("mad.lo.cc.u32 %0, %3, %4, %0; madc.hi.cc.u32 %1, %3, %4, %1; subc.u32 %2, %2, %3;" : "+r"(low), "+r"(middle), "+r"(high) : "r"(r[5]), "r"(r[6]));
  for (int i = 0; i < 16; i++) products[thread * 16 + i] = r[i] ^ (i % 3 == 0 ? low : i % 3 == 1 ? middle : high);
  uint64_t n = uint64_t(r[3]) << 32 | r[2], d = uint64_t(r[12]) << 16 | 1;
  quotients[4 * thread] = n / d, quotients[4 * thread + 1] = n % d;
  quotients[4 * thread + 2] = int64_t(n) / int64_t(d), quotients[4 * thread + 3] = __umul64hi(n, d) ^ __mul64hi(n, d);
}

// Bit operations of the hardware: prmt, lop3, bfe, bfi, brev, clz, fns, funnel shifts, sad, dp4a, dp2a, packed minima and maxima.
extern "C" __global__ void bit_operations(const uint32_t *a, const uint32_t *b, const uint32_t *c, uint32_t *y, int n) {
  int i = blockIdx.x * THREADS + threadIdx.x;
  uint32_t p = a[i], q = b[i], r = c[i], v;
  y[0 * n + i] = __byte_perm(p, q, r);
  asm("lop3.b32 %0, %1, %2, %3, 0xD6;" : "=r"(v) : "r"(p), "r"(q), "r"(r));
  y[1 * n + i] = v;
  asm("bfe.u32 %0, %1, %2, %3;" : "=r"(v) : "r"(p), "r"(q % 40), "r"(r % 40));
  y[2 * n + i] = v;
  asm("bfe.s32 %0, %1, %2, %3;" : "=r"(v) : "r"(p), "r"(q), "r"(r));
  y[3 * n + i] = v;
  asm("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(v) : "r"(p), "r"(q), "r"(r % 40), "r"(p % 33));
  y[4 * n + i] = v;
  y[5 * n + i] = __brev(p) ^ __clz(q) ^ __popc(r);
  y[6 * n + i] = __fns(p, q % 32, int(r % 9) - 4);
  y[7 * n + i] = __funnelshift_l(p, q, r) ^ __funnelshift_rc(p, q, r % 40);
  y[8 * n + i] = __sad(int(p), int(q), r) + __usad(p, q, r);
  y[9 * n + i] = __dp4a(int(p), int(q), int(r)) ^ __dp4a(p, q, r) ^ __dp2a_lo(int(p), int(q), int(r)) ^ __dp2a_hi(p, q, r);
  y[10 * n + i] = __viaddmax_s32_relu(int(p), int(q), int(r)) ^ __vimin3_u32(p, q, r) ^ __vimax3_s16x2(p, q, r) ^ __viaddmin_u16x2(p, q, r);
  y[11 * n + i] = __vaddss4(p, q) ^ __vavgs2(q, r) ^ __vcmpgts2(p, q) ^ __vsubus4(r, q);
  y[12 * n + i] = __mulhi(int(p), int(q)) ^ __umulhi(q, r) ^ __mul24(int(p), int(r)) ^ __hadd(int(p), int(q)) ^ __urhadd(q, r);
  y[13 * n + i] = (p / (q | 1)) ^ (int(p) % int(r | 1)) ^ (int(q) >> (r & 31)) ^ (p << (q & 31));
}

// Warp operations: votes, shuffles with widths and masks, reductions, elections, within warps that diverge.
extern "C" __global__ void warp_operations(const int *x, int *y, int n) {
  int i = blockIdx.x * THREADS + threadIdx.x, lane = threadIdx.x % 32, v = x[i];
  y[0 * n + i] = __ballot_sync(~0u, v & 1) ^ __all_sync(~0u, v > -1000000) ^ __any_sync(~0u, v == 7) << 3;
  y[1 * n + i] = __shfl_sync(~0u, v, v, 8) ^ __shfl_up_sync(~0u, v, 3, 16) ^ __shfl_down_sync(~0u, v, 5, 4) ^ __shfl_xor_sync(~0u, v, 9);
  y[2 * n + i] = __reduce_add_sync(~0u, v) ^ __reduce_min_sync(~0u, v) ^ __reduce_max_sync(~0u, unsigned(v)) ^ __reduce_xor_sync(~0u, unsigned(v));
  int result = 0;
  if (v & 2) {
    unsigned mask = __activemask();
    result = __reduce_add_sync(mask, v) ^ __reduce_and_sync(mask, unsigned(v)) ^ __popc(mask);
    if (lane & 4) result += __shfl_sync(__activemask(), v, __ffs(__activemask()) - 1);
  } else {
    for (int k = 0; k < (v & 7); k++) result = result * 31 + __popc(__activemask());
  }
  __syncwarp();
  y[3 * n + i] = result;
  int all;
  y[4 * n + i] = __match_any_sync(~0u, v & 3) ^ __match_all_sync(~0u, v & 0, &all) ^ all;
  int leader;
  asm volatile("{.reg .pred p; elect.sync _|p, -1; selp.b32 %0, 1, 0, p;}" : "=r"(leader));
  y[5 * n + i] = __syncthreads_count(v & 1) + 1000 * __syncthreads_or(v == 5) + 100 * __syncthreads_and(v != 12345) + __reduce_add_sync(~0u, leader);
}

// LU decomposition with partial pivoting of f64 matrices of 32, one warp each; Cholesky in f32.
extern "C" __global__ void lu_decomposition(double *matrices, int *pivots) {
  __shared__ double a[32][33];
  int lane = threadIdx.x;
  for (int r = 0; r < 32; r++) a[r][lane] = matrices[(blockIdx.x * 32 + r) * 32 + lane];
  __syncwarp();
  for (int k = 0; k < 32; k++) {
    int best = k;
    for (int r = k + 1; r < 32; r++)
      if (fabs(a[r][k]) > fabs(a[best][k])) best = r;
    __syncwarp();
    double here = a[k][lane], there = a[best][lane];
    __syncwarp();
    a[k][lane] = there, a[best][lane] = best == k ? there : here;
    if (lane == 0) pivots[blockIdx.x * 32 + k] = best;
    __syncwarp();
    double factor = lane > k ? a[lane][k] / a[k][k] : 0;
    __syncwarp();
    if (lane > k) {
      a[lane][k] = factor;
      for (int c = k + 1; c < 32; c++) a[lane][c] = fma(-factor, a[k][c], a[lane][c]);
    }
    __syncwarp();
  }
  for (int r = 0; r < 32; r++) matrices[(blockIdx.x * 32 + r) * 32 + lane] = a[r][lane];
}
extern "C" __global__ void cholesky(float *matrices) {
  __shared__ float a[32][33];
  int lane = threadIdx.x;
  for (int r = 0; r < 32; r++) a[r][lane] = matrices[(blockIdx.x * 32 + r) * 32 + lane];
  __syncwarp();
  for (int k = 0; k < 32; k++) {
    float root = sqrtf(a[k][k]), factor = lane > k ? a[lane][k] / root : 0;
    __syncwarp();
    a[lane][k] = lane == k ? root : factor;
    __syncwarp();
    if (lane > k)
      for (int c = k + 1; c <= lane; c++) a[lane][c] = fmaf(-a[lane][k], a[c][k], a[lane][c]);
    __syncwarp();
  }
  for (int r = 0; r < 32; r++) matrices[(blockIdx.x * 32 + r) * 32 + lane] = a[r][lane];
}

// A fast Fourier transform of 256 complex numbers with a table of twiddle factors; and a Walsh-Hadamard transform.
extern "C" __global__ void fourier(const float2 *x, const float2 *twiddle, float2 *y) {
  __shared__ float2 data[2 * THREADS];
  for (int i = threadIdx.x; i < 2 * THREADS; i += THREADS) data[__brev(i) >> 24] = x[blockIdx.x * 2 * THREADS + i];
  for (int half = 1; half < 2 * THREADS; half *= 2) {
    __syncthreads();
    int k = threadIdx.x % half, i = 2 * threadIdx.x - k, j = i + half;
    float2 w = twiddle[k * (THREADS / half)], a = data[i], b = data[j];
    float2 t = make_float2(fmaf(b.x, w.x, -(b.y * w.y)), fmaf(b.x, w.y, b.y * w.x));
    data[i] = make_float2(a.x + t.x, a.y + t.y), data[j] = make_float2(a.x - t.x, a.y - t.y);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 2 * THREADS; i += THREADS) y[blockIdx.x * 2 * THREADS + i] = data[i];
}
extern "C" __global__ void hadamard(const float *x, float *y) {
  __shared__ float data[8 * THREADS];
  float v[8];
  for (int i = 0; i < 8; i++) v[i] = x[blockIdx.x * 8 * THREADS + 8 * threadIdx.x + i];
  for (int half = 1; half < 8; half *= 2)
    for (int i = 0; i < 8; i++)
      if (!(i & half)) {
        float a = v[i], b = v[i + half];
        v[i] = a + b, v[i + half] = a - b;
      }
  for (int lanes = 1; lanes < 32; lanes *= 2)
    for (int i = 0; i < 8; i++) {
      float other = __shfl_xor_sync(~0u, v[i], lanes);
      v[i] = threadIdx.x & lanes ? other - v[i] : v[i] + other;
    }
  for (int i = 0; i < 8; i++) data[8 * threadIdx.x + i] = v[i];
  for (int half = 256; half < 8 * THREADS; half *= 2) {
    __syncthreads();
    for (int t = threadIdx.x; t < 4 * THREADS; t += THREADS) {
      int i = 2 * t - t % half;
      float a = data[i], b = data[i + half];
      data[i] = a + b, data[i + half] = a - b;
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 8 * THREADS; i += THREADS) y[blockIdx.x * 8 * THREADS + i] = data[i] * 0.03125f;
}

// Local alignment of two sequences with affine gaps along anti-diagonals, with fused minima and maxima; the best score and its place.
extern "C" __global__ void alignment(const uint8_t *first, const uint8_t *second, int *scores, int *places, int length) {
  __shared__ int h[3][THREADS + 1], f[2][THREADS + 1];
  for (int i = threadIdx.x; i < 3 * (THREADS + 1); i += THREADS) (&h[0][0])[i] = 0;
  for (int i = threadIdx.x; i < 2 * (THREADS + 1); i += THREADS) (&f[0][0])[i] = -1000;
  int t = threadIdx.x, e = -1000, best = 0, at = 0;
  uint8_t mine = first[blockIdx.x * THREADS + t];
  for (int d = 0; d < length + THREADS - 1; d++) {
    __syncthreads();
    int column = d - t, now = d % 3, one = (d + 2) % 3, two = (d + 1) % 3;
    if (column >= 0 && column < length) {
      int left = column ? h[one][t + 1] : 0, above = h[one][t], corner = column ? h[two][t] : 0;
      e = __viaddmax_s32(left, -5, e - 2);
      int down = __viaddmax_s32(above, -5, f[(d + 1) % 2][t] - 2);
      int score = __vimax3_s32_relu(corner + (mine == second[blockIdx.x * length + column] ? 3 : -2), e, down);
      h[now][t + 1] = score, f[d % 2][t + 1] = down;
      if (score > best) best = score, at = column;
    }
  }
  unsigned key = unsigned(best) << 20 | unsigned(at) << 8 | t, most = __reduce_max_sync(~0u, key);
  if (t % 32 == 0) scores[blockIdx.x * 4 + t / 32] = most >> 20, places[blockIdx.x * 4 + t / 32] = most & 0xFFFFF;
}

// Distances between all nodes of a graph of 64, in turn through each node; widths in halves of words.
extern "C" __global__ void shortest_paths(const uint32_t *graph, uint32_t *distances) {
  __shared__ uint32_t d[64][33];
  for (int i = threadIdx.x; i < 64 * 32; i += THREADS) d[i / 32][i % 32] = graph[blockIdx.x * 64 * 32 + i];
  for (int k = 0; k < 64; k++) {
    __syncthreads();
    uint32_t fresh[16];
    for (int i = threadIdx.x, j = 0; i < 64 * 32; i += THREADS, j++) {
      uint32_t through = d[i / 32][k / 2] >> k % 2 * 16 & 0xFFFF;
      fresh[j] = __viaddmin_u16x2(__vminu2(d[k][i % 32], 0x7FFF7FFFu), through * 0x10001u, d[i / 32][i % 32]);
    }
    __syncthreads();
    for (int i = threadIdx.x, j = 0; i < 64 * 32; i += THREADS, j++) d[i / 32][i % 32] = fresh[j];
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 64 * 32; i += THREADS) distances[blockIdx.x * 64 * 32 + i] = d[i / 32][i % 32];
}

// Levels of a breadth-first search: frontiers in shared memory, with atomics whose order does not show.
extern "C" __global__ void breadth_first(const int *starts, const int *edges, int *levels, int nodes) {
  __shared__ int frontier[2][512], count[2];
  for (int i = threadIdx.x; i < nodes; i += THREADS) levels[i] = i == 0 ? 0 : -1;
  if (threadIdx.x == 0) frontier[0][0] = 0, count[0] = 1, count[1] = 0;
  __syncthreads();
  for (int level = 0; count[level & 1]; level++) {
    int now = level & 1;
    for (int i = threadIdx.x; i < count[now]; i += THREADS) {
      int node = frontier[now][i];
      for (int e = starts[node]; e < starts[node + 1]; e++)
        if (atomicCAS(&levels[edges[e]], -1, level + 1) == -1) frontier[now ^ 1][atomicAdd(&count[now ^ 1], 1)] = edges[e];
    }
    __syncthreads();
    if (threadIdx.x == 0) count[now] = 0;
    __syncthreads();
  }
}

// A sparse matrix in compressed rows times a vector: a warp for each row, rows of any length.
extern "C" __global__ void sparse_vector(const int *starts, const int *columns, const float *values, const float *x, float *y, int rows) {
  int row = blockIdx.x * (THREADS / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  float sum = 0;
  for (int i = starts[row] + lane; i < starts[row + 1]; i += 32) sum = fmaf(values[i], x[columns[i]], sum);
  for (int step = 16; step; step /= 2) sum = __fadd_rn(sum, __shfl_down_sync(~0u, sum, step));
  if (lane == 0) y[row] = sum;
}

// A small machine: a program for each thread, with a stack in local memory and functions by pointers.
__device__ __noinline__ int op_add(int a, int b) { return a + b; }
__device__ __noinline__ int op_mul(int a, int b) { return a * b + 1; }
__device__ __noinline__ int op_xor(int a, int b) { return a ^ b << 1; }
__device__ __noinline__ int op_fold(int a, int b) {
  for (; b; b = (a ^ b) >> 8 & 0xFFFFFF) a = (b & 0xFF) + 1;
  return a;
}
typedef int (*Operation)(int, int);
__device__ Operation OPERATIONS[4] = {op_add, op_mul, op_xor, op_fold};
extern "C" __global__ void interpreter(const uint8_t *programs, int *results, int length) {
  int thread = blockIdx.x * THREADS + threadIdx.x, stack[16], top = 0;
  for (int i = 0; i < 16; i++) stack[i] = i * thread;
  for (int i = 0; i < length; i++) {
    uint8_t code = programs[thread * length + i];
    if (code < 128) {
      stack[top & 15] = code, top++;
    } else {
      int a = stack[(top - 1) & 15], b = stack[(top - 2) & 15];
      top--;
      stack[(top - 1) & 15] = OPERATIONS[code & 3](a, b);
    }
  }
  int hash = top;
  for (int i = 0; i < 16; i++) hash = hash * 31 + stack[i];
  results[thread] = hash;
}

// A barrier over the grid by atomics, between steps of a cellular automaton on words; generations alternate between two arrays.
extern "C" __global__ void automaton(uint32_t *cells, uint32_t *arrived, int steps) {
  int n = gridDim.x * THREADS, i = blockIdx.x * THREADS + threadIdx.x;
  for (int step = 0; step < steps; step++) {
    const uint32_t *from = cells + (step & 1) * n;
    uint32_t *to = cells + (~step & 1) * n;
    uint32_t left = from[(i + n - 1) % n], here = from[i], right = from[(i + 1) % n];
    to[i] = __funnelshift_l(left, here, 1) ^ (here | __funnelshift_r(here, right, 1));
    __syncthreads();
    if (threadIdx.x == 0) {
      uint32_t seen;
      asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(arrived) : "memory");
      for (;;) {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(arrived) : "memory");
        if (seen >= (step + 1) * gridDim.x) break;
        __nanosleep(100);
      }
    }
    __syncthreads();
  }
}

// Conversions of f32 and f64 to and from all types, with rounding modes and saturation: a row of y for each.
extern "C" __global__ void conversions(const float *x, const double *d, uint32_t *y, int n) {
  int i = blockIdx.x * THREADS + threadIdx.x;
  float v = x[i];
  double w = d[i];
#define CVT(ROW, TEXT, OUT, IN, FROM) \
  {                                   \
    asm(TEXT : OUT(r) : IN(FROM));    \
    y[ROW * n + i] = r;               \
  }
  uint32_t r;
  unsigned short h;
  unsigned long long l;
  CVT(0, "cvt.rni.s32.f32 %0, %1;", "=r", "f", v)
  CVT(1, "cvt.rzi.u32.f32 %0, %1;", "=r", "f", v)
  CVT(2, "cvt.rmi.sat.s8.f32 %0, %1;", "=r", "f", v)
  CVT(3, "cvt.rpi.ftz.s32.f32 %0, %1;", "=r", "f", v)
  CVT(4, "cvt.rn.bf16x2.f32 %0, %1, %1;", "=r", "f", v)
  CVT(5, "cvt.rz.relu.f16x2.f32 %0, %1, %1;", "=r", "f", v)
  CVT(6, "cvt.rna.tf32.f32 %0, %1;", "=r", "f", v)
  CVT(7, "cvt.rn.f32.f64 %0, %1;", "=r", "d", w)
  CVT(8, "cvt.rm.f32.f64 %0, %1;", "=r", "d", w)
  CVT(9, "cvt.rpi.s32.f64 %0, %1;", "=r", "d", w)
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %1;" : "=h"(h) : "f"(v));
  y[10 * n + i] = h;
  asm("cvt.rn.satfinite.relu.e5m2x2.f32 %0, %1, %1;" : "=h"(h) : "f"(v));
  y[11 * n + i] = h;
  asm("cvt.rn.f16.f64 %0, %1;" : "=h"(h) : "d"(w));
  y[12 * n + i] = h;
  asm("cvt.rzi.s64.f64 %0, %1;" : "=l"(l) : "d"(w));
  y[13 * n + i] = uint32_t(l) ^ uint32_t(l >> 32) * 31;
  asm("cvt.rni.u64.f32 %0, %1;" : "=l"(l) : "f"(v));
  y[14 * n + i] = uint32_t(l) ^ uint32_t(l >> 32) * 31;
  y[15 * n + i] = __float_as_uint(__ll2float_rd(int64_t(l))) ^ __float_as_uint(__uint2float_ru(__float_as_uint(v)));
  y[16 * n + i] = __float_as_uint(__fadd_rz(v, 1.1f)) ^ __float_as_uint(__fmul_ru(v, 1.1f)) * 3 ^ __float_as_uint(__fmaf_rd(v, v, 1.1f)) * 5;
  y[17 * n + i] = __float_as_uint(__fdiv_ru(v, 3.3f)) ^ __float_as_uint(__fsqrt_rd(fabsf(v))) * 3 ^ __float_as_uint(__frcp_rz(v)) * 5;
  y[18 * n + i] = __double2hiint(__ddiv_rn(w, 3.3)) ^ __double2loint(__dsqrt_ru(fabs(w))) ^ __double2hiint(__drcp_rd(w));
}
