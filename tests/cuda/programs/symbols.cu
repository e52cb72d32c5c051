// Constants, device and managed variables, templates, properties of the device and of kernels, printf.
#include <cstring>
#include <vector>

#include "check.h"

__constant__ float weights[4];
__device__ int counter = 40;
__managed__ int total = 2;

struct Pair {
  int key;
  double value;
};

template <class T, int Scale>
__global__ void accumulate(T *out, Pair pair, int n) {
  __shared__ T partial[64];
  int i = threadIdx.x;
  partial[i] = i < n ? T(weights[i % 4] * Scale) : T(0);
  __syncthreads();
  if (i == 0) {
    T sum = T(pair.value) + T(pair.key);
    for (int j = 0; j < 64; j++) sum += partial[j];
    *out = sum;
    atomicAdd(&counter, 2);
    atomicAdd(&total, 1);
    printf("kernel: scale %d sum %d\n", Scale, int(sum));
  }
}

template <class T, int Scale>
static T run(int n) {
  T *out, got;
  CUDA(cudaMalloc(&out, sizeof(T)));
  accumulate<T, Scale><<<1, 64>>>(out, Pair{3, 0.5}, n);
  CUDA(cudaDeviceSynchronize());
  CUDA(cudaMemcpy(&got, out, sizeof(T), cudaMemcpyDeviceToHost));
  CUDA(cudaFree(out));
  return got;
}

int main() {
  const float host[4] = {1, 2, 3, 4};
  EXPECT(total == 2);
  CUDA(cudaMemcpyToSymbol(weights, host, 2 * sizeof(float)));
  CUDA(cudaMemcpyToSymbol(weights, host + 2, 2 * sizeof(float), 2 * sizeof(float)));
  EXPECT((run<float, 2>(8)) == 43.5f);
  EXPECT((run<double, 3>(4)) == 33.5);
  int got = 0;
  CUDA(cudaMemcpyFromSymbol(&got, counter, sizeof got));
  EXPECT(got == 44 && total == 4);
  size_t size = 0;
  void *address = nullptr;
  CUDA(cudaGetSymbolSize(&size, weights));
  CUDA(cudaGetSymbolAddress(&address, counter));
  EXPECT(size == sizeof host && address);
  EXPECT(cudaMemcpyToSymbol(weights, host, 32) == cudaErrorInvalidValue);
  EXPECT(cudaGetSymbolSize(&size, &got) == cudaErrorInvalidSymbol);
  EXPECT(cudaGetLastError() == cudaErrorInvalidSymbol);

  cudaFuncAttributes attributes;
  CUDA(cudaFuncGetAttributes(&attributes, accumulate<float, 2>));
  EXPECT(attributes.sharedSizeBytes == 256 && attributes.maxThreadsPerBlock == 1024);
  cudaDeviceProp properties;
  CUDA(cudaGetDeviceProperties(&properties, 0));
  EXPECT(properties.warpSize == 32 && properties.maxThreadsPerBlock == 1024 && properties.unifiedAddressing == 1);
  EXPECT(properties.maxGridSize[0] == 2147483647 && properties.maxGridSize[2] == 65535 && properties.clusterLaunch == 1);
  int blocks = 0;
  CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, accumulate<float, 2>, 64, 0));
  EXPECT(blocks == 32);
  std::printf("symbols: passed on compute capability %d.%d with %d multiprocessors\n", properties.major, properties.minor,
              properties.multiProcessorCount);
}
