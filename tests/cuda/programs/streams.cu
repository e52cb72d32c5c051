// Streams, events, callbacks, pinned and pitched memory.
#include <string>
#include <vector>

#include "check.h"

__global__ void scale(float *x, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= factor;
}

__global__ void add(float *sum, const float *a, const float *b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) sum[i] = a[i] + b[i];
}

static std::string order;

static void note(void *text) { order += static_cast<const char *>(text); }

static void note_callback(cudaStream_t, cudaError_t status, void *text) {
  EXPECT(status == cudaSuccess);
  note(text);
}

int main() {
  const int n = 1000;
  float *pinned, *a, *b, *sum;
  CUDA(cudaMallocHost(&pinned, 2 * n * sizeof(float)));
  CUDA(cudaMalloc(&a, n * sizeof(float)));
  CUDA(cudaMalloc(&b, n * sizeof(float)));
  CUDA(cudaMalloc(&sum, n * sizeof(float)));
  for (int i = 0; i < n; i++) pinned[i] = float(i), pinned[n + i] = float(2 * i);

  cudaStream_t first, second;
  CUDA(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
  int least, greatest;
  CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  CUDA(cudaStreamCreateWithPriority(&second, cudaStreamNonBlocking, greatest));
  int priority;
  CUDA(cudaStreamGetPriority(second, &priority));
  EXPECT(priority == greatest && greatest < least);

  cudaEvent_t begin, copied, end;
  CUDA(cudaEventCreate(&begin));
  CUDA(cudaEventCreateWithFlags(&copied, cudaEventDisableTiming));
  CUDA(cudaEventCreate(&end));
  CUDA(cudaEventRecord(begin, first));
  CUDA(cudaMemcpyAsync(a, pinned, n * sizeof(float), cudaMemcpyHostToDevice, first));
  CUDA(cudaLaunchHostFunc(first, note, const_cast<char *>("a")));
  scale<<<(n + 127) / 128, 128, 0, first>>>(a, 3.0f, n);
  CUDA(cudaGetLastError());
  CUDA(cudaMemcpyAsync(b, pinned + n, n * sizeof(float), cudaMemcpyHostToDevice, second));
  CUDA(cudaEventRecord(copied, second));
  CUDA(cudaStreamWaitEvent(first, copied, 0));
  add<<<(n + 127) / 128, 128, 0, first>>>(sum, a, b, n);
  CUDA(cudaStreamAddCallback(first, note_callback, const_cast<char *>("b"), 0));
  CUDA(cudaLaunchHostFunc(first, note, const_cast<char *>("c")));
  CUDA(cudaEventRecord(end, first));
  CUDA(cudaEventSynchronize(end));
  CUDA(cudaStreamSynchronize(first));
  EXPECT(order == "abc");
  EXPECT(cudaStreamQuery(first) == cudaSuccess && cudaEventQuery(end) == cudaSuccess);
  float milliseconds = -1;
  CUDA(cudaEventElapsedTime(&milliseconds, begin, end));
  EXPECT(milliseconds > 0);
  EXPECT(cudaEventElapsedTime(&milliseconds, copied, end) == cudaErrorInvalidResourceHandle);
  EXPECT(cudaGetLastError() == cudaErrorInvalidResourceHandle && cudaGetLastError() == cudaSuccess);

  std::vector<float> got(n);
  CUDA(cudaMemcpy(got.data(), sum, n * sizeof(float), cudaMemcpyDeviceToHost));
  for (int i = 0; i < n; i++) EXPECT(got[i] == 5.0f * i);

  // Rows of 100 floats in a pitched allocation, and back.
  char *rows;
  size_t pitch;
  CUDA(cudaMallocPitch(&rows, &pitch, 100 * sizeof(float), 10));
  EXPECT(pitch % 512 == 0 && pitch >= 400);
  CUDA(cudaMemset2D(rows, pitch, 0, 100 * sizeof(float), 10));
  CUDA(cudaMemcpy2D(rows, pitch, pinned, 400, 400, 10, cudaMemcpyHostToDevice));
  scale<<<1, 128>>>(reinterpret_cast<float *>(rows + 3 * pitch), 10.0f, 100);
  CUDA(cudaMemcpy2D(got.data(), 400, rows, pitch, 400, 10, cudaMemcpyDefault));
  for (int i = 0; i < n; i++) EXPECT(got[i] == (i / 100 == 3 ? 10.0f * i : float(i)));

  cudaPointerAttributes attributes;
  CUDA(cudaPointerGetAttributes(&attributes, a));
  EXPECT(attributes.type == cudaMemoryTypeDevice && attributes.device == 0 && attributes.devicePointer == a);
  CUDA(cudaPointerGetAttributes(&attributes, pinned));
  EXPECT(attributes.type == cudaMemoryTypeHost && attributes.hostPointer == pinned);
  CUDA(cudaPointerGetAttributes(&attributes, got.data()));
  EXPECT(attributes.type == cudaMemoryTypeUnregistered);

  // Memory of the program, registered.
  std::vector<float> own(n, 2.0f);
  float *mapped;
  CUDA(cudaHostRegister(own.data(), n * sizeof(float), cudaHostRegisterMapped));
  CUDA(cudaHostGetDevicePointer((void **)&mapped, own.data(), 0));
  scale<<<(n + 127) / 128, 128>>>(mapped, 4.0f, n);
  CUDA(cudaDeviceSynchronize());
  for (float value : own) EXPECT(value == 8.0f);
  CUDA(cudaHostUnregister(own.data()));

  CUDA(cudaEventDestroy(begin));
  CUDA(cudaEventDestroy(copied));
  CUDA(cudaEventDestroy(end));
  CUDA(cudaStreamDestroy(first));
  CUDA(cudaStreamDestroy(second));
  for (void *memory : {(void *)a, (void *)b, (void *)sum, (void *)rows}) CUDA(cudaFree(memory));
  CUDA(cudaFreeHost(pinned));
  std::puts("streams: passed");
}
