// The source that the debug information of sum.ptx names; the PTX is written by hand.
extern "C" __global__ void sum(unsigned *out)
{
    __shared__ unsigned part[64];
    unsigned i = threadIdx.x;
    unsigned s = 0;
    for (unsigned k = 0; k < 5; ++k)
        s += k;
    part[i] = s + i;
    __syncthreads();
    out[i] = part[i ^ 1];
}
