// Eight threads, each with a stream and a kernel that the next thread's kernel waits for.
#include <thread>
#include <vector>

#include "check.h"

__global__ void add(int *x, int n) {
  if (threadIdx.x < n) x[threadIdx.x] += 1;
}

__global__ void pass(volatile int *flags, int i) {
  while (flags[i] == 0) {
  }
  flags[i + 1] = 1;
}

int main() {
  const int threads = 8, rounds = 25, n = 32;
  int *flags;
  CUDA(cudaMalloc(&flags, (threads + 1) * sizeof(int)));
  CUDA(cudaMemset(flags, 0, (threads + 1) * sizeof(int)));
  CUDA(cudaDeviceSynchronize());
  std::vector<std::thread> running;
  for (int i = 0; i < threads; i++)
    running.emplace_back([=] {
      cudaStream_t stream;
      int *x, got[n];
      CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
      CUDA(cudaMalloc(&x, n * sizeof(int)));
      CUDA(cudaMemsetAsync(x, 0, n * sizeof(int), stream));
      for (int round = 0; round < rounds; round++) add<<<1, n, 0, stream>>>(x, n);
      CUDA(cudaMemcpyAsync(got, x, n * sizeof(int), cudaMemcpyDeviceToHost, stream));
      CUDA(cudaStreamSynchronize(stream));
      for (int value : got) EXPECT(value == rounds);
      pass<<<1, 1, 0, stream>>>(flags, i);
      if (i == threads - 1) CUDA(cudaMemsetAsync(flags, 1, 1, cudaStreamPerThread));
      CUDA(cudaStreamSynchronize(stream));
      CUDA(cudaFree(x));
      CUDA(cudaStreamDestroy(stream));
    });
  for (auto &thread : running) thread.join();
  int last = 0;
  CUDA(cudaMemcpy(&last, flags + threads, sizeof last, cudaMemcpyDeviceToHost));
  EXPECT(last == 1);
  std::puts("threads: passed");
}
