// Kernels of neural networks without tensor cores: softmax, norms, losses, rotary embedding, dropout, activations, quantisation, optimisers.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

namespace {

constexpr int THREADS = 128;

struct Philox {
  uint32_t key[2];
  __device__ uint4 operator()(uint4 c) const {
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
      uint32_t high0 = __umulhi(0xD2511F53u, c.x), low0 = 0xD2511F53u * c.x, high1 = __umulhi(0xCD9E8D57u, c.z), low1 = 0xCD9E8D57u * c.z;
      c = make_uint4(high1 ^ c.y ^ k0, low1, high0 ^ c.w ^ k1, low0);
      k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    return c;
  }
};

template <class Join> __device__ float over_block(float value, Join join, float *scratch) {
  for (int step = 16; step; step /= 2) value = join(value, __shfl_xor_sync(~0u, value, step));
  __syncthreads();
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
  value = scratch[0];
  for (int warp = 1; warp < THREADS / 32; warp++) value = join(value, scratch[warp]);
  return value;
}

struct Add {
  __device__ float operator()(float a, float b) const { return __fadd_rn(a, b); }
};
struct Max {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

}  // namespace

// Softmax in one pass over a row: each thread keeps a maximum and a sum that is rescaled.
extern "C" __global__ void softmax_online(const float *x, float *y, int columns) {
  __shared__ float scratch[THREADS / 32];
  x += blockIdx.x * columns, y += blockIdx.x * columns;
  float top = -INFINITY, sum = 0;
  for (int i = threadIdx.x; i < columns; i += THREADS) {
    float more = fmaxf(top, x[i]);
    sum = fmaf(sum, expf(top - more), expf(x[i] - more));
    top = more;
  }
  float all = over_block(top, Max(), scratch);
  sum = over_block(top == -INFINITY ? 0.f : sum * expf(top - all), Add(), scratch);
  for (int i = threadIdx.x; i < columns; i += THREADS) y[i] = expf(x[i] - all) / sum;
}

// The logarithm of softmax with the functions that are fast and approximate.
extern "C" __global__ void log_softmax_fast(const float *x, float *y, int columns) {
  __shared__ float scratch[THREADS / 32];
  x += blockIdx.x * columns, y += blockIdx.x * columns;
  float top = -INFINITY, sum = 0;
  for (int i = threadIdx.x; i < columns; i += THREADS) top = fmaxf(top, x[i]);
  top = over_block(top, Max(), scratch);
  for (int i = threadIdx.x; i < columns; i += THREADS) sum += __expf(x[i] - top);
  float log_sum = __logf(over_block(sum, Add(), scratch));
  for (int i = threadIdx.x; i < columns; i += THREADS) y[i] = x[i] - top - log_sum;
}

// Cross entropy and its gradient, with labels.
extern "C" __global__ void cross_entropy(const float *x, const int *labels, float *loss, float *gradient, int columns) {
  __shared__ float scratch[THREADS / 32];
  int row = blockIdx.x, label = labels[row];
  x += row * columns, gradient += row * columns;
  float top = -INFINITY, sum = 0;
  for (int i = threadIdx.x; i < columns; i += THREADS) top = fmaxf(top, x[i]);
  top = over_block(top, Max(), scratch);
  for (int i = threadIdx.x; i < columns; i += THREADS) sum += exp2f((x[i] - top) * 1.44269504f);
  sum = over_block(sum, Add(), scratch);
  if (threadIdx.x == 0) loss[row] = logf(sum) - (x[label] - top);
  for (int i = threadIdx.x; i < columns; i += THREADS) gradient[i] = exp2f((x[i] - top) * 1.44269504f) / sum - (i == label ? 1.f : 0.f);
}

// Layer normalisation by Welford's method; the statistics of threads are merged in a tree. Divisions and roots are rounded correctly.
extern "C" __global__ void layer_norm_welford(const __half *x, const float *weight, const float *bias, __half *y, float *mean_out, float *rstd_out,
                                              int columns, float epsilon) {
  __shared__ float means[THREADS], squares[THREADS], counts[THREADS];
  x += blockIdx.x * columns, y += blockIdx.x * columns;
  float mean = 0, square = 0, count = 0;
  for (int i = threadIdx.x; i < columns; i += THREADS) {
    float v = __half2float(x[i]), d = v - mean;
    count += 1;
    mean += d / count;
    square = fmaf(d, v - mean, square);
  }
  means[threadIdx.x] = mean, squares[threadIdx.x] = square, counts[threadIdx.x] = count;
  for (int step = THREADS / 2; step; step /= 2) {
    __syncthreads();
    if (threadIdx.x < step) {
      float n1 = counts[threadIdx.x], n2 = counts[threadIdx.x + step], d = means[threadIdx.x + step] - means[threadIdx.x], n = n1 + n2;
      if (n > 0) {
        means[threadIdx.x] += d * (n2 / n);
        squares[threadIdx.x] += squares[threadIdx.x + step] + d * d * (n1 * n2 / n);
        counts[threadIdx.x] = n;
      }
    }
  }
  __syncthreads();
  float rstd = 1.f / sqrtf(squares[0] / counts[0] + epsilon);
  for (int i = threadIdx.x; i < columns; i += THREADS)
    y[i] = __float2half_rn(fmaf((__half2float(x[i]) - means[0]) * rstd, weight[i], bias[i]));
  if (threadIdx.x == 0) mean_out[blockIdx.x] = means[0], rstd_out[blockIdx.x] = rstd;
}

// Layer normalisation backward: the gradient of the input, and of weight and bias by columns in order of the rows.
extern "C" __global__ void layer_norm_backward(const float *x, const float *dy, const float *weight, const float *mean, const float *rstd, float *dx,
                                               int columns) {
  __shared__ float scratch[THREADS / 32];
  int row = blockIdx.x;
  x += row * columns, dy += row * columns, dx += row * columns;
  float a = 0, b = 0, m = mean[row], r = rstd[row];
  for (int i = threadIdx.x; i < columns; i += THREADS) {
    float g = dy[i] * weight[i], h = (x[i] - m) * r;
    a = fmaf(g, h, a);
    b += g;
  }
  a = over_block(a, Add(), scratch) / columns;
  b = over_block(b, Add(), scratch) / columns;
  for (int i = threadIdx.x; i < columns; i += THREADS) dx[i] = (dy[i] * weight[i] - fmaf((x[i] - m) * r, a, b)) * r;
}
extern "C" __global__ void layer_norm_backward_columns(const float *x, const float *dy, const float *mean, const float *rstd, float *dw, float *db, int rows,
                                                       int columns) {
  int i = blockIdx.x * THREADS + threadIdx.x;
  if (i >= columns) return;
  float w = 0, b = 0;
  for (int row = 0; row < rows; row++) {
    float g = dy[row * columns + i];
    w = fmaf(g, (x[row * columns + i] - mean[row]) * rstd[row], w);
    b += g;
  }
  dw[i] = w, db[i] = b;
}

// Root mean square normalisation in bf16, two elements at a time, with rsqrt.approx.
extern "C" __global__ void rms_norm_fast(const __nv_bfloat162 *x, const __nv_bfloat162 *weight, __nv_bfloat162 *y, int pairs, float epsilon) {
  __shared__ float scratch[THREADS / 32];
  x += blockIdx.x * pairs, y += blockIdx.x * pairs;
  float sum = 0;
  for (int i = threadIdx.x; i < pairs; i += THREADS) {
    float2 v = __bfloat1622float2(x[i]);
    sum = fmaf(v.x, v.x, fmaf(v.y, v.y, sum));
  }
  float scale = rsqrtf(over_block(sum, Add(), scratch) / (2 * pairs) + epsilon);
  for (int i = threadIdx.x; i < pairs; i += THREADS) {
    float2 v = __bfloat1622float2(x[i]);
    y[i] = __hmul2(__floats2bfloat162_rn(v.x * scale, v.y * scale), weight[i]);
  }
}

// Group normalisation of NCHW images, with the sum and the sum of squares in f64.
extern "C" __global__ void group_norm(const float *x, const float *weight, float *y, int channels, int groups, int pixels, double epsilon) {
  __shared__ double sums[THREADS], squares[THREADS];
  int group = blockIdx.x % groups, each = channels / groups * pixels;
  size_t base = size_t(blockIdx.x) * each;
  double sum = 0, square = 0;
  for (int i = threadIdx.x; i < each; i += THREADS) {
    double v = x[base + i];
    sum += v, square = fma(v, v, square);
  }
  sums[threadIdx.x] = sum, squares[threadIdx.x] = square;
  for (int step = THREADS / 2; step; step /= 2) {
    __syncthreads();
    if (threadIdx.x < step) sums[threadIdx.x] += sums[threadIdx.x + step], squares[threadIdx.x] += squares[threadIdx.x + step];
  }
  __syncthreads();
  double mean = sums[0] / each, scale = 1 / sqrt(squares[0] / each - mean * mean + epsilon);
  for (int i = threadIdx.x; i < each; i += THREADS)
    y[base + i] = float((x[base + i] - mean) * scale) * weight[group * (channels / groups) + i / pixels];
}

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

// Activations by the accurate functions of the library; a row of y for each.
extern "C" __global__ void activations(const float *x, float *y, int n) {
  int i = blockIdx.x * THREADS + threadIdx.x;
  if (i >= n) return;
  float v = x[i];
  y[0 * n + i] = 0.5f * v * (1 + erff(v * 0.70710678f));
  y[1 * n + i] = v > 0 ? v : expm1f(v);
  y[2 * n + i] = log1pf(fabsf(v));
  y[3 * n + i] = atanf(v) + atan2f(v, 0.75f);
  y[4 * n + i] = cbrtf(v);
  y[5 * n + i] = erfcf(v) + erfcxf(fabsf(v));
  y[6 * n + i] = sinf(v);
  y[7 * n + i] = cosf(v);
  y[8 * n + i] = tanf(v);
  y[9 * n + i] = fmodf(v, 0.3f) + remainderf(v, 0.7f);
  y[10 * n + i] = ldexpf(v, 3) + nextafterf(v, 1.f) + roundf(v) + truncf(v) + floorf(v) + ceilf(v) + rintf(v);
  y[11 * n + i] = asinf(v) + acosf(v);
  y[12 * n + i] = hypotf(v, 1.5f) + rhypotf(v, 2.f) + norm3df(v, 1.f, 2.f);
  y[13 * n + i] = j0f(v) + y1f(fabsf(v) + 0.1f);
}
extern "C" __global__ void activations_fast(const float *x, float *y, int n) {
  int i = blockIdx.x * THREADS + threadIdx.x;
  if (i >= n) return;
  float v = x[i];
  y[0 * n + i] = v / (1 + __expf(-v));
  y[1 * n + i] = tanhf(v);
  y[2 * n + i] = expf(v);
  y[3 * n + i] = logf(fabsf(v)) + log2f(fabsf(v)) + log10f(fabsf(v));
  y[4 * n + i] = powf(fabsf(v), 1.7f);
  y[5 * n + i] = __fdividef(v, 3.14159f);
  y[6 * n + i] = sinhf(v) + coshf(v);
  y[7 * n + i] = lgammaf(v) + tgammaf(v);
  y[8 * n + i] = __sinf(v) + __cosf(v) + __tanf(v);
  y[9 * n + i] = asinhf(v) + acoshf(fabsf(v) + 1) + atanhf(v);
  y[10 * n + i] = exp10f(v) + normcdff(v);
  y[11 * n + i] = rcbrtf(v);
}
// Every approximate instruction; a row of y for each.
extern "C" __global__ void approximations(const float *x, const double *d, const uint32_t *h, float *y, double *z, uint32_t *w, int n) {
  int i = blockIdx.x * THREADS + threadIdx.x, row = 0;
  float v = x[i], u = x[(i + 1) % n], r;
#define F32(FORM)                                      \
  asm(FORM ".f32 %0, %1;" : "=f"(r) : "f"(v));         \
  y[row++ * n + i] = r;
  F32("ex2.approx") F32("ex2.approx.ftz") F32("lg2.approx") F32("lg2.approx.ftz") F32("rcp.approx") F32("rcp.approx.ftz")
  F32("rsqrt.approx") F32("rsqrt.approx.ftz") F32("sqrt.approx") F32("sqrt.approx.ftz") F32("sin.approx") F32("sin.approx.ftz")
  F32("cos.approx") F32("cos.approx.ftz") F32("tanh.approx")
#define DIVIDE(FORM)                                             \
  asm(FORM ".f32 %0, %1, %2;" : "=f"(r) : "f"(v), "f"(u));       \
  y[row++ * n + i] = r;
  DIVIDE("div.approx") DIVIDE("div.approx.ftz") DIVIDE("div.full") DIVIDE("div.full.ftz")
  asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(z[i]) : "d"(d[i]));
  asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(z[n + i]) : "d"(d[i]));
  asm("rsqrt.approx.f64 %0, %1;" : "=d"(z[2 * n + i]) : "d"(d[i]));
  asm("ex2.approx.f16x2 %0, %1;" : "=r"(w[i]) : "r"(h[i]));
  asm("tanh.approx.f16x2 %0, %1;" : "=r"(w[n + i]) : "r"(h[i]));
  asm("ex2.approx.ftz.bf16x2 %0, %1;" : "=r"(w[2 * n + i]) : "r"(h[i]));
  asm("tanh.approx.bf16x2 %0, %1;" : "=r"(w[3 * n + i]) : "r"(h[i]));
}
extern "C" __global__ void functions_double(const double *x, double *y, int n) {
  int i = blockIdx.x * THREADS + threadIdx.x;
  if (i >= n) return;
  double v = x[i];
  y[0 * n + i] = exp(v);
  y[1 * n + i] = log(fabs(v));
  y[2 * n + i] = sin(v);
  y[3 * n + i] = cos(v) + tan(v);
  y[4 * n + i] = sqrt(fabs(v)) + 1 / v;
  y[5 * n + i] = pow(fabs(v), 0.37);
  y[6 * n + i] = erf(v) + tanh(v);
  y[7 * n + i] = fmod(v, 0.3) + rint(v) + cbrt(v);
  y[8 * n + i] = atan2(v, 0.5) + hypot(v, 2.0);
  y[9 * n + i] = rsqrt(fabs(v));
}

// SwiGLU in half precision, forward and backward, with packed arithmetic.
extern "C" __global__ void swiglu(const __half2 *gate, const __half2 *up, const __half2 *dy, __half2 *y, __half2 *dgate, __half2 *dup, int pairs) {
  int i = blockIdx.x * THREADS + threadIdx.x;
  if (i >= pairs) return;
  __half2 one = __float2half2_rn(1.f), g = gate[i], u = up[i], d = dy[i];
  __half2 sigmoid = h2rcp(__hadd2(one, h2exp(__hneg2(g)))), swish = __hmul2(g, sigmoid);
  y[i] = __hmul2(swish, u);
  dup[i] = __hmul2(d, swish);
  dgate[i] = __hmul2(__hmul2(d, u), __hfma2(swish, __hsub2(one, sigmoid), sigmoid));
}

// Arithmetic in half precision and bf16 with subnormals, infinities and NaN: a row of y for each operation.
template <class Pair> __device__ void arithmetic(const Pair *a, const Pair *b, const Pair *c, Pair *y, int n) {
  int i = blockIdx.x * THREADS + threadIdx.x;
  if (i >= n) return;
  y[0 * n + i] = __hadd2(a[i], b[i]);
  y[1 * n + i] = __hsub2(a[i], b[i]);
  y[2 * n + i] = __hmul2(a[i], b[i]);
  y[3 * n + i] = __hfma2(a[i], b[i], c[i]);
  y[4 * n + i] = __hfma2_relu(a[i], b[i], c[i]);
  y[5 * n + i] = __hadd2_sat(a[i], b[i]);
  y[6 * n + i] = __hmul2_sat(a[i], b[i]);
  y[7 * n + i] = __hmax2(a[i], b[i]);
  y[8 * n + i] = __hmin2_nan(a[i], b[i]);
  y[9 * n + i] = __habs2(__hneg2(a[i]));
  y[10 * n + i] = __hlt2(a[i], b[i]);
  y[11 * n + i] = __hneu2(a[i], b[i]);
  y[12 * n + i] = __hge2(a[i], c[i]);
}
extern "C" __global__ void arithmetic_f16(const __half2 *a, const __half2 *b, const __half2 *c, __half2 *y, int n) { arithmetic(a, b, c, y, n); }
extern "C" __global__ void arithmetic_bf16(const __nv_bfloat162 *a, const __nv_bfloat162 *b, const __nv_bfloat162 *c, __nv_bfloat162 *y, int n) {
  arithmetic(a, b, c, y, n);
}

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
