// Stream-ordered allocation from the default pool and from one of the program.
#include <vector>

#include "check.h"

__global__ void fill(int *x, int value, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = value + i;
}

int main() {
  const int n = 3000;
  int supported = 0;
  CUDA(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, 0));
  EXPECT(supported == 1);
  cudaStream_t stream;
  CUDA(cudaStreamCreate(&stream));
  std::vector<int> got(n);
  int *x;
  for (int round = 0; round < 3; round++) {
    CUDA(cudaMallocAsync(&x, n * sizeof(int), stream));
    fill<<<1, 128, 0, stream>>>(x, round, n);
    CUDA(cudaMemcpyAsync(got.data(), x, n * sizeof(int), cudaMemcpyDeviceToHost, stream));
    CUDA(cudaFreeAsync(x, stream));
    CUDA(cudaStreamSynchronize(stream));
    for (int i = 0; i < n; i++) EXPECT(got[i] == round + i);
  }

  cudaMemPool_t standard, own;
  CUDA(cudaDeviceGetDefaultMemPool(&standard, 0));
  unsigned long long threshold = 1 << 20, found = 0;
  CUDA(cudaMemPoolSetAttribute(standard, cudaMemPoolAttrReleaseThreshold, &threshold));
  CUDA(cudaMemPoolGetAttribute(standard, cudaMemPoolAttrReleaseThreshold, &found));
  EXPECT(found == threshold);
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = 0;
  CUDA(cudaMemPoolCreate(&own, &properties));
  CUDA(cudaMallocFromPoolAsync((void **)&x, n * sizeof(int), own, stream));
  fill<<<1, 64, 0, stream>>>(x, 9, n);
  CUDA(cudaStreamSynchronize(stream));
  CUDA(cudaMemPoolGetAttribute(own, cudaMemPoolAttrUsedMemCurrent, &found));
  EXPECT(found >= n * sizeof(int));
  CUDA(cudaMemcpy(got.data(), x, n * sizeof(int), cudaMemcpyDefault));
  EXPECT(got[n - 1] == 9 + n - 1);
  CUDA(cudaFreeAsync(x, stream));
  CUDA(cudaStreamSynchronize(stream));
  CUDA(cudaMemPoolGetAttribute(own, cudaMemPoolAttrUsedMemCurrent, &found));
  EXPECT(found == 0);
  CUDA(cudaMemPoolTrimTo(own, 0));
  CUDA(cudaMemPoolDestroy(own));
  CUDA(cudaStreamDestroy(stream));
  std::puts("pools: passed");
}
