// wgmma.mma_async, dense and sparse, from 8 to 256 columns: one warpgroup, one instruction. The host says what stands in shared memory and in
// the registers.
#include <cstdint>

#include "registers.cuh"

#define NONE ""
#define METADATA ", m, 0"
#define BOTH(x) "+r"(x)

constexpr uint32_t IMAGE = 1 << 16;  // bytes of shared memory
constexpr int MOST = 128;            // registers of a thread

struct Operands {
  uint64_t a, b;  // descriptors
  uint32_t metadata;
};

extern "C" __global__ void __launch_bounds__(128)
multiply(uint32_t form, const uint4 *image, const uint64_t *descriptors, const uint32_t *metadata, uint32_t *accumulators) {
  extern __shared__ __align__(1024) uint4 shared[];
  for (uint32_t i = threadIdx.x; i < IMAGE / 16; i += 128) shared[i] = image[i];
  Operands o = {descriptors[0], descriptors[1], metadata[threadIdx.x]};
  accumulators += threadIdx.x * MOST;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  switch (form) {
#define FORM(OPCODE, COUNT, BEHIND_B, TAIL)                                                                                   \
  case __LINE__: {                                                                                                            \
    uint32_t v[COUNT];                                                                                                        \
    for (int i = 0; i < COUNT; i++) v[i] = accumulators[i];                                                                   \
    asm volatile("{ .reg .pred p; .reg .b64 a, b; .reg .b32 m;\n"                                                             \
                 "ld.b64 a, [" PLACE_BEHIND_##COUNT "]; ld.b64 b, [" PLACE_BEHIND_##COUNT "+8];\n"                            \
                 "ld.b32 m, [" PLACE_BEHIND_##COUNT "+16]; setp.eq.u32 p, 0, 0;\n"                                            \
                 "wgmma.fence.sync.aligned;\n"                                                                                \
                 "wgmma.mma_async" OPCODE " {" PLACES_##COUNT "}, a, b" BEHIND_B ", p" TAIL ";\n"                             \
                 "wgmma.commit_group.sync.aligned;\n"                                                                         \
                 "wgmma.wait_group.sync.aligned 0; }"                                                                         \
                 : VALUES_##COUNT(BOTH)                                                                                       \
                 : "l"(&o)                                                                                                    \
                 : "memory");                                                                                                 \
    for (int i = 0; i < COUNT; i++) accumulators[i] = v[i];                                                                   \
    break;                                                                                                                    \
  }
#include "wgmma_forms.inc"
  }
}
