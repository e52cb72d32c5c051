// Hashes, long integers, bit operations, warp operations.
#pragma once

// SHA-256 of messages of 64 bytes, one for each thread; CRC-32 by a table in constant memory that threads make; MurmurHash3.
__constant__ uint32_t K256[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74,
    0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d,
    0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e,
    0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5,
    0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
extern "C" __global__ void sha256(const uint32_t *messages, uint32_t *digests) {
  int thread = blockIdx.x * THREADS + threadIdx.x;
  uint32_t w[64], h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  for (int block = 0; block < 2; block++) {
    for (int i = 0; i < 16; i++) w[i] = block ? (i == 0 ? 0x80000000u : i == 15 ? 512 : 0) : __byte_perm(messages[thread * 16 + i], 0, 0x0123);
    for (int i = 16; i < 64; i++) {
      uint32_t a = w[i - 15], b = w[i - 2];
      w[i] = w[i - 16] + (rotate(a, 25) ^ rotate(a, 14) ^ a >> 3) + w[i - 7] + (rotate(b, 15) ^ rotate(b, 13) ^ b >> 10);
    }
    uint32_t s[8];
    for (int i = 0; i < 8; i++) s[i] = h[i];
#pragma unroll 1
    for (int i = 0; i < 64; i++) {
      uint32_t e = s[4], a = s[0];
      uint32_t t1 = s[7] + (rotate(e, 26) ^ rotate(e, 21) ^ rotate(e, 7)) + ((e & s[5]) ^ (~e & s[6])) + K256[i] + w[i];
      uint32_t t2 = (rotate(a, 30) ^ rotate(a, 19) ^ rotate(a, 10)) + ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
      for (int j = 7; j; j--) s[j] = s[j - 1];
      s[4] += t1, s[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++) h[i] += s[i];
  }
  for (int i = 0; i < 8; i++) digests[thread * 8 + i] = h[i];
}
extern "C" __global__ void hashes(const uint8_t *x, uint32_t *crc, uint32_t *murmur, int length) {
  __shared__ uint32_t table[256];
  for (int i = threadIdx.x; i < 256; i += THREADS) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; bit++) value = value & 1 ? value >> 1 ^ 0xEDB88320u : value >> 1;
    table[i] = value;
  }
  __syncthreads();
  int thread = blockIdx.x * THREADS + threadIdx.x;
  uint32_t c = ~0u, h = 42;
  for (int i = 0; i < length; i++) {
    uint8_t byte = x[thread * length + i];
    c = table[(c ^ byte) & 255] ^ c >> 8;
    uint32_t k = rotate(byte * 0xcc9e2d51u, 15) * 0x1b873593u;
    h = rotate(h ^ k, 13) * 5 + 0xe6546b64u;
  }
  crc[thread] = ~c, murmur[thread] = h ^ h >> 16;
}

// Products of integers of 256 bits, with carries; and 128-bit division by words.
extern "C" __global__ void big_integers(const uint32_t *a, const uint32_t *b, uint32_t *products, uint64_t *quotients) {
  int thread = blockIdx.x * THREADS + threadIdx.x;
  uint32_t r[16] = {};
  for (int i = 0; i < 8; i++) {
    uint64_t carry = 0;
    for (int j = 0; j < 8; j++) {
      uint64_t t = uint64_t(a[thread * 8 + i]) * b[thread * 8 + j] + r[i + j] + carry;
      r[i + j] = uint32_t(t), carry = t >> 32;
    }
    r[i + 8] = uint32_t(carry);
  }
  uint32_t low, middle, high;
  asm("add.cc.u32 %0, %3, %6; addc.cc.u32 %1, %4, %7; addc.u32 %2, %5, %8;"
      : "=r"(low), "=r"(middle), "=r"(high)
      : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[8]), "r"(r[9]), "r"(r[10]));
  asm("mad.lo.cc.u32 %0, %3, %4, %0; madc.hi.cc.u32 %1, %3, %4, %1; subc.u32 %2, %2, %3;" : "+r"(low), "+r"(middle), "+r"(high) : "r"(r[5]), "r"(r[6]));
  for (int i = 0; i < 16; i++) products[thread * 16 + i] = r[i] ^ (i % 3 == 0 ? low : i % 3 == 1 ? middle : high);
  uint64_t n = uint64_t(r[3]) << 32 | r[2], d = uint64_t(r[12]) << 16 | 1;
  quotients[4 * thread] = n / d, quotients[4 * thread + 1] = n % d;
  quotients[4 * thread + 2] = int64_t(n) / int64_t(d), quotients[4 * thread + 3] = __umul64hi(n, d) ^ __mul64hi(n, d);
}

// Bit operations of the hardware: prmt, lop3, bfe, bfi, brev, clz, fns, funnel shifts, sad, dp4a, dp2a, packed minima and maxima.
extern "C" __global__ void bit_operations(const uint32_t *a, const uint32_t *b, const uint32_t *c, uint32_t *y, int n) {
  int i = blockIdx.x * THREADS + threadIdx.x;
  uint32_t p = a[i], q = b[i], r = c[i], v;
  y[0 * n + i] = __byte_perm(p, q, r);
  asm("lop3.b32 %0, %1, %2, %3, 0xD6;" : "=r"(v) : "r"(p), "r"(q), "r"(r));
  y[1 * n + i] = v;
  asm("bfe.u32 %0, %1, %2, %3;" : "=r"(v) : "r"(p), "r"(q % 40), "r"(r % 40));
  y[2 * n + i] = v;
  asm("bfe.s32 %0, %1, %2, %3;" : "=r"(v) : "r"(p), "r"(q), "r"(r));
  y[3 * n + i] = v;
  asm("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(v) : "r"(p), "r"(q), "r"(r % 40), "r"(p % 33));
  y[4 * n + i] = v;
  y[5 * n + i] = __brev(p) ^ __clz(q) ^ __popc(r);
  y[6 * n + i] = __fns(p, q % 32, int(r % 9) - 4);
  y[7 * n + i] = __funnelshift_l(p, q, r) ^ __funnelshift_rc(p, q, r % 40);
  y[8 * n + i] = __sad(int(p), int(q), r) + __usad(p, q, r);
  y[9 * n + i] = __dp4a(int(p), int(q), int(r)) ^ __dp4a(p, q, r) ^ __dp2a_lo(int(p), int(q), int(r)) ^ __dp2a_hi(p, q, r);
  y[10 * n + i] = __viaddmax_s32_relu(int(p), int(q), int(r)) ^ __vimin3_u32(p, q, r) ^ __vimax3_s16x2(p, q, r) ^ __viaddmin_u16x2(p, q, r);
  y[11 * n + i] = __vaddss4(p, q) ^ __vavgs2(q, r) ^ __vcmpgts2(p, q) ^ __vsubus4(r, q);
  y[12 * n + i] = __mulhi(int(p), int(q)) ^ __umulhi(q, r) ^ __mul24(int(p), int(r)) ^ __hadd(int(p), int(q)) ^ __urhadd(q, r);
  y[13 * n + i] = (p / (q | 1)) ^ (int(p) % int(r | 1)) ^ (int(q) >> (r & 31)) ^ (p << (q & 31));
}

// Warp operations: votes, shuffles with widths and masks, reductions, elections, within warps that diverge.
extern "C" __global__ void warp_operations(const int *x, int *y, int n) {
  int i = blockIdx.x * THREADS + threadIdx.x, lane = threadIdx.x % 32, v = x[i];
  y[0 * n + i] = __ballot_sync(~0u, v & 1) ^ __all_sync(~0u, v > -1000000) ^ __any_sync(~0u, v == 7) << 3;
  y[1 * n + i] = __shfl_sync(~0u, v, v, 8) ^ __shfl_up_sync(~0u, v, 3, 16) ^ __shfl_down_sync(~0u, v, 5, 4) ^ __shfl_xor_sync(~0u, v, 9);
  y[2 * n + i] = __reduce_add_sync(~0u, v) ^ __reduce_min_sync(~0u, v) ^ __reduce_max_sync(~0u, unsigned(v)) ^ __reduce_xor_sync(~0u, unsigned(v));
  int result = 0;
  if (v & 2) {
    unsigned mask = __activemask();
    result = __reduce_add_sync(mask, v) ^ __reduce_and_sync(mask, unsigned(v)) ^ __popc(mask);
    if (lane & 4) result += __shfl_sync(__activemask(), v, __ffs(__activemask()) - 1);
  } else {
    for (int k = 0; k < (v & 7); k++) result = result * 31 + __popc(__activemask());
  }
  __syncwarp();
  y[3 * n + i] = result;
  int all;
  y[4 * n + i] = __match_any_sync(~0u, v & 3) ^ __match_all_sync(~0u, v & 0, &all) ^ all;
  int leader;
  asm volatile("{.reg .pred p; elect.sync _|p, -1; selp.b32 %0, 1, 0, p;}" : "=r"(leader));
  y[5 * n + i] = __syncthreads_count(v & 1) + 1000 * __syncthreads_or(v == 5) + 100 * __syncthreads_and(v != 12345) + __reduce_add_sync(~0u, leader);
}
