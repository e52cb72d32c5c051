// wgmma.mma_async, dense and sparse, of all columns: one warpgroup, one instruction. The host says what stands in shared memory and in the
// registers.
#include <cstdint>

#include "wgmma_registers.cuh"

#define DENSE ""
#define SPARSE_0 ", %4, 0"
#define SPARSE_1 ", %4, 1"
#define A_SHARED "%1"
#define A_REGISTERS "{%5, %6, %7, %8}"

constexpr uint32_t IMAGE = 40 << 10;  // bytes of shared memory
constexpr int MOST = 128;             // registers of D in a thread

#define FORM(J, N, SPARSE, TYPES, D, A, BEHIND_B, TAIL)                                                                             \
  case N:                                                                                                                           \
    asm volatile("{ .reg .pred p; .reg .b32 " UPTO_##J(D, ", ") "; setp.ne.b32 p, %3, 0;\n"                                         \
                 UPTO_##J(LOAD_##D, "")                                                                                             \
                 "wgmma.fence.sync.aligned;\n"                                                                                      \
                 "wgmma.mma_async" SPARSE ".sync.aligned.m64n" #N TYPES " {" UPTO_##J(D, ", ") "}, " A ", %2" BEHIND_B ", p" TAIL ";\n" \
                 "wgmma.commit_group.sync.aligned;\n"                                                                               \
                 "wgmma.wait_group.sync.aligned 0;\n"                                                                               \
                 UPTO_##J(STORE_##D, "") "}"                                                                                        \
                 ::"l"(d), "l"(descriptors.x), "l"(descriptors.y), "r"(accumulate), "r"(metadata[threadIdx.x]), "r"(a.x), "r"(a.y), \
                 "r"(a.z), "r"(a.w) : "memory");                                                                                    \
    break;
#define KERNEL(NAME, ...)                                                                                                           \
  extern "C" __global__ void __launch_bounds__(128) NAME(uint32_t columns, const uint4 *image, ulonglong2 descriptors,              \
                                                         const uint4 *fragments, const uint32_t *metadata, uint32_t accumulate,     \
                                                         uint32_t *accumulators) {                                                  \
    load(image);                                                                                                                    \
    uint4 a = fragments[threadIdx.x];                                                                                               \
    uint32_t *d = accumulators + threadIdx.x * MOST;                                                                                \
    switch (columns) { __VA_ARGS__ }                                                                                                \
  }
#define INTEGERS(...) \
  FORM(1, 8, __VA_ARGS__) FORM(2, 16, __VA_ARGS__) FORM(3, 24, __VA_ARGS__) FORM(4, 32, __VA_ARGS__)           \
  FORM(6, 48, __VA_ARGS__) FORM(8, 64, __VA_ARGS__) FORM(10, 80, __VA_ARGS__) FORM(12, 96, __VA_ARGS__)        \
  FORM(14, 112, __VA_ARGS__) FORM(16, 128, __VA_ARGS__) FORM(18, 144, __VA_ARGS__) FORM(20, 160, __VA_ARGS__)  \
  FORM(22, 176, __VA_ARGS__) FORM(24, 192, __VA_ARGS__) FORM(26, 208, __VA_ARGS__) FORM(28, 224, __VA_ARGS__)  \
  FORM(30, 240, __VA_ARGS__) FORM(32, 256, __VA_ARGS__)
#define OTHERS(...) \
  FORM(5, 40, __VA_ARGS__) FORM(7, 56, __VA_ARGS__) FORM(9, 72, __VA_ARGS__) FORM(11, 88, __VA_ARGS__)         \
  FORM(13, 104, __VA_ARGS__) FORM(15, 120, __VA_ARGS__) FORM(17, 136, __VA_ARGS__) FORM(19, 152, __VA_ARGS__)  \
  FORM(21, 168, __VA_ARGS__) FORM(23, 184, __VA_ARGS__) FORM(25, 200, __VA_ARGS__) FORM(27, 216, __VA_ARGS__)  \
  FORM(29, 232, __VA_ARGS__) FORM(31, 248, __VA_ARGS__)
#define EVERY_N(NAME, ...) KERNEL(NAME, INTEGERS(__VA_ARGS__) OTHERS(__VA_ARGS__))
#define INTEGER_N(NAME, ...) KERNEL(NAME, INTEGERS(__VA_ARGS__))

__device__ inline void load(const uint4 *image) {
  extern __shared__ __align__(1024) uint4 shared[];
  for (uint32_t i = threadIdx.x; i < IMAGE / 16; i += 128) shared[i] = image[i];
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
}

#include "wgmma_forms.inc"
