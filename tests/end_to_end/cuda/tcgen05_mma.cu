// D += A B^T with tcgen05.mma in every form. The host says what stands where; the kernel loads rows of 128 bytes of A and B step by step,
// copies scale factors to tensor memory, issues four multiplications a step, and shows tensor memory before and after.
#include "tcgen05.cuh"

using namespace tcgen05;

struct Shape {
  uint32_t steps, a_rows, b_rows, a_leading, b_leading, scale_tiles_a, scale_tiles_b;
  uint32_t scale_column_a, scale_column_b;  // where the tiles of scale factors go
  uint32_t split_b;                         // whether those of B have 64 rows, for lanes 0 to 63 and 64 to 127
  uint32_t tensor_a;                        // whether A is in tensor memory
  uint32_t base32_a, base32_b;              // whether 32 bytes stay together in swizzling: MN-major tf32
  uint32_t disabled[8], zero_columns[2];
  // Of the four multiplications of a step: the form, the instruction descriptor, places in shared memory (bytes behind the first
  // rows) or tensor memory, whether D is read in the first step.
  uint32_t form[4], idesc[4], a[4], b[4], d[4], metadata[4], scale_a[4], scale_b[4], accumulate[4];
  uint32_t a_advance, metadata_advance;  // from step to step, where they are in tensor memory
};

template <int Group> __device__ void multiply(uint32_t form, const Operands &o) {
  switch (form) {
#define FORM(USE, COLLECTOR, GROUP, OPCODE, ...)                                            \
  case 32 * __LINE__ + USE:                                                                 \
    if constexpr (GROUP == Group) TCGEN05_MMA(o, OPCODE COLLECTOR, __VA_ARGS__);            \
    break;
#define USES(FIRST, BUFFER, ...)                                    \
  FORM(FIRST, ".collector::" BUFFER "::fill", __VA_ARGS__)          \
  FORM(FIRST + 1, ".collector::" BUFFER "::use", __VA_ARGS__)       \
  FORM(FIRST + 2, ".collector::" BUFFER "::lastuse", __VA_ARGS__)   \
  FORM(FIRST + 3, ".collector::" BUFFER "::discard", __VA_ARGS__)
#define COLLECT_A(...) FORM(0, "", __VA_ARGS__) USES(1, "a", __VA_ARGS__)
#define COLLECT_B(...)                                                        \
  FORM(0, "", __VA_ARGS__)                                                    \
  USES(1, "b0", __VA_ARGS__) USES(5, "b1", __VA_ARGS__) USES(9, "b2", __VA_ARGS__) USES(13, "b3", __VA_ARGS__)
#define SHIFT_A(...)                                          \
  FORM(0, ".ashift", __VA_ARGS__)                             \
  FORM(1, ".ashift.collector::a::lastuse", __VA_ARGS__)       \
  FORM(2, ".ashift.collector::a::discard", __VA_ARGS__)
#include "tcgen05_forms.inc"
  }
}

__device__ inline uint64_t operand(uint32_t address, uint32_t leading, bool base32) {
  return base32 ? descriptor(address, leading, 512, Swizzle128Base32) : descriptor(address, leading, 1024, Swizzle128);
}

template <int Group>
__device__ void gemm(const Shape &s, const uint4 *a, const uint4 *b, const uint4 *scales, const uint32_t *before, uint32_t *after) {
  extern __shared__ __align__(1024) uint4 shared[];
  __shared__ uint64_t barrier;
  __shared__ uint32_t slot;
  uint4 *a_rows = shared, *b_rows = a_rows + s.a_rows * 8, *factors = b_rows + s.b_rows * 8;
  uint32_t tiles = s.scale_tiles_a + s.scale_tiles_b * (1 + s.split_b), cta = blockIdx.x;
  a += cta * s.steps * s.a_rows * 8;
  b += cta * s.steps * s.b_rows * 8;
  scales += cta * s.steps * tiles * 32;

  if (threadIdx.x == 0) barrier_init(&barrier);
  if (threadIdx.x < 32) allocate<Group>(&slot, COLUMNS);
  meet<Group>();
  uint32_t base = slot;
  write_all(base, before + cta * LANES * COLUMNS);

#pragma unroll 1
  for (uint32_t step = 0; step < s.steps; step++) {
    load_rows(a_rows, a + step * s.a_rows * 8, s.a_rows, s.base32_a);
    load_rows(b_rows, b + step * s.b_rows * 8, s.b_rows, s.base32_b);
    load_plain(factors, scales + step * tiles * 32, tiles * 512);
    fence_async_proxy();
    meet<Group>();
    if (threadIdx.x == 0 && cta % Group == 0) {
#pragma unroll 1
      for (uint32_t i = 0; i < s.scale_tiles_a; i++)
        CopyScales<Group>::issue(base + s.scale_column_a + 4 * i, descriptor(shared_address(factors + 32 * i), 128, 128, None));
#pragma unroll 1
      for (uint32_t i = 0; i < s.scale_tiles_b; i++) {
        uint32_t column = base + s.scale_column_b + 4 * i;
        const uint4 *tile = factors + 32 * s.scale_tiles_a + 32 * (1 + s.split_b) * i;
        if (s.split_b)
          CopyHalves<Group>::issue(column, descriptor(shared_address(tile), 128, 128, None));
        else
          CopyScales<Group>::issue(column, descriptor(shared_address(tile), 128, 128, None));
      }
#pragma unroll 1
      for (uint32_t k = 0; k < 4; k++) {
        Operands o;
        o.d = base + s.d[k];
        if (s.tensor_a)
          o.a = base + s.a[k] + step * s.a_advance;
        else
          o.a = operand(shared_address(a_rows) + s.a[k], s.a_leading, s.base32_a);
        o.b = operand(shared_address(b_rows) + s.b[k], s.b_leading, s.base32_b);
        o.metadata = base + s.metadata[k] + step * s.metadata_advance;
        o.idesc = s.idesc[k];
        o.accumulate = s.accumulate[k] || step > 0;
        o.scale_a = base + s.scale_a[k];
        o.scale_b = base + s.scale_b[k];
        for (int i = 0; i < 8; i++) o.disabled[i] = s.disabled[i];
        o.zero_columns = s.zero_columns[0] | uint64_t(s.zero_columns[1]) << 32;
        multiply<Group>(s.form[k], o);
      }
      commit<Group>(&barrier);
    }
    wait(&barrier, step % 2);
  }
  read_all(base, after + cta * LANES * COLUMNS);
  meet<Group>();
  if (threadIdx.x < 32) deallocate<Group>(base, COLUMNS);
}

#define KERNEL(NAME, GROUP)                                                                                                     \
  extern "C" __global__ void __launch_bounds__(128) NAME(Shape s, const uint4 *a, const uint4 *b, const uint4 *scales,           \
                                                         const uint32_t *before, uint32_t *after) {                              \
    gemm<GROUP>(s, a, b, scales, before, after);                                                                                 \
  }
KERNEL(one, 1)
KERNEL(pair, 2)
