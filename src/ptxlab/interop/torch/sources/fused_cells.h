// Cells of recurrent networks, which torch computes by operators of their own on a CUDA device only.
#pragma once

#include <ATen/ATen.h>

#include <tuple>

namespace ptxlab {

using MaybeTensor = std::optional<at::Tensor>;

// The new hidden state, the new cell state, and what the backward function needs.
std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates, const at::Tensor& cx,
                                                         const MaybeTensor& input_bias, const MaybeTensor& hidden_bias);
// The gradients of the gates, of the old cell state, and of the biases.
std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell_backward(const MaybeTensor& grad_hy, const MaybeTensor& grad_cy, const at::Tensor& cx,
                                                                  const at::Tensor& cy, const at::Tensor& workspace, bool has_bias);

// The new hidden state, and what the backward function needs.
std::tuple<at::Tensor, at::Tensor> gru_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates, const at::Tensor& hx,
                                            const MaybeTensor& input_bias, const MaybeTensor& hidden_bias);
// The gradients of both gates, of the old hidden state, and of both biases.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> gru_cell_backward(const at::Tensor& grad_hy,
                                                                                         const at::Tensor& workspace, bool has_bias);

}  // namespace ptxlab
