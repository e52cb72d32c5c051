// Cooperative groups: a barrier of the grid, clusters with distributed shared memory, tiles of warps.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#include <vector>

#include "check.h"

namespace cg = cooperative_groups;

__global__ void sum_of_blocks(int *partial, int *out) {
  cg::grid_group grid = cg::this_grid();
  auto tile = cg::tiled_partition<32>(cg::this_thread_block());
  int sum = cg::reduce(tile, int(grid.thread_rank()), cg::plus<int>());
  if (tile.thread_rank() == 0) atomicAdd(&partial[blockIdx.x], sum);
  grid.sync();
  if (grid.thread_rank() == 0) {
    int total = 0;
    for (int i = 0; i < gridDim.x; i++) total += partial[i];
    *out = total;
  }
}

__global__ void neighbours(int *out) {
  __shared__ int value;
  cg::cluster_group cluster = cg::this_cluster();
  if (threadIdx.x == 0) value = 100 + blockIdx.x;
  cluster.sync();
  int peer = (cluster.block_rank() + 1) % cluster.num_blocks();
  if (threadIdx.x == 0) out[blockIdx.x] = *cluster.map_shared_rank(&value, peer);
  cluster.sync();
}

int main() {
  const int blocks = 4, threads = 64;
  int *partial, *out, total = 0;
  CUDA(cudaMalloc(&partial, blocks * sizeof(int)));
  CUDA(cudaMalloc(&out, 8 * sizeof(int)));
  CUDA(cudaMemset(partial, 0, blocks * sizeof(int)));
  void *arguments[] = {&partial, &out};
  CUDA(cudaLaunchCooperativeKernel((void *)sum_of_blocks, dim3(blocks), dim3(threads), arguments, 0, nullptr));
  CUDA(cudaMemcpy(&total, out, sizeof total, cudaMemcpyDeviceToHost));
  EXPECT(total == 256 * 255 / 2);

  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(8);
  config.blockDim = dim3(32);
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = 4;
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  int clusters = 0;
  CUDA(cudaOccupancyMaxActiveClusters(&clusters, neighbours, &config));
  EXPECT(clusters > 0);
  CUDA(cudaLaunchKernelEx(&config, neighbours, out));
  std::vector<int> got(8);
  CUDA(cudaMemcpy(got.data(), out, 8 * sizeof(int), cudaMemcpyDeviceToHost));
  for (int i = 0; i < 8; i++) EXPECT(got[i] == 100 + i / 4 * 4 + (i + 1) % 4);
  CUDA(cudaFree(partial));
  CUDA(cudaFree(out));
  std::puts("cooperative: passed");
}
