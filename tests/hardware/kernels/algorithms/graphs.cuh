// Dynamic programming, graphs, sparse rows, an interpreter, an automaton.
#pragma once

// Local alignment of two sequences with affine gaps along anti-diagonals, with fused minima and maxima; the best score and its place.
extern "C" __global__ void alignment(const uint8_t *first, const uint8_t *second, int *scores, int *places, int length) {
  __shared__ int h[3][THREADS + 1], f[2][THREADS + 1];
  for (int i = threadIdx.x; i < 3 * (THREADS + 1); i += THREADS) (&h[0][0])[i] = 0;
  for (int i = threadIdx.x; i < 2 * (THREADS + 1); i += THREADS) (&f[0][0])[i] = -1000;
  int t = threadIdx.x, e = -1000, best = 0, at = 0;
  uint8_t mine = first[blockIdx.x * THREADS + t];
  for (int d = 0; d < length + THREADS - 1; d++) {
    __syncthreads();
    int column = d - t, now = d % 3, one = (d + 2) % 3, two = (d + 1) % 3;
    if (column >= 0 && column < length) {
      int left = column ? h[one][t + 1] : 0, above = h[one][t], corner = column ? h[two][t] : 0;
      e = __viaddmax_s32(left, -5, e - 2);
      int down = __viaddmax_s32(above, -5, f[(d + 1) % 2][t] - 2);
      int score = __vimax3_s32_relu(corner + (mine == second[blockIdx.x * length + column] ? 3 : -2), e, down);
      h[now][t + 1] = score, f[d % 2][t + 1] = down;
      if (score > best) best = score, at = column;
    }
  }
  unsigned key = unsigned(best) << 20 | unsigned(at) << 8 | t, most = __reduce_max_sync(~0u, key);
  if (t % 32 == 0) scores[blockIdx.x * 4 + t / 32] = most >> 20, places[blockIdx.x * 4 + t / 32] = most & 0xFFFFF;
}

// Distances between all nodes of a graph of 64, in turn through each node; widths in halves of words.
extern "C" __global__ void shortest_paths(const uint32_t *graph, uint32_t *distances) {
  __shared__ uint32_t d[64][33];
  for (int i = threadIdx.x; i < 64 * 32; i += THREADS) d[i / 32][i % 32] = graph[blockIdx.x * 64 * 32 + i];
  for (int k = 0; k < 64; k++) {
    __syncthreads();
    uint32_t fresh[16];
    for (int i = threadIdx.x, j = 0; i < 64 * 32; i += THREADS, j++) {
      uint32_t through = d[i / 32][k / 2] >> k % 2 * 16 & 0xFFFF;
      fresh[j] = __viaddmin_u16x2(__vminu2(d[k][i % 32], 0x7FFF7FFFu), through * 0x10001u, d[i / 32][i % 32]);
    }
    __syncthreads();
    for (int i = threadIdx.x, j = 0; i < 64 * 32; i += THREADS, j++) d[i / 32][i % 32] = fresh[j];
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 64 * 32; i += THREADS) distances[blockIdx.x * 64 * 32 + i] = d[i / 32][i % 32];
}

// Levels of a breadth-first search: frontiers in shared memory, with atomics whose order does not show.
extern "C" __global__ void breadth_first(const int *starts, const int *edges, int *levels, int nodes) {
  __shared__ int frontier[2][512], count[2];
  for (int i = threadIdx.x; i < nodes; i += THREADS) levels[i] = i == 0 ? 0 : -1;
  if (threadIdx.x == 0) frontier[0][0] = 0, count[0] = 1, count[1] = 0;
  __syncthreads();
  for (int level = 0; count[level & 1]; level++) {
    int now = level & 1;
    for (int i = threadIdx.x; i < count[now]; i += THREADS) {
      int node = frontier[now][i];
      for (int e = starts[node]; e < starts[node + 1]; e++)
        if (atomicCAS(&levels[edges[e]], -1, level + 1) == -1) frontier[now ^ 1][atomicAdd(&count[now ^ 1], 1)] = edges[e];
    }
    __syncthreads();
    if (threadIdx.x == 0) count[now] = 0;
    __syncthreads();
  }
}

// A sparse matrix in compressed rows times a vector: a warp for each row, rows of any length.
extern "C" __global__ void sparse_vector(const int *starts, const int *columns, const float *values, const float *x, float *y, int rows) {
  int row = blockIdx.x * (THREADS / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  float sum = 0;
  for (int i = starts[row] + lane; i < starts[row + 1]; i += 32) sum = fmaf(values[i], x[columns[i]], sum);
  for (int step = 16; step; step /= 2) sum = __fadd_rn(sum, __shfl_down_sync(~0u, sum, step));
  if (lane == 0) y[row] = sum;
}

// A small machine: a program for each thread, with a stack in local memory and functions by pointers.
__device__ __noinline__ int op_add(int a, int b) { return a + b; }
__device__ __noinline__ int op_mul(int a, int b) { return a * b + 1; }
__device__ __noinline__ int op_xor(int a, int b) { return a ^ b << 1; }
__device__ __noinline__ int op_fold(int a, int b) {
  for (; b; b = (a ^ b) >> 8 & 0xFFFFFF) a = (b & 0xFF) + 1;
  return a;
}
typedef int (*Operation)(int, int);
__device__ Operation OPERATIONS[4] = {op_add, op_mul, op_xor, op_fold};
extern "C" __global__ void interpreter(const uint8_t *programs, int *results, int length) {
  int thread = blockIdx.x * THREADS + threadIdx.x, stack[16], top = 0;
  for (int i = 0; i < 16; i++) stack[i] = i * thread;
  for (int i = 0; i < length; i++) {
    uint8_t code = programs[thread * length + i];
    if (code < 128) {
      stack[top & 15] = code, top++;
    } else {
      int a = stack[(top - 1) & 15], b = stack[(top - 2) & 15];
      top--;
      stack[(top - 1) & 15] = OPERATIONS[code & 3](a, b);
    }
  }
  int hash = top;
  for (int i = 0; i < 16; i++) hash = hash * 31 + stack[i];
  results[thread] = hash;
}

// A barrier over the grid by atomics, between steps of a cellular automaton on words; generations alternate between two arrays.
extern "C" __global__ void automaton(uint32_t *cells, uint32_t *arrived, int steps) {
  int n = gridDim.x * THREADS, i = blockIdx.x * THREADS + threadIdx.x;
  for (int step = 0; step < steps; step++) {
    const uint32_t *from = cells + (step & 1) * n;
    uint32_t *to = cells + (~step & 1) * n;
    uint32_t left = from[(i + n - 1) % n], here = from[i], right = from[(i + 1) % n];
    to[i] = __funnelshift_l(left, here, 1) ^ (here | __funnelshift_r(here, right, 1));
    __syncthreads();
    if (threadIdx.x == 0) {
      uint32_t seen;
      asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(arrived) : "memory");
      for (;;) {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(arrived) : "memory");
        if (seen >= (step + 1) * gridDim.x) break;
        __nanosleep(100);
      }
    }
    __syncthreads();
  }
}
