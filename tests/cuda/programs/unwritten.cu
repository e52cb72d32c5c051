// Memory that nothing has written: the program copies it to the host, and a kernel decides by it.
#include "check.h"

__global__ void fill(int *x, int n) {
  if (threadIdx.x < n) x[threadIdx.x] = threadIdx.x;
}

__global__ void decide(const int *x, int *y) {
  if (x[threadIdx.x] > 3) y[threadIdx.x] = 1;
}

int main() {
  int *written, *partly, *pool, host[32];
  CUDA(cudaMalloc(&written, sizeof host));
  CUDA(cudaMalloc(&partly, sizeof host));  // partly written
  fill<<<1, 32>>>(written, 32);
  fill<<<1, 32>>>(partly, 16);
  CUDA(cudaMemcpy(host, written, sizeof host, cudaMemcpyDeviceToHost));
  CUDA(cudaMemcpy(host, partly, sizeof host / 2, cudaMemcpyDeviceToHost));
  CUDA(cudaMemcpy(host, partly, sizeof host, cudaMemcpyDeviceToHost));  // the copy
  CUDA(cudaMallocAsync(&pool, sizeof host, 0));  // of a pool
  CUDA(cudaMemcpyAsync(pool, written, sizeof host / 2, cudaMemcpyDeviceToDevice, 0));
  decide<<<1, 16>>>(pool, written);
  CUDA(cudaStreamSynchronize(0));
  decide<<<1, 32>>>(pool, written);  // the launch
  CUDA(cudaStreamSynchronize(0));
  std::puts("unwritten: passed");
}
