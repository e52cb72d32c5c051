// Graphs by capture and by hand, replayed, and updated.
#include <vector>

#include "check.h"

__global__ void add(int *x, int value, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += value;
}

static void count(void *calls) { ++*static_cast<int *>(calls); }

int main() {
  const int n = 256;
  int *x, calls = 0;
  std::vector<int> got(n);
  CUDA(cudaMalloc(&x, n * sizeof(int)));
  CUDA(cudaMemset(x, 0, n * sizeof(int)));

  // By capture, with a second stream that joins.
  cudaStream_t stream, other;
  cudaEvent_t fork, join;
  CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CUDA(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  CUDA(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
  CUDA(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
  cudaGraph_t graph;
  CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  add<<<2, 128, 0, stream>>>(x, 1, n);
  CUDA(cudaEventRecord(fork, stream));
  CUDA(cudaStreamWaitEvent(other, fork, 0));
  cudaStreamCaptureStatus status;
  CUDA(cudaStreamIsCapturing(other, &status));
  EXPECT(status == cudaStreamCaptureStatusActive);
  add<<<1, 128, 0, other>>>(x, 10, 128);
  CUDA(cudaEventRecord(join, other));
  add<<<1, 128, 0, stream>>>(x + 128, 100, 128);
  CUDA(cudaStreamWaitEvent(stream, join, 0));
  CUDA(cudaLaunchHostFunc(stream, count, &calls));
  CUDA(cudaStreamEndCapture(stream, &graph));
  size_t nodes = 0;
  CUDA(cudaGraphGetNodes(graph, nullptr, &nodes));
  EXPECT(nodes == 4);
  EXPECT(calls == 0);
  CUDA(cudaMemcpy(got.data(), x, n * sizeof(int), cudaMemcpyDeviceToHost));
  EXPECT(got[0] == 0);

  cudaGraphExec_t executable;
  CUDA(cudaGraphInstantiate(&executable, graph, 0));
  for (int i = 0; i < 3; i++) CUDA(cudaGraphLaunch(executable, stream));
  CUDA(cudaStreamSynchronize(stream));
  EXPECT(calls == 3);
  CUDA(cudaMemcpy(got.data(), x, n * sizeof(int), cudaMemcpyDeviceToHost));
  for (int i = 0; i < n; i++) EXPECT(got[i] == (i < 128 ? 33 : 303));

  // By hand: fill, kernel, copy, host function.
  cudaGraph_t made;
  cudaGraphNode_t fill, kernel, copy, host;
  CUDA(cudaGraphCreate(&made, 0));
  cudaMemsetParams fill_parameters = {};
  fill_parameters.dst = x;
  fill_parameters.value = 7;
  fill_parameters.elementSize = 4;
  fill_parameters.width = n;
  fill_parameters.height = 1;
  CUDA(cudaGraphAddMemsetNode(&fill, made, nullptr, 0, &fill_parameters));
  int value = 5, size = n;
  void *arguments[] = {&x, &value, &size};
  cudaKernelNodeParams launch = {};
  launch.func = (void *)add;
  launch.gridDim = dim3(2);
  launch.blockDim = dim3(128);
  launch.kernelParams = arguments;
  CUDA(cudaGraphAddKernelNode(&kernel, made, &fill, 1, &launch));
  CUDA(cudaGraphAddMemcpyNode1D(&copy, made, &kernel, 1, got.data(), x, n * sizeof(int), cudaMemcpyDeviceToHost));
  cudaHostNodeParams host_parameters = {count, &calls};
  CUDA(cudaGraphAddHostNode(&host, made, &copy, 1, &host_parameters));
  cudaGraphNodeType type;
  CUDA(cudaGraphNodeGetType(kernel, &type));
  EXPECT(type == cudaGraphNodeTypeKernel);
  cudaGraphExec_t made_executable;
  CUDA(cudaGraphInstantiate(&made_executable, made, 0));
  CUDA(cudaGraphLaunch(made_executable, stream));
  CUDA(cudaStreamSynchronize(stream));
  for (int i = 0; i < n; i++) EXPECT(got[i] == 12);
  EXPECT(calls == 4);

  value = 30;
  CUDA(cudaGraphExecKernelNodeSetParams(made_executable, kernel, &launch));
  CUDA(cudaGraphLaunch(made_executable, stream));
  CUDA(cudaStreamSynchronize(stream));
  for (int i = 0; i < n; i++) EXPECT(got[i] == 37);

  // A node that is switched off, and memory that comes and goes with each launch.
  CUDA(cudaGraphNodeSetEnabled(made_executable, kernel, 0));
  CUDA(cudaGraphLaunch(made_executable, stream));
  CUDA(cudaStreamSynchronize(stream));
  for (int i = 0; i < n; i++) EXPECT(got[i] == 7);

  // What nodes hold, and nodes by one structure for all types.
  cudaMemsetParams held_fill = {};
  CUDA(cudaGraphMemsetNodeGetParams(fill, &held_fill));
  EXPECT(held_fill.dst == x && held_fill.value == 7 && held_fill.elementSize == 4 && held_fill.width == n && held_fill.height == 1);
  cudaMemcpy3DParms held_copy = {};
  CUDA(cudaGraphMemcpyNodeGetParams(copy, &held_copy));
  EXPECT(held_copy.srcPtr.ptr == x && held_copy.dstPtr.ptr == got.data() && held_copy.kind == cudaMemcpyDeviceToHost);
  EXPECT(held_copy.extent.width == n * sizeof(int) && held_copy.extent.height == 1 && held_copy.extent.depth == 1);
#if CUDART_VERSION >= 13020
  cudaGraphNodeParams held = {};
  CUDA(cudaGraphNodeGetParams(kernel, &held));
  EXPECT(held.type == cudaGraphNodeTypeKernel && held.kernel.func == (void *)add && held.kernel.blockDim.x == 128);
  EXPECT(held.kernel.functionType == cudaKernelFunctionTypeDeviceEntry);
  EXPECT(*static_cast<int *>(held.kernel.kernelParams[1]) == 5);
  CUDA(cudaGraphNodeGetParams(copy, &held));
  EXPECT(held.type == cudaGraphNodeTypeMemcpy && held.memcpy.copyParams.dstPtr.ptr == got.data());
  CUDA(cudaGraphNodeGetParams(host, &held));
  EXPECT(held.type == cudaGraphNodeTypeHost && held.host.userData == &calls);
#endif
#if CUDART_VERSION >= 13000
  cudaGraphNodeParams any = {};
  any.type = cudaGraphNodeTypeKernel;
  any.kernel.func = (void *)add;
  any.kernel.gridDim = dim3(2);
  any.kernel.blockDim = dim3(128);
  any.kernel.kernelParams = arguments;
  cudaGraph_t generic;
  cudaGraphNode_t first, second;
  CUDA(cudaGraphCreate(&generic, 0));
  CUDA(cudaGraphAddNode(&first, generic, nullptr, nullptr, 0, &any));
  cudaGraphNodeParams out = {};
  out.type = cudaGraphNodeTypeMemcpy;
  out.memcpy.copyParams = held_copy;
  CUDA(cudaGraphAddNode(&second, generic, &first, nullptr, 1, &out));
  cudaGraphExec_t generic_executable;
  CUDA(cudaGraphInstantiate(&generic_executable, generic, 0));
  CUDA(cudaGraphLaunch(generic_executable, stream));
  CUDA(cudaStreamSynchronize(stream));
  for (int i = 0; i < n; i++) EXPECT(got[i] == 37);
  value = 3;
  CUDA(cudaGraphExecNodeSetParams(generic_executable, first, &any));
  CUDA(cudaGraphLaunch(generic_executable, stream));
  CUDA(cudaStreamSynchronize(stream));
  for (int i = 0; i < n; i++) EXPECT(got[i] == 40);
  CUDA(cudaGraphNodeSetParams(first, &any));
  EXPECT(cudaGraphNodeSetParams(second, &any) == cudaErrorInvalidValue);
  cudaGetLastError();
  CUDA(cudaGraphExecDestroy(generic_executable));
  CUDA(cudaGraphDestroy(generic));
  value = 30;
#endif

  cudaGraph_t own;
  cudaGraphNode_t allocation, release;
  cudaGraphExec_t own_executable;
  CUDA(cudaGraphCreate(&own, 0));
  cudaMemAllocNodeParams wanted = {};
  wanted.poolProps.allocType = cudaMemAllocationTypePinned;
  wanted.poolProps.location.type = cudaMemLocationTypeDevice;
  wanted.bytesize = n * sizeof(int);
  CUDA(cudaGraphAddMemAllocNode(&allocation, own, nullptr, 0, &wanted));
  int *inner = static_cast<int *>(wanted.dptr);
  fill_parameters.dst = inner;
  CUDA(cudaGraphAddMemsetNode(&fill, own, &allocation, 1, &fill_parameters));
  void *inner_arguments[] = {&inner, &value, &size};
  launch.kernelParams = inner_arguments;
  CUDA(cudaGraphAddKernelNode(&kernel, own, &fill, 1, &launch));
  CUDA(cudaGraphAddMemcpyNode1D(&copy, own, &kernel, 1, got.data(), inner, n * sizeof(int), cudaMemcpyDeviceToHost));
  CUDA(cudaGraphAddMemFreeNode(&release, own, &copy, 1, inner));
  CUDA(cudaGraphInstantiate(&own_executable, own, 0));
  for (int launches = 0; launches < 2; launches++) {
    CUDA(cudaGraphLaunch(own_executable, stream));
    CUDA(cudaStreamSynchronize(stream));
    for (int i = 0; i < n; i++) EXPECT(got[i] == 37);
    got.assign(n, 0);
  }
  unsigned long long used = 1;
  CUDA(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &used));
  EXPECT(used == 0);

  CUDA(cudaGraphExecDestroy(executable));
  CUDA(cudaGraphExecDestroy(made_executable));
  CUDA(cudaGraphExecDestroy(own_executable));
  CUDA(cudaGraphDestroy(own));
  CUDA(cudaGraphDestroy(graph));
  CUDA(cudaGraphDestroy(made));
  CUDA(cudaStreamDestroy(stream));
  CUDA(cudaStreamDestroy(other));
  CUDA(cudaFree(x));
  std::puts("graphs: passed");
}
