// A child of fork has no device; its parent goes on.
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

__global__ void set(int *x, int value) { *x = value; }

int main() {
  int *x, got = 0, status = 0;
  CUDA(cudaMalloc(&x, sizeof(int)));
  pid_t child = fork();
  if (!child) _exit(cudaDeviceSynchronize() == cudaErrorInitializationError && cudaMalloc(&x, 4) == cudaErrorInitializationError ? 11 : 12);
  EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 11);
  set<<<1, 1>>>(x, 9);
  CUDA(cudaMemcpy(&got, x, sizeof got, cudaMemcpyDeviceToHost));
  EXPECT(got == 9);
  std::puts("forked: passed");
}
