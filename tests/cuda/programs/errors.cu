// The last error, errors that stay, and functions that are refused.
#include "check.h"

__global__ void nothing() {}

__global__ void store(int *address) { *address = 1; }

int main(int count, char **) {
  EXPECT(cudaGetLastError() == cudaSuccess);
  nothing<<<1, 2048>>>();
  EXPECT(cudaPeekAtLastError() == cudaErrorInvalidConfiguration);
  EXPECT(cudaGetLastError() == cudaErrorInvalidConfiguration);
  EXPECT(cudaGetLastError() == cudaSuccess);
  nothing<<<0, 32>>>();
  EXPECT(cudaGetLastError() == cudaErrorInvalidConfiguration);
  EXPECT(cudaFuncSetAttribute(nothing, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 20) == cudaErrorInvalidValue);
  EXPECT(cudaSetDevice(1000) == cudaErrorInvalidDevice);
  int device = -1;
  CUDA(cudaGetDevice(&device));
  EXPECT(device == 0);
  char on_host[8], also_on_host[8] = {};
  EXPECT(cudaMemcpy(on_host, also_on_host, 8, (cudaMemcpyKind)9) == cudaErrorInvalidMemcpyDirection);
  EXPECT(cudaFree(on_host) == cudaErrorInvalidValue);
  EXPECT(cudaEventQuery(nullptr) == cudaErrorInvalidResourceHandle);
  void *memory = on_host;
  CUDA((cudaGetLastError(), cudaMalloc(&memory, 0)));
  EXPECT(memory == nullptr);
  EXPECT(cudaMalloc(&memory, size_t(1) << 50) == cudaErrorMemoryAllocation);
  cudaTextureObject_t texture;
  cudaResourceDesc resource = {};
  cudaTextureDesc description = {};
  EXPECT(cudaCreateTextureObject(&texture, &resource, &description, nullptr) == cudaErrorNotSupported);
  cudaGetLastError();
  nothing<<<1, 32>>>();
  CUDA(cudaDeviceSynchronize());
  std::puts("errors: recoverable ones passed");
  std::fflush(stdout);
  if (count > 1) return 0;
  store<<<1, 1>>>(nullptr);
  cudaError_t error = cudaDeviceSynchronize();
  EXPECT(error != cudaSuccess);
  EXPECT(cudaGetLastError() == error && cudaGetLastError() == error);
  EXPECT(cudaMalloc(&memory, 16) == error);
  std::puts("errors: passed");
}
