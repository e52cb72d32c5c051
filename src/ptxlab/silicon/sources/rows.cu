// Kernels without matrix instructions: softmax, quantisation to e4m3 with a scale for each row, and stable selection with a histogram.
// A CTA of 256 threads has a row of 1,024 elements.
#include <cstdint>

constexpr int THREADS = 256, COLUMNS = 1024;

template <class Operation> __device__ float reduce(float x, Operation operation) {
  __shared__ float warps[THREADS / 32];
  for (int away = 16; away > 0; away /= 2) x = operation(x, __shfl_xor_sync(~0u, x, away));
  __syncthreads();  // the values of the reduction before have been read
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = x;
  __syncthreads();
  x = warps[0];
  for (int i = 1; i < THREADS / 32; i++) x = operation(x, warps[i]);
  return x;
}

extern "C" __global__ void __launch_bounds__(THREADS) softmax(const float4 *x, float4 *y) {
  float4 v = x[blockIdx.x * COLUMNS / 4 + threadIdx.x];
  float largest = reduce(fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)), [](float a, float b) { return fmaxf(a, b); });
  v = {__expf(v.x - largest), __expf(v.y - largest), __expf(v.z - largest), __expf(v.w - largest)};
  float sum = reduce((v.x + v.y) + (v.z + v.w), [](float a, float b) { return a + b; });
  y[blockIdx.x * COLUMNS / 4 + threadIdx.x] = {__fdividef(v.x, sum), __fdividef(v.y, sum), v.z / sum, v.w / sum};
}

extern "C" __global__ void __launch_bounds__(THREADS) quantise(const float4 *x, uint32_t *codes, float *scales) {
  float4 v = x[blockIdx.x * COLUMNS / 4 + threadIdx.x];
  float largest = reduce(fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w))), [](float a, float b) { return fmaxf(a, b); });
  float scale = fmaxf(largest, 1e-12f) / 448.0f, inverse = __frcp_rn(scale);
  uint16_t low, high;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(low) : "f"(v.y * inverse), "f"(v.x * inverse));
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(high) : "f"(v.w * inverse), "f"(v.z * inverse));
  codes[blockIdx.x * THREADS + threadIdx.x] = low | uint32_t(high) << 16;
  if (threadIdx.x == 0) scales[blockIdx.x] = scale;
}

// The odd words of a row, in order, and behind them zeros; of all words, how many have each value of the highest four bits.
extern "C" __global__ void __launch_bounds__(THREADS) select_odd(const uint32_t *x, uint32_t *found, uint32_t *histogram) {
  __shared__ uint32_t counts[16], begins[THREADS / 32 + 1];
  if (threadIdx.x < 16) counts[threadIdx.x] = 0;
  uint32_t *row = found + blockIdx.x * COLUMNS;
  uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, begin = 0;
#pragma unroll 1
  for (int round = 0; round < COLUMNS / THREADS; round++) {
    uint32_t word = x[blockIdx.x * COLUMNS + round * THREADS + threadIdx.x], odd = __ballot_sync(~0u, word & 1);
    __syncthreads();
    if (lane == 0) begins[warp] = __popc(odd);
    atomicAdd(&counts[word >> 28], 1);
    __syncthreads();
    if (threadIdx.x == 0)
      for (uint32_t i = 0, sum = begin; i <= THREADS / 32; i++) {
        uint32_t next = i < THREADS / 32 ? begins[i] : 0;
        begins[i] = sum, sum += next;
      }
    __syncthreads();
    if (word & 1) row[begins[warp] + __popc(odd & ((1u << lane) - 1))] = word;
    begin = begins[THREADS / 32];
  }
#pragma unroll 1
  for (uint32_t i = begin + threadIdx.x; i < COLUMNS; i += THREADS) row[i] = 0;
  if (threadIdx.x < 16) atomicAdd(&histogram[threadIdx.x], counts[threadIdx.x]);
}
