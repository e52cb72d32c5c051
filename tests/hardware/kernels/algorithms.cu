// Kernels of every control flow, exact operations only. The order of the files is that of the kernels in the PTX.
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

#include "algorithms/sorting.cuh"
#include "algorithms/bits.cuh"
#include "algorithms/matrices.cuh"
#include "algorithms/graphs.cuh"
#include "algorithms/conversions.cuh"
