// What the specification leaves open and compilers rely on: which lane's value stays where several lanes store to one place; the carry flag
// between additions and subtractions.
#include <cstdint>

// A warp stores with one instruction; `slots` has the place of each lane, or -1; the values are the numbers of the lanes, from 1.
template <class Word> __device__ inline Word value_of(int lane) { return Word(lane + 1); }
template <> __device__ inline uint2 value_of<uint2>(int lane) { return make_uint2(lane + 1, lane + 101); }
template <> __device__ inline uint4 value_of<uint4>(int lane) { return make_uint4(lane + 1, lane + 101, lane + 201, lane + 301); }

template <class Word> __device__ void colliding(const int *slots, Word *in_global, Word *from_shared, int places) {
  extern __shared__ __align__(16) uint8_t buffer[];
  Word *tile = reinterpret_cast<Word *>(buffer);
  int lane = threadIdx.x, slot = slots[blockIdx.x * 32 + lane];
  in_global += blockIdx.x * places, from_shared += blockIdx.x * places;
  for (int i = lane; i < places; i += 32) tile[i] = Word();
  __syncwarp();
  if (slot >= 0) {
    tile[slot] = value_of<Word>(lane);
    in_global[slot] = value_of<Word>(lane);
  }
  __syncwarp();
  for (int i = lane; i < places; i += 32) from_shared[i] = tile[i];
}

#define COLLIDING(NAME, WORD) \
  extern "C" __global__ void colliding_stores_##NAME(const int *slots, WORD *in_global, WORD *from_shared, int places) { \
    colliding<WORD>(slots, in_global, from_shared, places);                                                             \
  }
COLLIDING(b8, uint8_t) COLLIDING(b16, uint16_t) COLLIDING(b32, uint32_t) COLLIDING(b64, uint64_t) COLLIDING(v2, uint2) COLLIDING(v4, uint4)

// What atomic operations of one instruction return where lanes meet at one place, in shared and in global memory.
extern "C" __global__ void colliding_atomics(const int *slots, uint32_t *in_global, uint32_t *returned, int places) {
  __shared__ uint32_t tile[2][128];
  int lane = threadIdx.x, slot = slots[blockIdx.x * 32 + lane];
  in_global += blockIdx.x * 2 * places, returned += blockIdx.x * 4 * 32;
  for (int i = lane; i < places; i += 32) tile[0][i] = tile[1][i] = 0;
  __syncwarp();
  if (slot >= 0) {
    returned[lane] = atomicAdd(&tile[0][slot], 1 << lane % 8 * 4);
    returned[32 + lane] = atomicExch(&tile[1][slot], lane + 1);
    returned[64 + lane] = atomicAdd(&in_global[slot], 1 << lane % 8 * 4);
    returned[96 + lane] = atomicExch(&in_global[places + slot], lane + 1);
  }
}

// Each instruction that writes the carry flag before each that reads it; a row of y for each pair.
#define AFTER(ROW, FIRST, SECOND)                                                                                                     \
  asm volatile("{.reg .u32 t;\nadd.cc.u32 t, %3, 1;\n" FIRST "\n" SECOND "\n}" : "+r"(t), "=r"(r) : "r"(a), "r"(b), "r"(c));            \
  y[(ROW) * n + i] = r;
#define READERS(ROW, FIRST)                                         \
  AFTER(7 * ROW + 0, FIRST, "addc.u32 %1, %3, %4;")                 \
  AFTER(7 * ROW + 1, FIRST, "subc.u32 %1, %3, %4;")                 \
  AFTER(7 * ROW + 2, FIRST, "madc.lo.u32 %1, %3, %4, %2;")          \
  AFTER(7 * ROW + 3, FIRST, "madc.hi.u32 %1, %3, %4, %2;")          \
  AFTER(7 * ROW + 4, FIRST, "addc.cc.u32 %1, %3, %4; subc.u32 %1, %1, %2;") \
  AFTER(7 * ROW + 5, FIRST, "subc.cc.u32 %1, %3, %4; addc.u32 %1, %1, %2;") \
  AFTER(7 * ROW + 6, FIRST, "subc.cc.u32 %1, %3, %4; subc.u32 %1, %1, %2;")
extern "C" __global__ void carry_flags(const uint32_t *as, const uint32_t *bs, const uint32_t *cs, uint32_t *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  uint32_t a = as[i], b = bs[i], c = cs[i], t = 0, r;
  READERS(0, "add.cc.u32 %0, %2, %3;")
  READERS(1, "sub.cc.u32 %0, %2, %3;")
  READERS(2, "addc.cc.u32 %0, %2, %3;")
  READERS(3, "subc.cc.u32 %0, %2, %3;")
  READERS(4, "mad.lo.cc.u32 %0, %2, %3, %4;")
  READERS(5, "mad.hi.cc.u32 %0, %2, %3, %4;")
  READERS(6, "madc.lo.cc.u32 %0, %2, %3, %4;")
}
#define AFTER_64(ROW, FIRST, SECOND)                                                                               \
  asm volatile("{" FIRST "\n" SECOND "\n}" : "+l"(t), "=l"(r) : "l"(a), "l"(b), "l"(c));                            \
  y[(ROW) * n + i] = r;
#define READERS_64(ROW, FIRST)                              \
  AFTER_64(4 * ROW + 0, FIRST, "addc.u64 %1, %3, %4;")      \
  AFTER_64(4 * ROW + 1, FIRST, "subc.u64 %1, %3, %4;")      \
  AFTER_64(4 * ROW + 2, FIRST, "addc.cc.u64 %1, %3, %4; subc.u64 %1, %1, %2;") \
  AFTER_64(4 * ROW + 3, FIRST, "subc.cc.u64 %1, %3, %4; addc.u64 %1, %1, %2;")
extern "C" __global__ void carry_flags_64(const uint64_t *as, const uint64_t *bs, const uint64_t *cs, uint64_t *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  uint64_t a = as[i], b = bs[i], c = cs[i], t = 0, r;
  READERS_64(0, "add.cc.u64 %0, %2, %3;")
  READERS_64(1, "sub.cc.u64 %0, %2, %3;")
}
