// Kernels of neural networks without tensor cores. The order of the files is that of the kernels in the PTX.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

namespace {

constexpr int THREADS = 128;

struct Philox {
  uint32_t key[2];
  __device__ uint4 operator()(uint4 c) const {
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
      uint32_t high0 = __umulhi(0xD2511F53u, c.x), low0 = 0xD2511F53u * c.x, high1 = __umulhi(0xCD9E8D57u, c.z), low1 = 0xCD9E8D57u * c.z;
      c = make_uint4(high1 ^ c.y ^ k0, low1, high0 ^ c.w ^ k1, low0);
      k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    return c;
  }
};

template <class Join> __device__ float over_block(float value, Join join, float *scratch) {
  for (int step = 16; step; step /= 2) value = join(value, __shfl_xor_sync(~0u, value, step));
  __syncthreads();
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
  value = scratch[0];
  for (int warp = 1; warp < THREADS / 32; warp++) value = join(value, scratch[warp]);
  return value;
}

struct Add {
  __device__ float operator()(float a, float b) const { return __fadd_rn(a, b); }
};
struct Max {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

}  // namespace

#include "rows/norms.cuh"
#include "rows/positions.cuh"
#include "rows/functions.cuh"
#include "rows/models.cuh"
