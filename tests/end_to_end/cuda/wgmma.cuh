// Thin wrappers of the PTX around wgmma: tiles of rows of 128 bytes with 128B swizzling, m64n64 instructions of every type.
#pragma once
#include <cstdint>

namespace wgmma {

__device__ inline uint32_t shared_address(const void *p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

__device__ inline void fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int Pending> __device__ inline void wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory"); }
__device__ inline void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Rows of 128 bytes; eight of them are a swizzle atom. K-major: the leading dimension byte offset is not used.
// MN-major: a tile is one atom wide, so it is not used either.
__device__ inline uint64_t descriptor(uint32_t address) {
  return uint64_t((address & 0x3FFFF) >> 4) | uint64_t(1) << 16 | uint64_t(1024 >> 4) << 32 | uint64_t(1) << 62;
}

// A tile of `rows` rows of 128 bytes, loaded by all threads: 16-byte piece c of row r stands at c ^ r % 8.
__device__ inline void load_tile(uint8_t *tile, const uint8_t *source, int pitch, int rows) {
  for (int i = threadIdx.x; i < rows * 8; i += blockDim.x) {
    int r = i / 8, c = i % 8;
    *reinterpret_cast<uint4 *>(tile + 128 * r + 16 * (c ^ r % 8)) = *reinterpret_cast<const uint4 *>(source + size_t(r) * pitch + 16 * c);
  }
}

#define D16 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}"
#define D32                                                                                                                        \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                                        \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}"
#define R8(i) "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3]), "+r"(d[i + 4]), "+r"(d[i + 5]), "+r"(d[i + 6]), "+r"(d[i + 7])
#define R16 R8(0), R8(8)
#define R32 R16, R8(16), R8(24)

// An instruction: D += A B^T. FORM names shape and types; TAIL_S and TAIL_R follow scale-d, for A in shared memory and in registers.
#define WGMMA_16(NAME, FORM, TAIL_S, TAIL_R)                                                                                       \
  struct NAME {                                                                                                                    \
    static constexpr int words = 16;                                                                                               \
    static __device__ void from_shared(uint32_t (&d)[16], uint64_t a, uint64_t b, int accumulate) {                                \
      asm volatile("{.reg .pred p; setp.ne.b32 p, %18, 0; wgmma.mma_async.sync.aligned." FORM " " D16 ", %16, %17, p" TAIL_S ";}"  \
                   : R16 : "l"(a), "l"(b), "r"(accumulate) : "memory");                                                            \
    }                                                                                                                              \
    static __device__ void from_registers(uint32_t (&d)[16], const uint32_t (&a)[4], uint64_t b, int accumulate) {                 \
      asm volatile("{.reg .pred p; setp.ne.b32 p, %21, 0; "                                                                        \
                   "wgmma.mma_async.sync.aligned." FORM " " D16 ", {%16, %17, %18, %19}, %20, p" TAIL_R ";}"                       \
                   : R16 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate) : "memory");                        \
    }                                                                                                                              \
  };
#define WGMMA_32(NAME, FORM, TAIL_S, TAIL_R)                                                                                       \
  struct NAME {                                                                                                                    \
    static constexpr int words = 32;                                                                                               \
    static __device__ void from_shared(uint32_t (&d)[32], uint64_t a, uint64_t b, int accumulate) {                                \
      asm volatile("{.reg .pred p; setp.ne.b32 p, %34, 0; wgmma.mma_async.sync.aligned." FORM " " D32 ", %32, %33, p" TAIL_S ";}"  \
                   : R32 : "l"(a), "l"(b), "r"(accumulate) : "memory");                                                            \
    }                                                                                                                              \
    static __device__ void from_registers(uint32_t (&d)[32], const uint32_t (&a)[4], uint64_t b, int accumulate) {                 \
      asm volatile("{.reg .pred p; setp.ne.b32 p, %37, 0; "                                                                        \
                   "wgmma.mma_async.sync.aligned." FORM " " D32 ", {%32, %33, %34, %35}, %36, p" TAIL_R ";}"                       \
                   : R32 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate) : "memory");                        \
    }                                                                                                                              \
  };

}  // namespace wgmma
