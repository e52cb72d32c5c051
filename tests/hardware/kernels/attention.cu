// Flash attention on wgmma, forward and backward. Heads of 64 elements, tiles of 64 queries and 64 keys, one warpgroup.
// Exact: 2^x by a polynomial, so that all bits are defined; otherwise by ex2.approx.
#include <cuda_fp16.h>

#include "sm90.cuh"

using namespace wgmma;

constexpr int T = 64, D = 64;

#define PLUS ", 1, 1"
WGMMA_32(kk, "m64n64k16.f32.f16.f16", PLUS ", 0, 0", PLUS ", 0")
WGMMA_32(km, "m64n64k16.f32.f16.f16", PLUS ", 0, 1", PLUS ", 1")
WGMMA_32(mm, "m64n64k16.f32.f16.f16", PLUS ", 1, 1", "")

template <bool Exact> __device__ inline float exp2_of(float x) {
  if (!Exact) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
  }
  if (x < -126.f) return 0.f;
  float whole = rintf(x), r = __fsub_rn(x, whole), p = 1.54035303934e-4f;
  p = fmaf(p, r, 1.33335581464e-3f);
  p = fmaf(p, r, 9.61812910763e-3f);
  p = fmaf(p, r, 5.55041086648e-2f);
  p = fmaf(p, r, 2.40226506959e-1f);
  p = fmaf(p, r, 6.93147180560e-1f);
  p = fmaf(p, r, 1.f);
  return __int_as_float(__float_as_int(p) + (int(whole) << 23));
}

__device__ inline uint32_t pack(float low, float high) {
  uint32_t word;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}

// Reductions over the four threads that hold a row.
__device__ inline float row_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}
__device__ inline float row_sum(float x) {
  x = __fadd_rn(x, __shfl_xor_sync(~0u, x, 1));
  return __fadd_rn(x, __shfl_xor_sync(~0u, x, 2));
}

// Accumulator i of a thread lies in row 8 (i / 2 % 2) and column 8 (i / 4) + i % 2 of the rows and columns that are the thread's.
__device__ inline int row_of(int i) { return 16 * (threadIdx.x / 32) + threadIdx.x % 32 / 4 + 8 * (i >> 1 & 1); }
__device__ inline int column_of(int i) { return 2 * (threadIdx.x % 4) + 8 * (i >> 2) + (i & 1); }

__device__ inline float f(uint32_t word) { return __uint_as_float(word); }
__device__ inline uint32_t u(float value) { return __float_as_uint(value); }

template <bool Causal, bool Exact>
__device__ void forward(const half *q, const half *k, const half *v, half *o, float *most, float *total, int length, float scale) {
  __shared__ alignas(1024) uint8_t q_tile[T * 128], k_tile[2][T * 128], v_tile[2][T * 128];
  int head = blockIdx.y, first = blockIdx.x * T;
  size_t base = size_t(head) * length * D;
  load_tile(q_tile, reinterpret_cast<const uint8_t *>(q + base + first * D), 128, T);
  uint32_t s[32], sum[32];
  float m[2] = {-INFINITY, -INFINITY}, l[2] = {0, 0};
  for (uint32_t &word : sum) word = 0;
  int tiles = Causal ? blockIdx.x + 1 : length / T;
  for (int tile = 0; tile < tiles; tile++) {
    uint8_t *kt = k_tile[tile & 1], *vt = v_tile[tile & 1];
    load_tile(kt, reinterpret_cast<const uint8_t *>(k + base + tile * T * D), 128, T);
    load_tile(vt, reinterpret_cast<const uint8_t *>(v + base + tile * T * D), 128, T);
    fence_async_proxy();
    __syncthreads();
    for (uint32_t &word : s) word = 0;
    fence_sums(s);
    for (int i = 0; i < 4; i++) kk::from_shared(s, descriptor(shared(q_tile) + 32 * i), descriptor(shared(kt) + 32 * i), i > 0);
    commit();
    wait<0>();
    float top[2] = {m[0], m[1]};
    for (int i = 0; i < 32; i++) {
      float x = __fmul_rn(f(s[i]), scale);
      if (Causal && tile * T + column_of(i) > first + row_of(i)) x = -INFINITY;
      s[i] = u(x);
      top[i >> 1 & 1] = fmaxf(top[i >> 1 & 1], x);
    }
    float less[2], part[2] = {0, 0};
    for (int r = 0; r < 2; r++) {
      top[r] = row_max(top[r]);
      less[r] = m[r] == -INFINITY ? 0.f : exp2_of<Exact>(__fsub_rn(m[r], top[r]));
      m[r] = top[r];
    }
    for (int i = 0; i < 32; i++) {
      float p = exp2_of<Exact>(__fsub_rn(f(s[i]), m[i >> 1 & 1]));
      part[i >> 1 & 1] = __fadd_rn(part[i >> 1 & 1], p);
      s[i] = u(p);
    }
    for (int r = 0; r < 2; r++) l[r] = __fadd_rn(__fmul_rn(l[r], less[r]), row_sum(part[r]));
    for (int i = 0; i < 32; i++) sum[i] = u(__fmul_rn(f(sum[i]), less[i >> 1 & 1]));
    uint32_t a[4][4];
    for (int i = 0; i < 4; i++)
      for (int j = 0; j < 4; j++) {
        a[i][j] = pack(f(s[8 * i + 2 * j]), f(s[8 * i + 2 * j + 1]));
        asm volatile("" : "+r"(a[i][j])::"memory");
      }
    fence_sums(sum);
    for (int i = 0; i < 4; i++) km::from_registers(sum, a[i], descriptor(shared(vt) + 2048 * i), 1);
    commit();
    wait<0>();
  }
  for (int i = 0; i < 32; i += 2) {
    int r = i >> 1 & 1, row = first + row_of(i);
    *reinterpret_cast<uint32_t *>(o + base + row * D + column_of(i)) = pack(__fdiv_rn(f(sum[i]), l[r]), __fdiv_rn(f(sum[i + 1]), l[r]));
    if (i < 4 && threadIdx.x % 4 == 0) most[head * length + row] = m[r], total[head * length + row] = l[r];
  }
}

// A tile of f16 from accumulators, rows of 128 bytes with 128B swizzling.
__device__ inline void store_tile(uint8_t *tile, const uint32_t (&d)[32]) {
  for (int i = 0; i < 32; i += 2) {
    int row = row_of(i), byte = 2 * column_of(i);
    *reinterpret_cast<uint32_t *>(tile + 128 * row + (byte ^ row % 8 * 16)) = pack(f(d[i]), f(d[i + 1]));
  }
}

// Gradients of one tile of keys: dK and dV are sums over the queries in order; dQ has a slice for each tile of keys.
// `delta` is the row sum of O dO.
template <bool Exact>
__device__ void backward(const half *q, const half *k, const half *v, const half *dout, const float *most, const float *total, const float *delta,
                         float *dq, float *dk, float *dv, int length, float scale) {
  __shared__ alignas(1024) uint8_t q_tile[T * 128], k_tile[T * 128], v_tile[T * 128], do_tile[T * 128], p_tile[T * 128], ds_tile[T * 128];
  int head = blockIdx.y, first = blockIdx.x * T;
  size_t base = size_t(head) * length * D;
  load_tile(k_tile, reinterpret_cast<const uint8_t *>(k + base + first * D), 128, T);
  load_tile(v_tile, reinterpret_cast<const uint8_t *>(v + base + first * D), 128, T);
  uint32_t sk[32], sv[32], s[32], dp[32];
  for (int i = 0; i < 32; i++) sk[i] = sv[i] = 0;
  for (int tile = 0; tile < length / T; tile++) {
    load_tile(q_tile, reinterpret_cast<const uint8_t *>(q + base + tile * T * D), 128, T);
    load_tile(do_tile, reinterpret_cast<const uint8_t *>(dout + base + tile * T * D), 128, T);
    fence_async_proxy();
    __syncthreads();
    for (int i = 0; i < 32; i++) s[i] = dp[i] = 0;
    fence_sums(s), fence_sums(dp);
    for (int i = 0; i < 4; i++) kk::from_shared(s, descriptor(shared(q_tile) + 32 * i), descriptor(shared(k_tile) + 32 * i), i > 0);
    for (int i = 0; i < 4; i++) kk::from_shared(dp, descriptor(shared(do_tile) + 32 * i), descriptor(shared(v_tile) + 32 * i), i > 0);
    commit();
    wait<0>();
    for (int i = 0; i < 32; i++) {
      int row = head * length + tile * T + row_of(i);
      float p = __fdiv_rn(exp2_of<Exact>(__fsub_rn(__fmul_rn(f(s[i]), scale), most[row])), total[row]);
      dp[i] = u(__fmul_rn(p, __fsub_rn(f(dp[i]), delta[row])));
      s[i] = u(p);
    }
    store_tile(p_tile, s);
    store_tile(ds_tile, dp);
    fence_async_proxy();
    __syncthreads();
    for (uint32_t &word : s) word = 0;
    fence_sums(sv), fence_sums(sk), fence_sums(s);
    for (int i = 0; i < 4; i++) {
      mm::from_shared(sv, descriptor(shared(p_tile) + 2048 * i), descriptor(shared(do_tile) + 2048 * i), 1);
      mm::from_shared(sk, descriptor(shared(ds_tile) + 2048 * i), descriptor(shared(q_tile) + 2048 * i), 1);
      km::from_shared(s, descriptor(shared(ds_tile) + 32 * i), descriptor(shared(k_tile) + 2048 * i), i > 0);
    }
    commit();
    wait<0>();
    __syncthreads();
    float *slice = dq + (size_t(blockIdx.x) * gridDim.y + head) * length * D;
    for (int i = 0; i < 32; i++) slice[(tile * T + row_of(i)) * D + column_of(i)] = f(s[i]);
  }
  for (int i = 0; i < 32; i++) {
    size_t at = base + (first + row_of(i)) * D + column_of(i);
    dk[at] = f(sk[i]);
    dv[at] = f(sv[i]);
  }
}

#define FORWARD(NAME, CAUSAL, EXACT)                                                                                                  \
  extern "C" __global__ void __launch_bounds__(128) NAME(const half *q, const half *k, const half *v, half *o, float *most, float *total, int length, \
                                                         float scale) {                                                               \
    forward<CAUSAL, EXACT>(q, k, v, o, most, total, length, scale);                                                                   \
  }
#define BACKWARD(NAME, EXACT)                                                                                                         \
  extern "C" __global__ void __launch_bounds__(128) NAME(const half *q, const half *k, const half *v, const half *dout, const float *most, \
                                                         const float *total, const float *delta, float *dq, float *dk, float *dv, int length, float scale) { \
    backward<EXACT>(q, k, v, dout, most, total, delta, dq, dk, dv, length, scale);                                                    \
  }
FORWARD(attention, false, false)
FORWARD(attention_exact, false, true)
FORWARD(attention_causal, true, false)
FORWARD(attention_causal_exact, true, true)
BACKWARD(attention_backward, false)
BACKWARD(attention_backward_exact, true)

// The row sums of O dO: one warp for each row.
extern "C" __global__ void attention_delta(const half *o, const half *dout, float *delta) {
  int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  half2 x = reinterpret_cast<const half2 *>(o)[row * 32 + lane], y = reinterpret_cast<const half2 *>(dout)[row * 32 + lane];
  float sum = fmaf(__high2float(x), __high2float(y), __fmul_rn(__low2float(x), __low2float(y)));
  for (int step = 16; step; step /= 2) sum = __fadd_rn(sum, __shfl_xor_sync(~0u, sum, step));
  if (lane == 0) delta[row] = sum;
}
