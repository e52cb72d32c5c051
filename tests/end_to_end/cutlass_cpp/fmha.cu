// O = softmax(Q K^T / sqrt(D)) V for one batch: the forward kernel of example 77_blackwell_fmha in the CUTLASS wheel, for sm_100a.
//
// Macros: HEAD_DIM, MASK (of fmha_fusion.hpp).

#include <cmath>

#include "collective/fmha_fusion.hpp"
#include "collective/sm100_fmha_fwd_epilogue_tma_warpspecialized.hpp"
#include "collective/sm100_fmha_fwd_mainloop_tma_warpspecialized.hpp"
#include "cutlass/kernel_hardware_info.h"
#include "kernel/fmha_options.hpp"
#include "kernel/fmha_tile_scheduler.hpp"
#include "kernel/sm100_fmha_fwd_kernel_tma_warpspecialized.hpp"
#include "launch.cuh"

using namespace cute;
using Element = cutlass::half_t;
using Heads = tuple<tuple<int, int>, int>;  // (query heads of a key head, key heads), batches
using Problem = tuple<int, int, int, Heads>;
using StrideQ = tuple<int, _1, tuple<tuple<int, int>, int>>;
using StrideK = tuple<int, _1, tuple<tuple<_0, int>, int>>;
using StrideLse = tuple<_1, tuple<tuple<int, int>, int>>;
using TileShape = Shape<_256, _128, Int<HEAD_DIM>>;
using Mainloop = cutlass::fmha::collective::Sm100FmhaFwdMainloopTmaWarpspecialized<Element, float, float, TileShape, StrideQ, StrideK,
                                                                                   StrideK, cutlass::fmha::collective::MASK>;
using Epilogue =
    cutlass::fmha::collective::Sm100FmhaFwdEpilogueTmaWarpspecialized<Element, float, typename Mainloop::TileShapePV, StrideQ, StrideLse>;
using Kernel = cutlass::fmha::kernel::Sm100FmhaFwdKernelTmaWarpspecialized<Problem, Mainloop, Epilogue,
                                                                           cutlass::fmha::kernel::IndividualTileScheduler>;

// q and o are [rows][heads][HEAD_DIM], k and v [columns][heads][HEAD_DIM], lse [heads][rows].
extern "C" int attention(int rows, int columns, int heads, Element const* q, Element const* k, Element const* v, Element* o, float* lse) {
  auto stride_q = make_stride(heads * HEAD_DIM, _1{}, make_stride(make_stride(HEAD_DIM, HEAD_DIM), 0));
  auto stride_k = make_stride(heads * HEAD_DIM, _1{}, make_stride(make_stride(_0{}, HEAD_DIM), 0));
  auto stride_lse = make_stride(_1{}, make_stride(make_stride(rows, rows), 0));
  cutlass::KernelHardwareInfo info;
  info.sm_count = cutlass::KernelHardwareInfo::query_device_multiprocessor_count();
  typename Kernel::Arguments arguments{make_tuple(rows, columns, HEAD_DIM, make_tuple(make_tuple(1, heads), 1)),
                                       {q, stride_q, k, stride_k, v, stride_k},
                                       {o, stride_q, lse, stride_lse},
                                       info};
  return launch<Kernel>(arguments, dim3(1));
}
