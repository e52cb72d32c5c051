// Virtual memory management through functions of the driver that the runtime finds by name.
#include <cuda.h>

#include <vector>

#include "check.h"

__global__ void fill(int *x, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) x[i] = 3 * i;
}

template <class Function>
static Function find(const char *name) {
  void *found = nullptr;
  cudaDriverEntryPointQueryResult state;
  CUDA(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &state));
  EXPECT(state == cudaDriverEntryPointSuccess);
  return reinterpret_cast<Function>(found);
}
#define FIND(name) auto name##_ = find<decltype(&name)>(#name)
#define DRIVER(call) EXPECT((call) == CUDA_SUCCESS)

int main() {
  CUDA(cudaFree(nullptr));
  FIND(cuMemGetAllocationGranularity);
  FIND(cuMemCreate);
  FIND(cuMemAddressReserve);
  FIND(cuMemMap);
  FIND(cuMemSetAccess);
  FIND(cuMemUnmap);
  FIND(cuMemRelease);
  FIND(cuMemAddressFree);

  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  size_t granularity = 0;
  DRIVER(cuMemGetAllocationGranularity_(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  EXPECT(granularity == 2 << 20);
  CUmemGenericAllocationHandle handle;
  DRIVER(cuMemCreate_(&handle, granularity, &properties, 0));
  CUdeviceptr address;
  DRIVER(cuMemAddressReserve_(&address, 2 * granularity, 0, 0, 0));
  CUmemAccessDesc access = {};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  // The same memory twice, side by side.
  for (int i = 0; i < 2; i++) DRIVER(cuMemMap_(address + i * granularity, granularity, 0, handle, 0));
  DRIVER(cuMemSetAccess_(address, 2 * granularity, &access, 1));
  const int n = 1000;
  fill<<<4, 64>>>(reinterpret_cast<int *>(address), n);
  std::vector<int> got(n);
  CUDA(cudaMemcpy(got.data(), reinterpret_cast<int *>(address + granularity), n * sizeof(int), cudaMemcpyDeviceToHost));
  for (int i = 0; i < n; i++) EXPECT(got[i] == 3 * i);
  DRIVER(cuMemUnmap_(address, 2 * granularity));
  DRIVER(cuMemRelease_(handle));
  DRIVER(cuMemAddressFree_(address, 2 * granularity));
  void *missing = nullptr;
  cudaDriverEntryPointQueryResult state;
  CUDA(cudaGetDriverEntryPointByVersion("cuNoSuchFunction", &missing, 12000, cudaEnableDefault, &state));
  EXPECT(state == cudaDriverEntryPointSymbolNotFound && !missing);
  std::puts("virtual_memory: passed");
}
