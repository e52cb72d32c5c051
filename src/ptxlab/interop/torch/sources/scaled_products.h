// Products of scaled matrices of narrow types, which torch has for a CUDA device only.
#pragma once

#include <ATen/ATen.h>

namespace ptxlab {

// aten::_scaled_mm: one scale for all elements, one for each row, or one for each block of a row.
at::Tensor scaled_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale_a, const at::Tensor& scale_b,
                          const std::optional<at::Tensor>& bias, const std::optional<at::Tensor>& scale_result,
                          std::optional<at::ScalarType> dtype, bool fast_accumulation);

}  // namespace ptxlab
