// D = A B with mma.sync, of one warp: 16 x 8 elements of f16, or 16 x 32 of e4m3. B stands in rows of k, so that the elements of a register
// come from several words: they are loaded one by one and packed, or exchanged between words, or stored one by one to shared memory.
// The second template argument exchanges neighbours in k, of B only.
#include <cstdint>
#include <cuda_fp16.h>

constexpr int K = 64;

__device__ void multiply_f16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ void multiply_e4m3(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ uint32_t bits(__half2 pair) { return *reinterpret_cast<uint32_t *>(&pair); }

__device__ void store(float *d, int pitch, const float (&from)[4], int row, int column, int next) {
  d[row * pitch + column] = from[0];
  d[row * pitch + column + next] = from[1];
  d[(row + 8) * pitch + column] = from[2];
  d[(row + 8) * pitch + column + next] = from[3];
}

// A as numbers of 16 bits that shifts and or join; B as halves that __halves2half2 packs.
template <bool exchanged> __device__ void packed_halves(const uint16_t *a, const __half *b, float *d) {
  int row = threadIdx.x / 4, pair = threadIdx.x % 4 * 2;
  float sum[4] = {};
  for (int k = 0; k < K; k += 16) {
    uint32_t of_a[4], of_b[2];
    for (int i = 0; i < 4; i++) {
      const uint16_t *from = a + (row + i % 2 * 8) * K + k + pair + i / 2 * 8;
      of_a[i] = uint32_t(from[0]) | uint32_t(from[1]) << 16;
    }
    for (int i = 0; i < 2; i++) {
      const __half *from = b + (k + pair + 8 * i) * 8 + row;
      of_b[i] = bits(exchanged ? __halves2half2(from[8], from[0]) : __halves2half2(from[0], from[8]));
    }
    multiply_f16(sum, of_a, of_b);
  }
  store(d, 8, sum, row, pair, 1);
}

// The same, where B is stored transposed to shared memory, an element at a time, and loaded in words.
template <bool exchanged> __device__ void stored_halves(const uint16_t *a, const __half *b, float *d) {
  __shared__ __half tile[8][K + 8];
  for (int i = threadIdx.x; i < 8 * K; i += 32) tile[i % 8][exchanged ? i / 8 ^ 1 : i / 8] = b[i];
  __syncthreads();
  int row = threadIdx.x / 4, pair = threadIdx.x % 4 * 2;
  float sum[4] = {};
  for (int k = 0; k < K; k += 16) {
    uint32_t of_a[4], of_b[2];
    for (int i = 0; i < 4; i++) of_a[i] = *reinterpret_cast<const uint32_t *>(a + (row + i % 2 * 8) * K + k + pair + i / 2 * 8);
    for (int i = 0; i < 2; i++) of_b[i] = *reinterpret_cast<uint32_t *>(&tile[row][k + pair + 8 * i]);
    multiply_f16(sum, of_a, of_b);
  }
  store(d, 8, sum, row, pair, 1);
}

// B in words of four columns; __byte_perm makes words of four k of them.
template <bool exchanged> __device__ void permuted_bytes(const uint8_t *a, const uint8_t *b, float *d) {
  int row = threadIdx.x / 4, four = threadIdx.x % 4 * 4;
  float sum[4][4] = {};
  for (int k = 0; k < K; k += 32) {
    uint32_t of_a[4], of_b[4][2];
    for (int i = 0; i < 4; i++) of_a[i] = *reinterpret_cast<const uint32_t *>(a + (row + i % 2 * 8) * K + k + four + i / 2 * 16);
    for (int i = 0; i < 2; i++) {
      uint32_t words[4];
      for (int j = 0; j < 4; j++) words[j] = *reinterpret_cast<const uint32_t *>(b + (k + four + 16 * i + j) * 32 + 4 * row);
      uint32_t low[2], high[2];
      for (int j = 0; j < 2; j++) {
        low[j] = __byte_perm(words[2 * j], words[2 * j + 1], exchanged ? 0x1504 : 0x5140);
        high[j] = __byte_perm(words[2 * j], words[2 * j + 1], exchanged ? 0x3726 : 0x7362);
      }
      of_b[0][i] = __byte_perm(low[0], low[1], 0x5410);
      of_b[1][i] = __byte_perm(low[0], low[1], 0x7632);
      of_b[2][i] = __byte_perm(high[0], high[1], 0x5410);
      of_b[3][i] = __byte_perm(high[0], high[1], 0x7632);
    }
    for (int tile = 0; tile < 4; tile++) multiply_e4m3(sum[tile], of_a, of_b[tile]);
  }
  for (int tile = 0; tile < 4; tile++) store(d, 32, sum[tile], row, 2 * four + tile, 4);
}

// B in bytes that shifts and or join.
template <bool exchanged> __device__ void joined_bytes(const uint8_t *a, const uint8_t *b, float *d) {
  int row = threadIdx.x / 4, four = threadIdx.x % 4 * 4;
  float sum[4][4] = {};
  for (int k = 0; k < K; k += 32) {
    uint32_t of_a[4];
    for (int i = 0; i < 4; i++) of_a[i] = *reinterpret_cast<const uint32_t *>(a + (row + i % 2 * 8) * K + k + four + i / 2 * 16);
    for (int tile = 0; tile < 4; tile++) {
      uint32_t of_b[2] = {};
      for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++) {
          const uint8_t *from = b + (k + four + 16 * i + (exchanged ? j ^ 1 : j)) * 32 + 4 * row + tile;
          of_b[i] |= uint32_t(*from) << 8 * j;
        }
      multiply_e4m3(sum[tile], of_a, of_b);
    }
  }
  for (int tile = 0; tile < 4; tile++) store(d, 32, sum[tile], row, 2 * four + tile, 4);
}

#define KERNELS(name, A, B)                                                                                                              \
  extern "C" __global__ void name(const A *a, const B *b, float *d) { name<false>(a, b, d); }                                            \
  extern "C" __global__ void name##_exchanged(const A *a, const B *b, float *d) { name<true>(a, b, d); }

KERNELS(packed_halves, uint16_t, __half)
KERNELS(stored_halves, uint16_t, __half)
KERNELS(permuted_bytes, uint8_t, uint8_t)
KERNELS(joined_bytes, uint8_t, uint8_t)
