// Reverses an array of 256 numbers through shared memory.
extern "C" __global__ void reverse(float *x) {
  __shared__ float tile[256];
  int i = threadIdx.x;
  tile[i] = x[i];
  // Missing: __syncthreads();
  x[i] = tile[255 - i];
}
