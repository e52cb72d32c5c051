// Two streams use the same memory without an order, and the program changes memory that a copy uses.
#include <cuda_runtime.h>

#include "check.h"

__global__ void add_one(int *at) { at[threadIdx.x] += 1; }

int main()
{
    int *device, *other, *host;
    cudaStream_t first, second;
    cudaEvent_t event;
    CUDA(cudaMalloc(&device, 1024));
    CUDA(cudaMalloc(&other, 1024));
    CUDA(cudaMallocHost(&host, 1024));
    CUDA(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    CUDA(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    CUDA(cudaEventCreate(&event));

    // In order.
    CUDA(cudaMemsetAsync(device, 0, 1024, first));
    CUDA(cudaEventRecord(event, first));
    CUDA(cudaStreamWaitEvent(second, event, 0));
    add_one<<<1, 32, 0, second>>>(device);
    CUDA(cudaDeviceSynchronize());
    host[0] = 1;

    // Without an order.
    CUDA(cudaMemsetAsync(other, 0, 1024, first)); // the fill
    add_one<<<1, 32, 0, second>>>(other);          // the launch
    CUDA(cudaDeviceSynchronize());
    CUDA(cudaMemcpyAsync(device, host, 1024, cudaMemcpyHostToDevice, first)); // the copy
    host[0] = 2;
    CUDA(cudaStreamSynchronize(first)); // the wait
    return 0;
}
