// tcgen05.cp in every shape, with decompression, and tcgen05.shift: one instruction between two views of tensor memory.
#include "tcgen05.cuh"

using namespace tcgen05;

#define SHAPES(S) \
  S(0, "128x256b") S(1, "128x128b") S(2, "4x256b") S(3, "32x128b.warpx4") S(4, "64x128b.warpx2::02_13") S(5, "64x128b.warpx2::01_23")

template <int Group> __device__ void copy(uint32_t shape, uint32_t format, uint32_t to, uint64_t from) {
#define ONE(FORM) asm volatile("tcgen05.cp.cta_group::%2." FORM " [%0], %1;" ::"r"(to), "l"(from), "n"(Group) : "memory")
  switch (3 * shape + format) {
#define CASES(i, FORM)                                 \
  case 3 * i: ONE(FORM); break;                        \
  case 3 * i + 1: ONE(FORM ".b8x16.b6x16_p32"); break; \
  case 3 * i + 2: ONE(FORM ".b8x16.b4x16_p64"); break;
    SHAPES(CASES)
    case 18: asm volatile("tcgen05.shift.cta_group::%1.down [%0];" ::"r"(to), "n"(Group) : "memory"); break;
  }
}

template <int Group>
__device__ void frame(uint32_t shape, uint32_t format, uint32_t to, uint32_t leading, uint32_t stride, uint32_t swizzled, uint32_t start,
                      const uint4 *image, const uint32_t *before, uint32_t *after) {
  constexpr int ROWS = 128;  // of 128 bytes
  __shared__ __align__(1024) uint4 rows[ROWS * 8];
  __shared__ uint64_t barrier;
  __shared__ uint32_t slot;
  if (threadIdx.x == 0) barrier_init(&barrier);
  if (threadIdx.x < 32) allocate<Group>(&slot, COLUMNS);
  uint32_t cta = blockIdx.x;
  if (swizzled)
    load_rows(rows, image + cta * ROWS * 8, ROWS);
  else
    load_plain(rows, image + cta * ROWS * 8, ROWS * 128);
  fence_async_proxy();
  meet<Group>();
  uint32_t base = slot;
  write_all(base, before + cta * LANES * COLUMNS);
  meet<Group>();
  if (threadIdx.x == 0 && cta % Group == 0) {
    copy<Group>(shape, format, base + to, descriptor(shared_address(rows) + start, leading, stride, swizzled ? Swizzle128 : None));
    commit<Group>(&barrier);
  }
  wait(&barrier, 0);
  read_all(base, after + cta * LANES * COLUMNS);
  meet<Group>();
  if (threadIdx.x < 32) deallocate<Group>(base, COLUMNS);
}

#define KERNEL(NAME, GROUP)                                                                                                            \
  extern "C" __global__ void __launch_bounds__(128)                                                                                    \
  NAME(uint32_t shape, uint32_t format, uint32_t to, uint32_t leading, uint32_t stride, uint32_t swizzled, uint32_t start,             \
       const uint4 *image, const uint32_t *before, uint32_t *after) {                                                                  \
    frame<GROUP>(shape, format, to, leading, stride, swizzled, start, image, before, after);                                           \
  }
KERNEL(one, 1)
KERNEL(pair, 2)
