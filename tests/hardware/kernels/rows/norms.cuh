// Softmax, losses and norms of rows.
#pragma once

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
