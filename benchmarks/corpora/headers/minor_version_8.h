// For a program that takes each compiler whose minor version is below 8 for older than CUDA 12.8.
#pragma once

#include <cuda_runtime.h>

#define CCCL_DISABLE_CTK_COMPATIBILITY_CHECK
#undef __CUDACC_VER_MINOR__
#define __CUDACC_VER_MINOR__ 8
