// D[g] = A[g] B[g]^T for problems of different sizes in one launch: tensor maps are changed on the device.
//
// Macros: ARCH, TILE_M, TILE_N, TILE_K, MAINLOOP and EPILOGUE (the schedules).

#include <vector>

#include "cutlass/gemm/group_array_problem_shape.hpp"
#include "gemm.cuh"

using Element = cutlass::half_t;
using Output = float;
using RowMajor = cutlass::layout::RowMajor;
using ColumnMajor = cutlass::layout::ColumnMajor;
using TensorOp = cutlass::arch::OpClassTensorOp;
using TileShape = cute::Shape<cute::Int<TILE_M>, cute::Int<TILE_N>, cute::Int<TILE_K>>;
using ClusterShape = cute::Shape<cute::_1, cute::_1, cute::_1>;
using Problem = cutlass::gemm::GroupProblemShape<cute::Shape<int, int, int>>;

using Epilogue = cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::ARCH, TensorOp, TileShape, ClusterShape, cutlass::epilogue::collective::EpilogueTileAuto, float, float, Output,
    RowMajor*, 4, Output, RowMajor*, 4, cutlass::epilogue::EPILOGUE>::CollectiveOp;
using Mainloop = cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::ARCH, TensorOp, Element, RowMajor*, 8, Element, ColumnMajor*, 8, float, TileShape, ClusterShape,
    cutlass::gemm::collective::StageCountAutoCarveout<int(sizeof(typename Epilogue::SharedStorage))>, cutlass::gemm::MAINLOOP>::CollectiveOp;
using Kernel = cutlass::gemm::kernel::GemmUniversal<Problem, Mainloop, Epilogue>;

template <class T>
T* on_device(std::vector<T> const& values) {
  void* copy = nullptr;
  if (cudaMalloc(&copy, values.size() * sizeof(T)) != cudaSuccess) return nullptr;
  cudaMemcpy(copy, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice);
  return static_cast<T*>(copy);
}

// `sizes` holds m, n, k of each problem, `a`, `b`, `d` device addresses; all of them are host arrays.
extern "C" int gemm(int groups, int const* sizes, Element const** a, Element const** b, Output** d) {
  using Shape = typename Problem::UnderlyingProblemShape;
  std::vector<Shape> shapes;
  std::vector<typename Kernel::InternalStrideA> strides_a;
  std::vector<typename Kernel::InternalStrideB> strides_b;
  std::vector<typename Kernel::InternalStrideD> strides_d;
  for (int g = 0; g < groups; g++) {
    int m = sizes[3 * g], n = sizes[3 * g + 1], k = sizes[3 * g + 2];
    shapes.push_back({m, n, k});
    strides_a.push_back(cutlass::make_cute_packed_stride(typename Kernel::InternalStrideA{}, {m, k, 1}));
    strides_b.push_back(cutlass::make_cute_packed_stride(typename Kernel::InternalStrideB{}, {n, k, 1}));
    strides_d.push_back(cutlass::make_cute_packed_stride(typename Kernel::InternalStrideD{}, {m, n, 1}));
  }
  typename Kernel::Arguments arguments{};
  arguments.mode = cutlass::gemm::GemmUniversalMode::kGrouped;
  arguments.problem_shape = {groups, on_device(shapes), shapes.data()};
  arguments.mainloop = {on_device(std::vector(a, a + groups)), on_device(strides_a), on_device(std::vector(b, b + groups)),
                        on_device(strides_b)};
  arguments.epilogue.thread.alpha = 1.f;
  arguments.epilogue.thread.beta = 0.f;
  arguments.epilogue.ptr_C = nullptr;
  arguments.epilogue.dC = on_device(strides_d);
  arguments.epilogue.ptr_D = on_device(std::vector(d, d + groups));
  arguments.epilogue.dD = on_device(strides_d);
  arguments.hw_info.sm_count = cutlass::KernelHardwareInfo::query_device_multiprocessor_count();
  return launch<Kernel>(arguments, dim3(1));
}
