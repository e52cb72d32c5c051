// Rotary embedding, dropout, random numbers.
#pragma once

// Rotary embedding: sine and cosine of positions of any size, with the reduction of large arguments. Halves and pairs.
extern "C" __global__ void rotary(const float *x, const float *frequencies, float *halves, float *pairs, int heads, int size, float first) {
  int position = blockIdx.x, half = size / 2;
  for (int i = threadIdx.x; i < heads * half; i += THREADS) {
    int head = i / half, j = i % half;
    float s, c;
    sincosf((first + position) * frequencies[j], &s, &c);
    const float *in = x + (position * heads + head) * size;
    int at = (position * heads + head) * size;
    halves[at + j] = in[j] * c - in[j + half] * s;
    halves[at + j + half] = fmaf(in[j + half], c, in[j] * s);
    pairs[at + 2 * j] = in[2 * j] * c - in[2 * j + 1] * s;
    pairs[at + 2 * j + 1] = fmaf(in[2 * j + 1], c, in[2 * j] * s);
  }
}
extern "C" __global__ void rotary_fast(const __half2 *x, __half2 *y, int heads, int half, float base) {
  int position = blockIdx.x;
  for (int i = threadIdx.x; i < heads * half; i += THREADS) {
    int at = position * heads * half + i, j = i % half;
    float angle = position * __powf(base, -float(j) / half), s, c;
    __sincosf(angle, &s, &c);
    float2 v = __half22float2(x[at]);
    y[at] = __floats2half2_rn(v.x * c - v.y * s, v.x * s + v.y * c);
  }
}

// Dropout with Philox 4x32-10: four elements for each counter; the mask is stored as bits.
extern "C" __global__ void dropout(const __nv_bfloat16 *x, __nv_bfloat16 *y, uint32_t *mask, int n, float keep, uint32_t seed, uint32_t offset) {
  int thread = blockIdx.x * THREADS + threadIdx.x;
  uint4 r = Philox{seed, 0x1234567u}(make_uint4(thread, offset, 0, 0));
  uint32_t words[4] = {r.x, r.y, r.z, r.w};
  for (int i = 0; i < 4; i++) {
    int at = 4 * thread + i;
    bool kept = at < n && float(words[i] >> 8) * 0x1p-24f < keep;
    uint32_t bits = __ballot_sync(~0u, kept);
    if (threadIdx.x % 32 == 0) mask[(thread / 32) * 4 + i] = bits;
    if (at < n) y[at] = kept ? __float2bfloat16_rn(__bfloat162float(x[at]) / keep) : __float2bfloat16_rn(0.f);
  }
}
// Normal numbers by Box and Muller from Philox, with the accurate functions; and exponential numbers with the fast logarithm.
extern "C" __global__ void random_normal(float *normal, float *exponential, uint32_t seed) {
  int thread = blockIdx.x * THREADS + threadIdx.x;
  uint4 r = Philox{seed, seed ^ 0xABCDEFu}(make_uint4(thread, 1, 2, 3));
  float u = fmaf(float(r.x), 0x1p-32f, 0x1p-33f), v = fmaf(float(r.y), 0x1p-32f, 0x1p-33f), s, c;
  sincospif(2 * v, &s, &c);
  float radius = sqrtf(-2 * logf(u));
  normal[2 * thread] = radius * s;
  normal[2 * thread + 1] = radius * c;
  exponential[thread] = -__logf(fmaf(float(r.z), 0x1p-32f, 0x1p-33f));
}
