// Conversions between types.
#pragma once

// Conversions of f32 and f64 to and from all types, with rounding modes and saturation: a row of y for each.
extern "C" __global__ void conversions(const float *x, const double *d, uint32_t *y, int n) {
  int i = blockIdx.x * THREADS + threadIdx.x;
  float v = x[i];
  double w = d[i];
#define CVT(ROW, TEXT, OUT, IN, FROM) \
  {                                   \
    asm(TEXT : OUT(r) : IN(FROM));    \
    y[ROW * n + i] = r;               \
  }
  uint32_t r;
  unsigned short h;
  unsigned long long l;
  CVT(0, "cvt.rni.s32.f32 %0, %1;", "=r", "f", v)
  CVT(1, "cvt.rzi.u32.f32 %0, %1;", "=r", "f", v)
  CVT(2, "cvt.rmi.sat.s8.f32 %0, %1;", "=r", "f", v)
  CVT(3, "cvt.rpi.ftz.s32.f32 %0, %1;", "=r", "f", v)
  CVT(4, "cvt.rn.bf16x2.f32 %0, %1, %1;", "=r", "f", v)
  CVT(5, "cvt.rz.relu.f16x2.f32 %0, %1, %1;", "=r", "f", v)
  CVT(6, "cvt.rna.tf32.f32 %0, %1;", "=r", "f", v)
  CVT(7, "cvt.rn.f32.f64 %0, %1;", "=r", "d", w)
  CVT(8, "cvt.rm.f32.f64 %0, %1;", "=r", "d", w)
  CVT(9, "cvt.rpi.s32.f64 %0, %1;", "=r", "d", w)
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %1;" : "=h"(h) : "f"(v));
  y[10 * n + i] = h;
  asm("cvt.rn.satfinite.relu.e5m2x2.f32 %0, %1, %1;" : "=h"(h) : "f"(v));
  y[11 * n + i] = h;
  asm("cvt.rn.f16.f64 %0, %1;" : "=h"(h) : "d"(w));
  y[12 * n + i] = h;
  asm("cvt.rzi.s64.f64 %0, %1;" : "=l"(l) : "d"(w));
  y[13 * n + i] = uint32_t(l) ^ uint32_t(l >> 32) * 31;
  asm("cvt.rni.u64.f32 %0, %1;" : "=l"(l) : "f"(v));
  y[14 * n + i] = uint32_t(l) ^ uint32_t(l >> 32) * 31;
  y[15 * n + i] = __float_as_uint(__ll2float_rd(int64_t(l))) ^ __float_as_uint(__uint2float_ru(__float_as_uint(v)));
  y[16 * n + i] = __float_as_uint(__fadd_rz(v, 1.1f)) ^ __float_as_uint(__fmul_ru(v, 1.1f)) * 3 ^ __float_as_uint(__fmaf_rd(v, v, 1.1f)) * 5;
  y[17 * n + i] = __float_as_uint(__fdiv_ru(v, 3.3f)) ^ __float_as_uint(__fsqrt_rd(fabsf(v))) * 3 ^ __float_as_uint(__frcp_rz(v)) * 5;
  y[18 * n + i] = __double2hiint(__ddiv_rn(w, 3.3)) ^ __double2loint(__dsqrt_ru(fabs(w))) ^ __double2hiint(__drcp_rd(w));
}
