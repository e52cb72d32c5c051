// What the programs share: a call that must succeed, and a condition that must hold.
#pragma once
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#define CUDA(call)                                                                                          \
  do {                                                                                                      \
    cudaError_t error_ = (call);                                                                            \
    if (error_ != cudaSuccess) {                                                                            \
      std::fprintf(stderr, "%s:%d: %s gave %d %s\n", __FILE__, __LINE__, #call, error_, cudaGetErrorName(error_)); \
      std::exit(2);                                                                                         \
    }                                                                                                       \
  } while (0)

#define EXPECT(condition)                                                            \
  do {                                                                               \
    if (!(condition)) {                                                              \
      std::fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
      std::exit(3);                                                                  \
    }                                                                                \
  } while (0)
