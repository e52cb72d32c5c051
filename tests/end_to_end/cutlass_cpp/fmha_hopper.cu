// O = softmax(Q K^T / sqrt(D)) V: the forward kernel of example 88_hopper_fmha in the CUTLASS wheel, for sm_90a.
//
// Macros: HEAD_DIM, FUSION (of fmha_fusion.hpp), SCHEDULE (KernelTmaWarpSpecializedCooperative or ...Pingpong).

#include "cute/tensor.hpp"
#include "cutlass/cutlass.h"
#include "cutlass/kernel_hardware_info.h"

#include "collective/fmha_fusion.hpp"
#include "kernel/fmha_kernel_builder.hpp"
#include "launch.cuh"

using namespace cute;
using Element = cutlass::half_t;
using Stride3 = tuple<int, _1, tuple<int, int>>;  // rows, head dimension, (batches, heads)
using TileShape = Shape<_128, _64, Int<HEAD_DIM>>;
using Kernel = typename cutlass::fmha::kernel::FmhaBuilder<Element, float, float, TileShape, Stride3, Stride3, Stride3,
                                                           cutlass::fmha::collective::FUSION, cutlass::gemm::SCHEDULE>::Kernel;

// q and o are [rows][heads][HEAD_DIM], k and v [columns][heads][HEAD_DIM], lse [heads][rows].
extern "C" int attention(int rows, int columns, int heads, Element const* q, Element const* k, Element const* v, Element* o, float* lse) {
  Stride3 stride{heads * HEAD_DIM, _1{}, {0, HEAD_DIM}};
  cutlass::KernelHardwareInfo info;
  info.sm_count = cutlass::KernelHardwareInfo::query_device_multiprocessor_count();
  typename Kernel::Arguments arguments{{1, heads, rows, columns, HEAD_DIM},
                                       {q, stride, k, stride, v, stride},
                                       {o, stride, lse, {_1{}, {0, rows}}},
                                       info};
  return launch<Kernel>(arguments, dim3(1));
}
