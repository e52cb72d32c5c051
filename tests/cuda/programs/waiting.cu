// Launches, waits for a line, and launches again: what happens between is up to the test.
#include "check.h"

__global__ void set(int *x, int value) { *x = value; }

int main() {
  int *x, got = 0;
  CUDA(cudaMalloc(&x, sizeof(int)));
  set<<<1, 1>>>(x, 5);
  CUDA(cudaMemcpy(&got, x, sizeof got, cudaMemcpyDeviceToHost));
  std::printf("ready %d\n", got);
  std::fflush(stdout);
  std::getchar();
  set<<<1, 1>>>(x, 6);
  cudaError_t launched = cudaGetLastError(), waited = cudaDeviceSynchronize();
  std::printf("launch %s, synchronize %s\n", cudaGetErrorName(launched), cudaGetErrorName(waited));
  return launched || waited ? 7 : 0;
}
