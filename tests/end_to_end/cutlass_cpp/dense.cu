// D = alpha A B^T + beta C with TMA, warp specialisation and one accumulator type, for sm_90a and sm_100a.
//
// Macros: ARCH, ELEMENT (of A and B), OUTPUT (of C and D), TILE_M, TILE_N, TILE_K, CLUSTER_M, CLUSTER_N, MAINLOOP and EPILOGUE (the
// schedules), SCHEDULER (of the tiles).

#include "gemm.cuh"

using Element = ELEMENT;
using Output = OUTPUT;
using RowMajor = cutlass::layout::RowMajor;
using ColumnMajor = cutlass::layout::ColumnMajor;
using TensorOp = cutlass::arch::OpClassTensorOp;
using TileShape = cute::Shape<cute::Int<TILE_M>, cute::Int<TILE_N>, cute::Int<TILE_K>>;
using ClusterShape = cute::Shape<cute::Int<CLUSTER_M>, cute::Int<CLUSTER_N>, cute::_1>;
constexpr int kAlignment = 16 / sizeof(Element);
constexpr int kAlignmentOutput = 16 / sizeof(Output);

using Epilogue = cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::ARCH, TensorOp, TileShape, ClusterShape, cutlass::epilogue::collective::EpilogueTileAuto, float, float, Output, RowMajor,
    kAlignmentOutput, Output, RowMajor, kAlignmentOutput, cutlass::epilogue::EPILOGUE>::CollectiveOp;
using Mainloop = cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::ARCH, TensorOp, Element, RowMajor, kAlignment, Element, ColumnMajor, kAlignment, float, TileShape, ClusterShape,
    cutlass::gemm::collective::StageCountAutoCarveout<int(sizeof(typename Epilogue::SharedStorage))>, cutlass::gemm::MAINLOOP>::CollectiveOp;
using Kernel = cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>, Mainloop, Epilogue, SCHEDULER>;

extern "C" int gemm(int m, int n, int k, Element const* a, Element const* b, Output const* c, Output* d, double alpha, double beta,
                    int splits) {
  auto stride_a = cutlass::make_cute_packed_stride(typename Kernel::StrideA{}, {m, k, 1});
  auto stride_b = cutlass::make_cute_packed_stride(typename Kernel::StrideB{}, {n, k, 1});
  auto stride_d = cutlass::make_cute_packed_stride(typename Kernel::StrideD{}, {m, n, 1});
  typename Kernel::Arguments arguments{cutlass::gemm::GemmUniversalMode::kGemm,
                                       {m, n, k, 1},
                                       {a, stride_a, b, stride_b},
                                       {{float(alpha), float(beta)}, c, stride_d, d, stride_d}};
  arguments.hw_info.sm_count = cutlass::KernelHardwareInfo::query_device_multiprocessor_count();
#ifdef STREAM_K
  arguments.scheduler.splits = splits;
#endif
  return launch<Kernel>(arguments, dim3(CLUSTER_M, CLUSTER_N));
}
