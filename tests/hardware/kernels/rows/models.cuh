// Quantisation, a step of an optimiser, attention to pages, recurrences.
#pragma once

// Quantisation of blocks of 32 to e4m3 and e5m2 with a scale each, and back.
extern "C" __global__ void quantise(const float *x, uint8_t *e4m3, uint8_t *e5m2, float *scales, float *back) {
  int i = blockIdx.x * THREADS + threadIdx.x;
  float v = x[i], most = fabsf(v);
  for (int step = 16; step; step /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
  float scale = most > 0 ? most / 448.f : 1.f;
  if (threadIdx.x % 32 == 0) scales[i / 32] = scale;
  __nv_fp8_e4m3 a(v / scale);
  __nv_fp8_e5m2 b(v / scale);
  e4m3[i] = a.__x, e5m2[i] = b.__x;
  back[i] = fmaf(float(a), scale, float(b));
}

// A matrix of 4-bit weights with a scale for each 32, times a vector of f16: a warp for each row.
extern "C" __global__ void int4_vector(const uint32_t *weights, const __half *scales, const __half *x, float *y, int columns) {
  int row = blockIdx.x * (THREADS / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  float sum = 0;
  for (int word = lane; word < columns / 8; word += 32) {
    uint32_t w = weights[row * (columns / 8) + word];
    float scale = __half2float(scales[row * (columns / 32) + word / 4]);
    for (int i = 0; i < 8; i++) sum = fmaf(float(int(w << (28 - 4 * i)) >> 28) * scale, __half2float(x[8 * word + i]), sum);
  }
  for (int step = 16; step; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
  if (lane == 0) y[row] = sum;
}

// A step of Adam with weight decay; bf16 parameters are rounded stochastically with Philox.
extern "C" __global__ void adam(float *m, float *v, const float *gradient, __nv_bfloat16 *parameters, float rate, float beta1, float beta2, float epsilon,
                                int step, uint32_t seed) {
  int i = blockIdx.x * THREADS + threadIdx.x;
  float g = gradient[i], p = __bfloat162float(parameters[i]);
  m[i] = fmaf(beta1, m[i], (1 - beta1) * g);
  v[i] = fmaf(beta2, v[i], (1 - beta2) * g * g);
  float c1 = 1, c2 = 1;
  for (int s = 0; s < step; s++) c1 *= beta1, c2 *= beta2;
  p -= rate * (m[i] / (1 - c1) / (sqrtf(v[i] / (1 - c2)) + epsilon) + 0.01f * p);
  uint32_t noise = Philox{seed, 7}(make_uint4(i, step, 0, 0)).x & 0xFFFF, bits = __float_as_uint(p);
  parameters[i] = __ushort_as_bfloat16((unsigned short)((isfinite(p) ? bits + noise : bits) >> 16));
}

// One token attends to a cache in pages: a warp for each head, keys in turn; by the exact exponential of the library.
extern "C" __global__ void paged_decode(const float *q, const float *keys, const float *values, const int *pages, float *out, int length) {
  int head = blockIdx.x, lane = threadIdx.x;
  float2 query = reinterpret_cast<const float2 *>(q)[head * 32 + lane], sum = {0, 0};
  float top = -INFINITY, total = 0;
  for (int i = 0; i < length; i++) {
    size_t at = (size_t(pages[i / 8]) * 8 + i % 8) * 32 + lane;
    float2 k = reinterpret_cast<const float2 *>(keys)[at], v = reinterpret_cast<const float2 *>(values)[at];
    float score = fmaf(query.x, k.x, query.y * k.y);
    for (int step = 16; step; step /= 2) score += __shfl_xor_sync(~0u, score, step);
    float more = fmaxf(top, score), less = exp2f(top - more), weight = exp2f(score - more);
    total = fmaf(total, less, weight);
    sum.x = fmaf(sum.x, less, weight * v.x);
    sum.y = fmaf(sum.y, less, weight * v.y);
    top = more;
  }
  reinterpret_cast<float2 *>(out)[head * 32 + lane] = make_float2(sum.x / total, sum.y / total);
}

// A selective scan: h = exp(d a) h + d b x along time, a state of 16 for each channel; y is the sum with c.
extern "C" __global__ void selective_scan(const float *x, const float *d, const float *a, const float *b, const float *c, float *y, int length, int channels) {
  int channel = blockIdx.x * (THREADS / 16) + threadIdx.x / 16, state = threadIdx.x % 16;
  float h = 0, rate = a[channel * 16 + state];
  for (int t = 0; t < length; t++) {
    float step = d[t * channels + channel];
    h = fmaf(exp2f(step * rate), h, step * b[t * 16 + state] * x[t * channels + channel]);
    float part = h * c[t * 16 + state];
    for (int s = 8; s; s /= 2) part += __shfl_xor_sync(~0u, part, s, 16);
    if (state == 0) y[t * channels + channel] = part;
  }
}

// An exponential moving average as a scan over pairs (decay, value): warps in shared memory, exact operations only.
extern "C" __global__ void linear_recurrence(const float *decay, const float *x, float *y, int length) {
  __shared__ float2 warps[THREADS / 32];
  decay += blockIdx.x * length, x += blockIdx.x * length, y += blockIdx.x * length;
  float carried = 0;
  for (int base = 0; base < length; base += THREADS) {
    int i = base + threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float2 v = i < length ? make_float2(decay[i], x[i]) : make_float2(1, 0);
    for (int step = 1; step < 32; step *= 2) {
      float f = __shfl_up_sync(~0u, v.x, step), g = __shfl_up_sync(~0u, v.y, step);
      if (lane >= step) v = make_float2(f * v.x, fmaf(v.x, g, v.y));
    }
    __syncthreads();
    if (lane == 31) warps[warp] = v;
    __syncthreads();
    float before = carried;
    for (int w = 0; w < warp; w++) before = fmaf(warps[w].x, before, warps[w].y);
    float result = fmaf(v.x, before, v.y);
    if (i < length) y[i] = result;
    for (int w = 0; w < THREADS / 32; w++) carried = fmaf(warps[w].x, carried, warps[w].y);
  }
}
