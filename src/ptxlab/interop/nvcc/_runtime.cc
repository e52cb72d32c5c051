// The CUDA runtime for host code that runs on a simulated device: what it must remember is kept here, all else goes to the
// handlers that ptxlab sets. Everything is synchronous, so streams and events have no state.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

namespace {

struct Symbol {
  const void* image;  // the fat binary that it stands in
  const char* name;
};

struct LaunchShape {
  dim3 grid, block, cluster;
  uint64_t shared_bytes;
};

struct TensorMapArguments {
  uint32_t data_type, rank;
  uint64_t address;
  const uint64_t *dims, *strides;
  const uint32_t *box, *element_strides;
  const int32_t *lower, *upper;
  uint32_t channels, pixels, interleave, swizzle, l2_promotion, oob_fill;
};

// Every handler gives 0 or the number of a CUDA error.
struct Handlers {
  int (*allocate)(uint64_t bytes, uint64_t* address);
  int (*release)(uint64_t address);
  int (*copy)(uint64_t to, uint64_t from, uint64_t bytes, int kind);
  int (*fill)(uint64_t address, int value, uint64_t bytes);
  int (*attribute)(int number, int* value);
  int (*variable)(const void* image, const char* name, uint64_t* address);
  int (*launch)(const void* image, const char* name, const LaunchShape* shape, void** arguments);
  int (*tensor_map)(void* map, const TensorMapArguments* arguments);
};

Handlers handlers;

// Filled before main by the constructors that nvcc puts into each object file.
std::map<const void*, Symbol>& kernels() { static std::map<const void*, Symbol> found; return found; }
std::map<const void*, Symbol>& variables() { static std::map<const void*, Symbol> found; return found; }

struct Call {
  dim3 grid, block;
  size_t shared_bytes;
};
std::vector<Call>& calls() { static std::vector<Call> pending; return pending; }

cudaError_t last_error = cudaSuccess;

cudaError_t status(int number) {
  if (number) last_error = static_cast<cudaError_t>(number);
  return static_cast<cudaError_t>(number);
}

uint64_t number(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

cudaError_t launch(const void* function, const LaunchShape& shape, void** arguments) {
  auto found = kernels().find(function);
  if (found == kernels().end()) return status(cudaErrorInvalidDeviceFunction);
  return status(handlers.launch(found->second.image, found->second.name, &shape, arguments));
}

int attribute(int which) {
  int value = 0;
  handlers.attribute(which, &value);
  return value;
}

CUresult encode_tiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address, const cuuint64_t* dims,
                      const cuuint64_t* strides, const cuuint32_t* box, const cuuint32_t* element_strides, CUtensorMapInterleave interleave,
                      CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2_promotion, CUtensorMapFloatOOBfill oob_fill) {
  TensorMapArguments arguments{uint32_t(type), rank, number(address), reinterpret_cast<const uint64_t*>(dims),
                               reinterpret_cast<const uint64_t*>(strides), box, element_strides, nullptr, nullptr, 0, 0,
                               uint32_t(interleave), uint32_t(swizzle), uint32_t(l2_promotion), uint32_t(oob_fill)};
  return static_cast<CUresult>(handlers.tensor_map(map, &arguments));
}

CUresult encode_im2col(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address, const cuuint64_t* dims,
                       const cuuint64_t* strides, const int* lower, const int* upper, cuuint32_t channels, cuuint32_t pixels,
                       const cuuint32_t* element_strides, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                       CUtensorMapL2promotion l2_promotion, CUtensorMapFloatOOBfill oob_fill) {
  TensorMapArguments arguments{uint32_t(type), rank, number(address), reinterpret_cast<const uint64_t*>(dims),
                               reinterpret_cast<const uint64_t*>(strides), nullptr, element_strides, lower, upper, channels, pixels,
                               uint32_t(interleave), uint32_t(swizzle), uint32_t(l2_promotion), uint32_t(oob_fill)};
  return static_cast<CUresult>(handlers.tensor_map(map, &arguments));
}

CUresult error_string(CUresult, const char** text) {
  *text = "refused by ptxlab";
  return CUDA_SUCCESS;
}

cudaError_t entry_point(const char* name, void** function, cudaDriverEntryPointQueryResult* result) {
  *function = !strcmp(name, "cuTensorMapEncodeTiled")    ? reinterpret_cast<void*>(encode_tiled)
              : !strcmp(name, "cuTensorMapEncodeIm2col") ? reinterpret_cast<void*>(encode_im2col)
              : !strcmp(name, "cuGetErrorString")        ? reinterpret_cast<void*>(error_string)
                                                         : nullptr;
  if (result) *result = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return status(*function ? cudaSuccess : cudaErrorSymbolNotFound);
}

}  // namespace

extern "C" {

// At the start of every call from Python.
void ptxlab_begin(const Handlers* given) {
  handlers = *given;
  last_error = cudaSuccess;
}

// ------------------------------------------------------------------------------------------------ what nvcc generates

struct FatBinaryWrapper {
  int magic, version;
  const void* image;
  void* others;
};

void** __cudaRegisterFatBinary(void* wrapper) {
  return reinterpret_cast<void**>(const_cast<void*>(static_cast<FatBinaryWrapper*>(wrapper)->image));
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }
void __cudaRegisterFunction(void** image, const char* stub, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*, int*) {
  kernels()[stub] = {image, name};
}
void __cudaRegisterVar(void** image, char* host, char*, const char* name, int, size_t, int, int) { variables()[host] = {image, name}; }

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t) {
  calls().push_back({grid, block, shared_bytes});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes, void*) {
  if (calls().empty()) return status(cudaErrorInvalidConfiguration);
  *grid = calls().back().grid;
  *block = calls().back().block;
  *shared_bytes = calls().back().shared_bytes;
  calls().pop_back();
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* stub) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(stub));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared_bytes, cudaStream_t) {
  return launch(kernel, {grid, block, dim3(0, 0, 0), shared_bytes}, arguments);
}

// ------------------------------------------------------------------------------------------------------------- launches

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared_bytes, cudaStream_t) {
  return launch(function, {grid, block, dim3(0, 0, 0), shared_bytes}, arguments);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** arguments) {
  LaunchShape shape{config->gridDim, config->blockDim, dim3(0, 0, 0), config->dynamicSmemBytes};
  for (unsigned i = 0; i < config->numAttrs; i++)
    if (config->attrs[i].id == cudaLaunchAttributeClusterDimension) {
      auto size = config->attrs[i].val.clusterDim;
      shape.cluster = dim3(size.x, size.y, size.z);
    }
  return launch(function, shape, arguments);
}
cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute, int) {
  return status(kernels().count(function) ? cudaSuccess : cudaErrorInvalidDeviceFunction);
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int, size_t, unsigned) {
  *blocks = 1;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int, size_t) {
  *blocks = 1;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void*, const cudaLaunchConfig_t* config) {
  unsigned size = 1;
  for (unsigned i = 0; i < config->numAttrs; i++)
    if (config->attrs[i].id == cudaLaunchAttributeClusterDimension) {
      auto cluster = config->attrs[i].val.clusterDim;
      size = cluster.x * cluster.y * cluster.z;
    }
  *clusters = attribute(cudaDevAttrMultiProcessorCount) / int(size);
  return cudaSuccess;
}

// --------------------------------------------------------------------------------------------------------------- memory

cudaError_t cudaMalloc(void** pointer, size_t bytes) { return status(handlers.allocate(bytes, reinterpret_cast<uint64_t*>(pointer))); }
cudaError_t cudaFree(void* pointer) { return pointer ? status(handlers.release(number(pointer))) : cudaSuccess; }
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return status(handlers.copy(number(to), number(from), bytes, kind));
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t) {
  return cudaMemcpy(to, from, bytes, kind);
}
cudaError_t cudaMemset(void* pointer, int value, size_t bytes) { return status(handlers.fill(number(pointer), value, bytes)); }
cudaError_t cudaMemsetAsync(void* pointer, int value, size_t bytes, cudaStream_t) { return cudaMemset(pointer, value, bytes); }
cudaError_t cudaGetSymbolAddress(void** pointer, const void* symbol) {
  auto found = variables().find(symbol);
  if (found == variables().end()) return status(cudaErrorInvalidSymbol);
  return status(handlers.variable(found->second.image, found->second.name, reinterpret_cast<uint64_t*>(pointer)));
}
cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind) {
  void* base = nullptr;
  cudaError_t error = cudaGetSymbolAddress(&base, symbol);
  return error ? error : cudaMemcpy(static_cast<char*>(base) + offset, from, bytes, kind);
}
cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind) {
  void* base = nullptr;
  cudaError_t error = cudaGetSymbolAddress(&base, symbol);
  return error ? error : cudaMemcpy(to, static_cast<char*>(base) + offset, bytes, kind);
}

// --------------------------------------------------------------------------------------------- device, streams, events

cudaError_t cudaGetDevice(int* device) { *device = 0; return cudaSuccess; }
cudaError_t cudaSetDevice(int device) { return status(device ? cudaErrorInvalidDevice : cudaSuccess); }
cudaError_t cudaGetDeviceCount(int* count) { *count = 1; return cudaSuccess; }
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int) { return status(handlers.attribute(which, value)); }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* found, int) {
  *found = {};
  strcpy(found->name, "ptxlab");
  found->major = attribute(cudaDevAttrComputeCapabilityMajor);
  found->minor = attribute(cudaDevAttrComputeCapabilityMinor);
  found->multiProcessorCount = attribute(cudaDevAttrMultiProcessorCount);
  found->sharedMemPerBlock = attribute(cudaDevAttrMaxSharedMemoryPerBlock);
  found->sharedMemPerBlockOptin = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  found->sharedMemPerMultiprocessor = attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
  found->maxThreadsPerBlock = attribute(cudaDevAttrMaxThreadsPerBlock);
  found->maxThreadsPerMultiProcessor = attribute(cudaDevAttrMaxThreadsPerMultiProcessor);
  found->warpSize = attribute(cudaDevAttrWarpSize);
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaStreamCreate(cudaStream_t* stream) { *stream = nullptr; return cudaSuccess; }
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventCreate(cudaEvent_t* event) { *event = nullptr; return cudaSuccess; }
cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t) { *milliseconds = 0; return cudaSuccess; }

// --------------------------------------------------------------------------------------------------- errors and driver

cudaError_t cudaPeekAtLastError() { return last_error; }
cudaError_t cudaGetLastError() {
  cudaError_t found = last_error;
  last_error = cudaSuccess;
  return found;
}
const char* cudaGetErrorString(cudaError_t error) { return error ? "refused by ptxlab" : "no error"; }
const char* cudaGetErrorName(cudaError_t error) { return error ? "cudaError" : "cudaSuccess"; }
cudaError_t cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long, cudaDriverEntryPointQueryResult* result) {
  return entry_point(name, function, result);
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  return entry_point(name, function, result);
}
CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address, const cuuint64_t* dims,
                                const cuuint64_t* strides, const cuuint32_t* box, const cuuint32_t* element_strides,
                                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2_promotion,
                                CUtensorMapFloatOOBfill oob_fill) {
  return encode_tiled(map, type, rank, address, dims, strides, box, element_strides, interleave, swizzle, l2_promotion, oob_fill);
}

}  // extern "C"
