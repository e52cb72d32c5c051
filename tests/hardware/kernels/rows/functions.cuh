// Activations, approximate instructions, functions of the library, packed arithmetic.
#pragma once

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
