// Factorisations and transforms, one warp or CTA for each.
#pragma once

// LU decomposition with partial pivoting of f64 matrices of 32, one warp each; Cholesky in f32.
extern "C" __global__ void lu_decomposition(double *matrices, int *pivots) {
  __shared__ double a[32][33];
  int lane = threadIdx.x;
  for (int r = 0; r < 32; r++) a[r][lane] = matrices[(blockIdx.x * 32 + r) * 32 + lane];
  __syncwarp();
  for (int k = 0; k < 32; k++) {
    int best = k;
    for (int r = k + 1; r < 32; r++)
      if (fabs(a[r][k]) > fabs(a[best][k])) best = r;
    __syncwarp();
    double here = a[k][lane], there = a[best][lane];
    __syncwarp();
    a[k][lane] = there, a[best][lane] = best == k ? there : here;
    if (lane == 0) pivots[blockIdx.x * 32 + k] = best;
    __syncwarp();
    double factor = lane > k ? a[lane][k] / a[k][k] : 0;
    __syncwarp();
    if (lane > k) {
      a[lane][k] = factor;
      for (int c = k + 1; c < 32; c++) a[lane][c] = fma(-factor, a[k][c], a[lane][c]);
    }
    __syncwarp();
  }
  for (int r = 0; r < 32; r++) matrices[(blockIdx.x * 32 + r) * 32 + lane] = a[r][lane];
}
extern "C" __global__ void cholesky(float *matrices) {
  __shared__ float a[32][33];
  int lane = threadIdx.x;
  for (int r = 0; r < 32; r++) a[r][lane] = matrices[(blockIdx.x * 32 + r) * 32 + lane];
  __syncwarp();
  for (int k = 0; k < 32; k++) {
    float root = sqrtf(a[k][k]), factor = lane > k ? a[lane][k] / root : 0;
    __syncwarp();
    a[lane][k] = lane == k ? root : factor;
    __syncwarp();
    if (lane > k)
      for (int c = k + 1; c <= lane; c++) a[lane][c] = fmaf(-a[lane][k], a[c][k], a[lane][c]);
    __syncwarp();
  }
  for (int r = 0; r < 32; r++) matrices[(blockIdx.x * 32 + r) * 32 + lane] = a[r][lane];
}

// A fast Fourier transform of 256 complex numbers with a table of twiddle factors; and a Walsh-Hadamard transform.
extern "C" __global__ void fourier(const float2 *x, const float2 *twiddle, float2 *y) {
  __shared__ float2 data[2 * THREADS];
  for (int i = threadIdx.x; i < 2 * THREADS; i += THREADS) data[__brev(i) >> 24] = x[blockIdx.x * 2 * THREADS + i];
  for (int half = 1; half < 2 * THREADS; half *= 2) {
    __syncthreads();
    int k = threadIdx.x % half, i = 2 * threadIdx.x - k, j = i + half;
    float2 w = twiddle[k * (THREADS / half)], a = data[i], b = data[j];
    float2 t = make_float2(fmaf(b.x, w.x, -(b.y * w.y)), fmaf(b.x, w.y, b.y * w.x));
    data[i] = make_float2(a.x + t.x, a.y + t.y), data[j] = make_float2(a.x - t.x, a.y - t.y);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 2 * THREADS; i += THREADS) y[blockIdx.x * 2 * THREADS + i] = data[i];
}
extern "C" __global__ void hadamard(const float *x, float *y) {
  __shared__ float data[8 * THREADS];
  float v[8];
  for (int i = 0; i < 8; i++) v[i] = x[blockIdx.x * 8 * THREADS + 8 * threadIdx.x + i];
  for (int half = 1; half < 8; half *= 2)
    for (int i = 0; i < 8; i++)
      if (!(i & half)) {
        float a = v[i], b = v[i + half];
        v[i] = a + b, v[i + half] = a - b;
      }
  for (int lanes = 1; lanes < 32; lanes *= 2)
    for (int i = 0; i < 8; i++) {
      float other = __shfl_xor_sync(~0u, v[i], lanes);
      v[i] = threadIdx.x & lanes ? other - v[i] : v[i] + other;
    }
  for (int i = 0; i < 8; i++) data[8 * threadIdx.x + i] = v[i];
  for (int half = 256; half < 8 * THREADS; half *= 2) {
    __syncthreads();
    for (int t = threadIdx.x; t < 4 * THREADS; t += THREADS) {
      int i = 2 * t - t % half;
      float a = data[i], b = data[i + half];
      data[i] = a + b, data[i + half] = a - b;
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 8 * THREADS; i += THREADS) y[blockIdx.x * 8 * THREADS + i] = data[i] * 0.03125f;
}
