// D = A B^T with a scale factor for each 16 or 32 elements along K, for sm_100a.
//
// Macros: PAIR (the pair of element and scale types of A and B), TILE_M, TILE_N, TILE_K, CLUSTER_M, MAINLOOP, EPILOGUE.

#include "gemm.cuh"

using Pair = PAIR;
using Element = typename Pair::DataType;
using Scale = typename Pair::ScaleFactorType;
using RowMajor = cutlass::layout::RowMajor;
using ColumnMajor = cutlass::layout::ColumnMajor;
using Sm100 = cutlass::arch::Sm100;
using ScaledTensorOp = cutlass::arch::OpClassBlockScaledTensorOp;
using TileShape = cute::Shape<cute::Int<TILE_M>, cute::Int<TILE_N>, cute::Int<TILE_K>>;
using ClusterShape = cute::Shape<cute::Int<CLUSTER_M>, cute::_1, cute::_1>;
constexpr int kAlignment = 128 / cute::sizeof_bits_v<Element>;

using Epilogue = cutlass::epilogue::collective::CollectiveBuilder<Sm100, ScaledTensorOp, TileShape, ClusterShape,
                                                                  cutlass::epilogue::collective::EpilogueTileAuto, float, float, float,
                                                                  RowMajor, 4, float, RowMajor, 4,
                                                                  cutlass::epilogue::EPILOGUE>::CollectiveOp;
using Mainloop = cutlass::gemm::collective::CollectiveBuilder<
    Sm100, ScaledTensorOp, Pair, RowMajor, kAlignment, Pair, ColumnMajor, kAlignment, float, TileShape, ClusterShape,
    cutlass::gemm::collective::StageCountAutoCarveout<int(sizeof(typename Epilogue::SharedStorage))>, cutlass::gemm::MAINLOOP>::CollectiveOp;
using Kernel = cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>, Mainloop, Epilogue, void>;

extern "C" int gemm(int m, int n, int k, Element const* a, Scale const* scale_a, Element const* b, Scale const* scale_b, float* d) {
  auto stride_a = cutlass::make_cute_packed_stride(typename Kernel::StrideA{}, {m, k, 1});
  auto stride_b = cutlass::make_cute_packed_stride(typename Kernel::StrideB{}, {n, k, 1});
  auto stride_d = cutlass::make_cute_packed_stride(typename Kernel::StrideD{}, {m, n, 1});
  using Scales = typename Mainloop::Sm1xxBlkScaledConfig;
  auto layout_a = Scales::tile_atom_to_shape_SFA(cute::make_shape(m, n, k, 1));
  auto layout_b = Scales::tile_atom_to_shape_SFB(cute::make_shape(m, n, k, 1));
  typename Kernel::Arguments arguments{cutlass::gemm::GemmUniversalMode::kGemm,
                                       {m, n, k, 1},
                                       {a, stride_a, b, stride_b, scale_a, layout_a, scale_b, layout_b},
                                       {{1.f, 0.f}, nullptr, stride_d, d, stride_d}};
  return launch<Kernel>(arguments, dim3(CLUSTER_M));
}
