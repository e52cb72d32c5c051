// Sorting, selection, scans, reductions, counts.
#pragma once

// A bitonic sort of 256 floats with their places, in shared memory.
extern "C" __global__ void bitonic_sort(const float *x, float *y, int *places) {
  __shared__ uint64_t keys[2 * THREADS];
  for (int i = threadIdx.x; i < 2 * THREADS; i += THREADS) keys[i] = uint64_t(sortable(x[blockIdx.x * 2 * THREADS + i])) << 32 | i;
  for (int size = 2; size <= 2 * THREADS; size *= 2)
    for (int step = size / 2; step; step /= 2) {
      __syncthreads();
      int i = 2 * threadIdx.x - (threadIdx.x & (step - 1)), j = i + step;
      uint64_t a = keys[i], b = keys[j];
      if ((a > b) == ((i & size) == 0)) keys[i] = b, keys[j] = a;
    }
  __syncthreads();
  for (int i = threadIdx.x; i < 2 * THREADS; i += THREADS) {
    int place = int(uint32_t(keys[i]));
    places[blockIdx.x * 2 * THREADS + i] = place;
    y[blockIdx.x * 2 * THREADS + i] = x[blockIdx.x * 2 * THREADS + place];
  }
}

// Batcher's odd-even merge sort of 32 integers in each warp, with shuffles.
extern "C" __global__ void merge_sort_warp(const int *x, int *y) {
  int i = blockIdx.x * THREADS + threadIdx.x, lane = threadIdx.x % 32, key = x[i];
  for (int p = 1; p < 32; p *= 2)
    for (int k = p; k; k /= 2) {
      int j = k % p, from = lane - j, block = from >= 0 ? from / k : -1;
      bool low = block >= 0 && block % 2 == 0 && lane + k < 32 && lane / (2 * p) == (lane + k) / (2 * p);
      int back = lane - k, from_back = back - j;
      bool high = back >= 0 && from_back >= 0 && from_back / k % 2 == 0 && back / (2 * p) == lane / (2 * p);
      int up = __shfl_down_sync(~0u, key, k), down = __shfl_up_sync(~0u, key, k);
      if (low)
        key = min(key, up);
      else if (high)
        key = max(key, down);
    }
  y[i] = key;
}

// A stable radix sort of 512 words by four bits at a time: ranks within warps by match, offsets by a scan over warps and digits.
extern "C" __global__ void radix_sort(const uint32_t *x, uint32_t *y) {
  __shared__ uint32_t keys[2][4 * THREADS], counts[16][4][4];
  for (int i = threadIdx.x; i < 4 * THREADS; i += THREADS) keys[0][i] = x[blockIdx.x * 4 * THREADS + i];
  __syncthreads();
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, turn = 0;
  for (int shift = 0; shift < 32; shift += 4, turn ^= 1) {
    for (int i = threadIdx.x; i < 256; i += THREADS) (&counts[0][0][0])[i] = 0;
    __syncthreads();
    uint32_t key[4], rank[4];
    for (int part = 0; part < 4; part++) {
      key[part] = keys[turn][part * THREADS + threadIdx.x];
      uint32_t digit = key[part] >> shift & 15, same = __match_any_sync(~0u, digit);
      rank[part] = __popc(same & ((1u << lane) - 1));
      if (rank[part] == 0) counts[digit][part][warp] = __popc(same);
    }
    __syncthreads();
    if (warp == 0) {
      uint32_t *all = &counts[0][0][0], mine[8], sum = 0;
      for (int i = 0; i < 8; i++) mine[i] = sum, sum += all[8 * lane + i];
      uint32_t before = sum;
      for (int step = 1; step < 32; step *= 2) {
        uint32_t other = __shfl_up_sync(~0u, before, step);
        if (lane >= step) before += other;
      }
      for (int i = 0; i < 8; i++) all[8 * lane + i] = before - sum + mine[i];
    }
    __syncthreads();
    for (int part = 0; part < 4; part++) keys[turn ^ 1][counts[key[part] >> shift & 15][part][warp] + rank[part]] = key[part];
    __syncthreads();
  }
  for (int i = threadIdx.x; i < 4 * THREADS; i += THREADS) y[blockIdx.x * 4 * THREADS + i] = keys[turn][i];
}

// The largest eight of each row, with places: each thread keeps a sorted list, lists are merged in a tree.
extern "C" __global__ void top_k(const float *x, float *values, int *places, int columns) {
  __shared__ uint64_t lists[THREADS][8];
  uint64_t list[8];
  for (uint64_t &entry : list) entry = 0;
  for (int i = threadIdx.x; i < columns; i += THREADS) {
    uint64_t key = uint64_t(sortable(x[blockIdx.x * columns + i])) << 32 | uint32_t(~i);
    for (int j = 0; j < 8; j++)
      if (key > list[j]) {
        uint64_t other = list[j];
        list[j] = key, key = other;
      }
  }
  for (int j = 0; j < 8; j++) lists[threadIdx.x][j] = list[j];
  for (int step = THREADS / 2; step; step /= 2) {
    __syncthreads();
    if (threadIdx.x < step) {
      int a = 0, b = 0;
      for (int j = 0; j < 8; j++) {
        uint64_t p = lists[threadIdx.x][a], q = lists[threadIdx.x + step][b];
        list[j] = p > q ? p : q;
        p > q ? a++ : b++;
      }
      for (int j = 0; j < 8; j++) lists[threadIdx.x][j] = list[j];
    }
  }
  __syncthreads();
  if (threadIdx.x < 8) {
    int place = ~int(uint32_t(lists[0][threadIdx.x]));
    places[blockIdx.x * 8 + threadIdx.x] = place;
    values[blockIdx.x * 8 + threadIdx.x] = x[blockIdx.x * columns + place];
  }
}

// A scan over all CTAs in one pass: each publishes its total and, once it knows it, the sum up to its end ("decoupled look-back").
extern "C" __global__ void scan_look_back(const uint32_t *x, uint32_t *y, uint64_t *states, uint32_t *ticket) {
  __shared__ uint32_t warps[THREADS / 32], before, number;
  if (threadIdx.x == 0) number = atomicAdd(ticket, 1);
  __syncthreads();
  int tile = number, i = tile * THREADS + threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  uint32_t v = x[i];
  for (int step = 1; step < 32; step *= 2) {
    uint32_t other = __shfl_up_sync(~0u, v, step);
    if (lane >= step) v += other;
  }
  if (lane == 31) warps[warp] = v;
  __syncthreads();
  for (int w = 0; w < warp; w++) v += warps[w];
  if (threadIdx.x == THREADS - 1) {
    auto publish = [&](uint64_t state) { asm volatile("st.release.gpu.global.b64 [%0], %1;" ::"l"(states + tile), "l"(state) : "memory"); };
    uint32_t sum = 0;
    publish(uint64_t(tile ? 1 : 2) << 32 | v);
    for (int other = tile - 1; other >= 0;) {
      uint64_t state;
      asm volatile("ld.acquire.gpu.global.b64 %0, [%1];" : "=l"(state) : "l"(states + other) : "memory");
      if (state >> 32 == 0) {
        __nanosleep(100);
        continue;
      }
      sum += uint32_t(state);
      if (state >> 32 == 2) break;
      other--;
    }
    if (tile) publish(uint64_t(2) << 32 | uint32_t(sum + v));
    before = sum;
  }
  __syncthreads();
  y[i] = v + before;
}

// Sums of segments that flags begin, by a scan of pairs; in f32, in a fixed tree.
extern "C" __global__ void scan_segments(const float *x, const uint8_t *flags, float *y) {
  __shared__ float values[2][2 * THREADS];
  __shared__ uint8_t heads[2][2 * THREADS];
  int base = blockIdx.x * 2 * THREADS, turn = 0;
  for (int i = threadIdx.x; i < 2 * THREADS; i += THREADS) values[0][i] = x[base + i], heads[0][i] = flags[base + i];
  for (int step = 1; step < 2 * THREADS; step *= 2, turn ^= 1) {
    __syncthreads();
    for (int i = threadIdx.x; i < 2 * THREADS; i += THREADS) {
      bool join = i >= step && !heads[turn][i];
      values[turn ^ 1][i] = join ? __fadd_rn(values[turn][i - step], values[turn][i]) : values[turn][i];
      heads[turn ^ 1][i] = heads[turn][i] || (i >= step && heads[turn][i - step]) || i < step;
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 2 * THREADS; i += THREADS) y[base + i] = values[turn][i];
}

// Reductions of each row: sums with a correction of the rounding error, minimum and maximum with NaN, the place of the least, products in f64.
extern "C" __global__ void reductions(const float *x, float *sums, float *extremes, int *places, double *products, int columns) {
  __shared__ float scratch[4][THREADS];
  __shared__ uint64_t least[THREADS];
  __shared__ double product[THREADS];
  x += blockIdx.x * columns;
  float sum = 0, error = 0, low = INFINITY, high = -INFINITY;
  uint64_t place = ~0ull;
  double p = 1;
  for (int i = threadIdx.x; i < columns; i += THREADS) {
    float v = x[i], y = __fsub_rn(v, error), t = __fadd_rn(sum, y);
    error = __fsub_rn(__fsub_rn(t, sum), y);
    sum = t;
    asm("min.NaN.f32 %0, %0, %1;" : "+f"(low) : "f"(v));
    asm("max.NaN.f32 %0, %0, %1;" : "+f"(high) : "f"(v));
    uint64_t key = uint64_t(sortable(v)) << 32 | i;
    if (key < place) place = key;
    p *= v;
  }
  scratch[0][threadIdx.x] = sum, scratch[1][threadIdx.x] = low, scratch[2][threadIdx.x] = high;
  least[threadIdx.x] = place, product[threadIdx.x] = p;
  for (int step = THREADS / 2; step; step /= 2) {
    __syncthreads();
    if (threadIdx.x < step) {
      int other = threadIdx.x + step;
      scratch[0][threadIdx.x] = __fadd_rn(scratch[0][threadIdx.x], scratch[0][other]);
      asm("min.NaN.f32 %0, %1, %2;" : "=f"(scratch[1][threadIdx.x]) : "f"(scratch[1][threadIdx.x]), "f"(scratch[1][other]));
      asm("max.NaN.f32 %0, %1, %2;" : "=f"(scratch[2][threadIdx.x]) : "f"(scratch[2][threadIdx.x]), "f"(scratch[2][other]));
      if (least[other] < least[threadIdx.x]) least[threadIdx.x] = least[other];
      product[threadIdx.x] *= product[other];
    }
  }
  if (threadIdx.x == 0) {
    sums[blockIdx.x] = scratch[0][0], extremes[2 * blockIdx.x] = scratch[1][0], extremes[2 * blockIdx.x + 1] = scratch[2][0];
    places[blockIdx.x] = int(uint32_t(least[0])), products[blockIdx.x] = product[0];
  }
}

// Counts of bytes: increments are joined over the lanes that match, then added in shared and in global memory.
extern "C" __global__ void histogram(const uint8_t *x, uint32_t *counts, int n) {
  __shared__ uint32_t bins[256];
  for (int i = threadIdx.x; i < 256; i += THREADS) bins[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * THREADS + threadIdx.x; i < n; i += gridDim.x * THREADS) {
    uint32_t active = __activemask(), same = __match_any_sync(active, x[i]);
    if (__ffs(same) - 1 == threadIdx.x % 32) atomicAdd(&bins[x[i]], __popc(same));
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += THREADS)
    if (bins[i]) atomicAdd(&counts[i], bins[i]);
}
