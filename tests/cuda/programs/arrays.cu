// CUDA arrays: what they are, and copies of rows and of boxes to and from them.
#include <vector>

#include "check.h"

__global__ void twice(float2 *row) { row[threadIdx.x].x *= 2, row[threadIdx.x].y *= 2; }

int main() {
  const int width = 6, height = 4, depth = 3;
  cudaChannelFormatDesc format = cudaCreateChannelDesc<float2>(), found = {};
  cudaArray_t plane, box;
  CUDA(cudaMallocArray(&plane, &format, width, height));
  cudaExtent extent = {};
  unsigned flags = 1;
  CUDA(cudaArrayGetInfo(&found, &extent, &flags, plane));
  EXPECT(found.x == 32 && found.y == 32 && found.z == 0 && found.w == 0 && found.f == cudaChannelFormatKindFloat);
  EXPECT(extent.width == width && extent.height == height && extent.depth == 0 && flags == 0);
  CUDA(cudaGetChannelDesc(&found, plane));
  EXPECT(found.x == 32 && found.f == cudaChannelFormatKindFloat);

  // Rows, from the host with a pitch to a place in the array, and back by way of the device.
  std::vector<float2> values(width * height), got(width * height);
  for (int i = 0; i < width * height; i++) values[i] = make_float2(i, -i);
  const size_t row = width * sizeof(float2);
  CUDA(cudaMemcpy2DToArray(plane, 0, 0, values.data(), row, row, height, cudaMemcpyHostToDevice));
  CUDA(cudaMemcpy2DToArray(plane, 2 * sizeof(float2), 1, values.data(), row, 2 * sizeof(float2), 2, cudaMemcpyHostToDevice));
  float2 *memory;
  size_t pitch;
  CUDA(cudaMallocPitch(&memory, &pitch, row, height));
  cudaStream_t stream;
  CUDA(cudaStreamCreate(&stream));
  CUDA(cudaMemcpy2DFromArrayAsync(memory, pitch, plane, 0, 0, row, height, cudaMemcpyDeviceToDevice, stream));
  twice<<<1, width, 0, stream>>>(memory);
  CUDA(cudaMemcpy2DAsync(got.data(), row, memory, pitch, row, height, cudaMemcpyDeviceToHost, stream));
  CUDA(cudaStreamSynchronize(stream));
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++) {
      bool inside = x >= 2 && x < 4 && y >= 1 && y < 3;
      int expected = inside ? (y - 1) * width + x - 2 : y ? y * width + x : 2 * x;
      EXPECT(got[y * width + x].x == expected && got[y * width + x].y == -expected);
    }

  // A box of three dimensions: extents and positions count elements of the array.
  cudaChannelFormatDesc shorts = cudaCreateChannelDesc<short>();
  CUDA(cudaMalloc3DArray(&box, &shorts, make_cudaExtent(width, height, depth)));
  std::vector<short> numbers(width * height * depth), back(2 * 2 * 2);
  for (size_t i = 0; i < numbers.size(); i++) numbers[i] = short(i);
  cudaMemcpy3DParms in = {};
  in.srcPtr = make_cudaPitchedPtr(numbers.data(), width * sizeof(short), width, height);
  in.dstArray = box;
  in.extent = make_cudaExtent(width, height, depth);
  in.kind = cudaMemcpyHostToDevice;
  CUDA(cudaMemcpy3D(&in));
  cudaMemcpy3DParms out = {};
  out.srcArray = box;
  out.srcPos = make_cudaPos(3, 1, 1);
  out.dstPtr = make_cudaPitchedPtr(back.data(), 2 * sizeof(short), 2, 2);
  out.extent = make_cudaExtent(2, 2, 2);
  out.kind = cudaMemcpyDeviceToHost;
  CUDA(cudaMemcpy3D(&out));
  for (int z = 0; z < 2; z++)
    for (int y = 0; y < 2; y++)
      for (int x = 0; x < 2; x++) EXPECT(back[(z * 2 + y) * 2 + x] == ((z + 1) * height + y + 1) * width + x + 3);

  // A node of a graph holds the array and counts its elements.
  cudaGraph_t graph;
  cudaGraphNode_t node;
  cudaMemcpy3DParms held = {};
  CUDA(cudaGraphCreate(&graph, 0));
  CUDA(cudaGraphAddMemcpyNode(&node, graph, nullptr, 0, &out));
  CUDA(cudaGraphMemcpyNodeGetParams(node, &held));
  EXPECT(held.srcArray == box && held.srcPos.x == 3 && held.extent.width == 2 && held.kind == cudaMemcpyDeviceToHost);
  CUDA(cudaGraphDestroy(graph));

  // What is refused.
  cudaChannelFormatDesc three = cudaCreateChannelDesc(8, 8, 8, 0, cudaChannelFormatKindUnsigned), bytes = cudaCreateChannelDesc<char>();
  cudaArray_t none;
  EXPECT(cudaMallocArray(&none, &three, width) == cudaErrorInvalidChannelDescriptor);
  EXPECT(cudaMallocArray(&none, &bytes, 0) == cudaErrorInvalidValue);
  out.extent.width = 4;
  EXPECT(cudaMemcpy3D(&out) == cudaErrorInvalidValue);
  in.srcArray = plane;
  EXPECT(cudaMemcpy3D(&in) == cudaErrorInvalidValue);
  cudaGetLastError();

  CUDA(cudaFreeArray(plane));
  CUDA(cudaFreeArray(box));
  CUDA(cudaFreeArray(nullptr));
  EXPECT(cudaFreeArray(box) == cudaErrorInvalidResourceHandle);
  CUDA(cudaFree(memory));
  CUDA(cudaStreamDestroy(stream));
  puts("arrays: passed");
}
