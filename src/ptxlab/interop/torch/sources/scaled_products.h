// Products of scaled matrices of narrow types, which torch has for a CUDA device only.
#pragma once

#include <ATen/ATen.h>

namespace ptxlab {

// aten::_scaled_mm: one scale for all elements, one for each row, or one for each block of a row.
at::Tensor scaled_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale_a, const at::Tensor& scale_b,
                          const std::optional<at::Tensor>& bias, const std::optional<at::Tensor>& scale_result,
                          std::optional<at::ScalarType> dtype, bool fast_accumulation);

// aten::_scaled_grouped_mm_v2 for rows of `a` in groups that end at `ends`, each times a matrix of `b`, with scales of blocks.
at::Tensor scaled_grouped_product(const at::Tensor& a, const at::Tensor& b, at::TensorList scale_a, at::IntArrayRef recipe_a,
                                  at::IntArrayRef swizzle_a, at::TensorList scale_b, at::IntArrayRef recipe_b, at::IntArrayRef swizzle_b,
                                  const std::optional<at::Tensor>& ends, const std::optional<at::Tensor>& bias,
                                  std::optional<at::ScalarType> dtype, at::IntArrayRef contraction, bool fast_accumulation);

}  // namespace ptxlab
