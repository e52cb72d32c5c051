// Launch a CUTLASS 3.x kernel: what its device adapter does, without the older kernels whose headers the adapter brings in.
#pragma once

#include "cute/tensor.hpp"
#include "cutlass/cutlass.h"
#include "cutlass/device_kernel.h"

template <class Kernel>
int launch(typename Kernel::Arguments const& arguments, dim3 cluster) {
  if (!Kernel::can_implement(arguments)) return 1;
  void* workspace = nullptr;
  if (size_t bytes = Kernel::get_workspace_size(arguments); bytes && cudaMalloc(&workspace, bytes) != cudaSuccess) return 2;
  if (Kernel::initialize_workspace(arguments, workspace, nullptr) != cutlass::Status::kSuccess) return 3;
  auto params = Kernel::to_underlying_arguments(arguments, workspace);
  void* parameters[] = {&params};
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {cluster.x, cluster.y, cluster.z};
  cudaLaunchConfig_t config{};
  config.gridDim = Kernel::get_grid_shape(params);
  config.blockDim = Kernel::get_block_shape();
  config.dynamicSmemBytes = Kernel::SharedStorageSize;
  config.attrs = &attribute;
  config.numAttrs = 1;
  void const* kernel = reinterpret_cast<void const*>(cutlass::device_kernel<Kernel>);
  if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Kernel::SharedStorageSize) != cudaSuccess) return 4;
  if (cudaLaunchKernelExC(&config, kernel, parameters) != cudaSuccess) return 5;
  return cudaFree(workspace) == cudaSuccess ? 0 : 6;
}
