// Thin wrappers of the PTX around tcgen05: allocation, barriers, copies, multiplication, and tensor memory by the register.
// Group is 1 or 2, the CTAs that work together; functions with it say `.cta_group::Group`.
#pragma once
#include <cstdint>

namespace tcgen05 {

__device__ inline uint32_t shared_address(const void *p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

// ---------------------------------------------------------------------------------------------- synchronisation

__device__ inline void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ inline void fence_before() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
__device__ inline void fence_after() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }

// All threads of the group meet.
template <int Group> __device__ inline void meet() {
  fence_before();
  if (Group == 2)
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
  else
    __syncthreads();
  fence_after();
}

__device__ inline void barrier_init(uint64_t *barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1; fence.mbarrier_init.release.cluster;" ::"r"(shared_address(barrier)) : "memory");
}
__device__ inline void wait(uint64_t *barrier, uint32_t parity) {
  asm volatile("{.reg .pred done; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; @!done bra AGAIN;}"
               ::"r"(shared_address(barrier)), "r"(parity) : "memory");
  fence_after();
}

// One arrival on the barrier of every CTA of the group when all that this thread has issued is complete.
template <int Group> __device__ inline void commit(uint64_t *barrier) {
  uint32_t address = shared_address(barrier);
  if (Group == 1)
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(address) : "memory");
  else
    asm volatile("{.reg .b16 both; mov.b16 both, 3; "
                 "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], both;}"
                 ::"r"(address) : "memory");
}

// ---------------------------------------------------------------------------------------------- allocation

template <int Group> __device__ inline void allocate(uint32_t *slot, uint32_t columns) {
  asm volatile("tcgen05.alloc.cta_group::%2.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(shared_address(slot)), "r"(columns), "n"(Group) : "memory");
  asm volatile("tcgen05.relinquish_alloc_permit.cta_group::%0.sync.aligned;" ::"n"(Group));
}
template <int Group> __device__ inline void deallocate(uint32_t address, uint32_t columns) {
  asm volatile("tcgen05.dealloc.cta_group::%2.sync.aligned.b32 %0, %1;" ::"r"(address), "r"(columns), "n"(Group));
}

// ---------------------------------------------------------------------------------------------- descriptors

enum Swizzle : uint64_t { None = 0, Swizzle128Base32 = 1, Swizzle128 = 2 };

// Byte offsets as the fields of a shared memory descriptor; version 1.
__device__ inline uint64_t descriptor(uint32_t address, uint32_t leading, uint32_t stride, Swizzle swizzle) {
  return uint64_t((address & 0x3FFFF) >> 4) | uint64_t(leading >> 4) << 16 | uint64_t(stride >> 4) << 32 | uint64_t(1) << 46 | swizzle << 61;
}

// Rows of 128 bytes with 128B swizzling, loaded by all threads: 16-byte piece c of row r stands at c ^ r % 8; with an atomicity of 32 bytes,
// two pieces together.
__device__ inline void load_rows(uint4 *to, const uint4 *from, int rows, bool base32 = false) {
#pragma unroll 1
  for (int i = threadIdx.x; i < rows * 8; i += blockDim.x) to[i ^ (base32 ? i / 8 % 4 * 2 : i / 8 % 8)] = from[i];
}
// Bytes as they are.
__device__ inline void load_plain(uint4 *to, const uint4 *from, int bytes) {
#pragma unroll 1
  for (int i = threadIdx.x; i < bytes / 16; i += blockDim.x) to[i] = from[i];
}

// ---------------------------------------------------------------------------------------------- tensor memory by the warp

#define TCGEN05_8(R) R(v[0]), R(v[1]), R(v[2]), R(v[3]), R(v[4]), R(v[5]), R(v[6]), R(v[7])
#define TCGEN05_OUT(x) "=r"(x)
#define TCGEN05_IN(x) "r"(x)

__device__ inline void load8(uint32_t address, uint32_t (&v)[8]) {
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];" : TCGEN05_8(TCGEN05_OUT) : "r"(address));
}
__device__ inline void store8(uint32_t address, const uint32_t (&v)[8]) {
  asm volatile("tcgen05.st.sync.aligned.32x32b.x8.b32 [%8], {%0, %1, %2, %3, %4, %5, %6, %7};" ::TCGEN05_8(TCGEN05_IN), "r"(address) : "memory");
}
__device__ inline void wait_load() { asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory"); }
__device__ inline void wait_store() { asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory"); }

constexpr int COLUMNS = 512, LANES = 128;

// The 128 threads of a CTA write all of tensor memory from [lane][column], or read it.
__device__ inline void write_all(uint32_t address, const uint32_t *from) {
#pragma unroll 1
  for (int column = 0; column < COLUMNS; column += 8) {
    uint32_t v[8];
    for (int i = 0; i < 8; i++) v[i] = from[threadIdx.x * COLUMNS + column + i];
    store8(address + (threadIdx.x / 32 << 21) + column, v);
  }
  wait_store();
}
__device__ inline void read_all(uint32_t address, uint32_t *to) {
#pragma unroll 1
  for (int column = 0; column < COLUMNS; column += 8) {
    uint32_t v[8];
    load8(address + (threadIdx.x / 32 << 21) + column, v);
    wait_load();
    for (int i = 0; i < 8; i++) to[threadIdx.x * COLUMNS + column + i] = v[i];
  }
}

// ---------------------------------------------------------------------------------------------- copies

// NAME::issue copies what the descriptor says to tensor memory. FORM follows the cta_group.
#define TCGEN05_CP(NAME, FORM)                                                                                       \
  template <int Group> struct NAME {                                                                                 \
    static __device__ void issue(uint32_t to, uint64_t from) {                                                       \
      asm volatile("tcgen05.cp.cta_group::%2." FORM " [%0], %1;" ::"r"(to), "l"(from), "n"(Group) : "memory");       \
    }                                                                                                                \
  };

TCGEN05_CP(CopyScales, "32x128b.warpx4")
TCGEN05_CP(CopyHalves, "64x128b.warpx2::01_23")

// ---------------------------------------------------------------------------------------------- multiplication

struct Operands {
  uint32_t d;
  uint64_t a;  // a descriptor, or an address in tensor memory
  uint64_t b;
  uint32_t metadata, idesc, accumulate, scale_a, scale_b;
  uint32_t disabled[8];
  uint64_t zero_columns;
};

// An instruction as inline PTX. OPCODE follows `tcgen05.mma`; the other parts are the macros below.
#define TCGEN05_MMA(o, OPCODE, A, BEHIND_B, BEHIND_IDESC, TAIL)                                                      \
  asm volatile("{.reg .pred p; setp.ne.b32 p, %5, 0; tcgen05.mma" OPCODE " [%0], " A ", %2, " BEHIND_B "%4, "        \
               BEHIND_IDESC "p" TAIL ";}"                                                                            \
               ::"r"(o.d), "l"(o.a), "l"(o.b), "r"(o.metadata), "r"(o.idesc), "r"(o.accumulate), "r"(o.scale_a),     \
               "r"(o.scale_b), "r"(o.disabled[0]), "r"(o.disabled[1]), "r"(o.disabled[2]), "r"(o.disabled[3]),       \
               "r"(o.disabled[4]), "r"(o.disabled[5]), "r"(o.disabled[6]), "r"(o.disabled[7]),                       \
               "l"(o.zero_columns), "r"(static_cast<uint32_t>(o.a)) : "memory")
#define NONE ""
#define A_SHARED "%1"
#define A_TENSOR "[%17]"
#define METADATA "[%3], "
#define FACTORS "[%6], [%7], "
#define DISABLED_1 "{%8, %9, %10, %11}, "
#define DISABLED_2 "{%8, %9, %10, %11, %12, %13, %14, %15}, "
#define ZERO_COLUMNS ", %16"
#define SCALE_D ", 3"

}  // namespace tcgen05
