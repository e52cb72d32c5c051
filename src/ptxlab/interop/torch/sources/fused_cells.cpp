#include "fused_cells.h"

namespace ptxlab {
namespace {

constexpr int64_t kLstmGates = 4, kGruGates = 3, kGruSaved = 5;

at::Tensor with_bias(const at::Tensor& gates, const MaybeTensor& bias) { return bias && bias->defined() ? gates + *bias : gates; }

at::Tensor sigmoid_slope(const at::Tensor& value) { return value * (1 - value); }
at::Tensor tanh_slope(const at::Tensor& value) { return 1 - value * value; }

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates, const at::Tensor& cx,
                                                         const MaybeTensor& input_bias, const MaybeTensor& hidden_bias) {
  const auto gates = (with_bias(input_gates, input_bias) + with_bias(hidden_gates, hidden_bias)).chunk(kLstmGates, 1);
  const at::Tensor in = gates[0].sigmoid(), forget = gates[1].sigmoid(), cell = gates[2].tanh(), out = gates[3].sigmoid();
  const at::Tensor cy = forget * cx + in * cell;
  return {out * cy.tanh(), cy, at::cat({in, forget, cell, out}, 1)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell_backward(const MaybeTensor& grad_hy, const MaybeTensor& grad_cy, const at::Tensor& cx,
                                                                  const at::Tensor& cy, const at::Tensor& workspace, bool has_bias) {
  const auto saved = workspace.chunk(kLstmGates, 1);
  const at::Tensor &in = saved[0], &forget = saved[1], &cell = saved[2], &out = saved[3];
  const at::Tensor grad_h = grad_hy && grad_hy->defined() ? *grad_hy : at::zeros_like(cy);
  const at::Tensor tanh_c = cy.tanh();
  at::Tensor grad_c = grad_h * out * tanh_slope(tanh_c);
  if (grad_cy && grad_cy->defined()) grad_c = grad_c + *grad_cy;
  const at::Tensor gates = at::cat({grad_c * cell * sigmoid_slope(in), grad_c * cx * sigmoid_slope(forget), grad_c * in * tanh_slope(cell),
                                    grad_h * tanh_c * sigmoid_slope(out)},
                                   1);
  return {gates, grad_c * forget, has_bias ? gates.sum(0) : at::Tensor()};
}

std::tuple<at::Tensor, at::Tensor> gru_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates, const at::Tensor& hx,
                                            const MaybeTensor& input_bias, const MaybeTensor& hidden_bias) {
  const auto input = with_bias(input_gates, input_bias).chunk(kGruGates, 1);
  const auto hidden = with_bias(hidden_gates, hidden_bias).chunk(kGruGates, 1);
  const at::Tensor reset = (input[0] + hidden[0]).sigmoid(), update = (input[1] + hidden[1]).sigmoid();
  const at::Tensor fresh = (input[2] + reset * hidden[2]).tanh();
  return {fresh + update * (hx - fresh), at::cat({reset, update, fresh, hx, hidden[2]}, 1)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> gru_cell_backward(const at::Tensor& grad_hy,
                                                                                         const at::Tensor& workspace, bool has_bias) {
  const auto saved = workspace.chunk(kGruSaved, 1);
  const at::Tensor &reset = saved[0], &update = saved[1], &fresh = saved[2], &hx = saved[3], &hidden = saved[4];
  const at::Tensor grad_fresh = grad_hy * (1 - update) * tanh_slope(fresh);
  const at::Tensor grad_reset = grad_fresh * hidden * sigmoid_slope(reset);
  const at::Tensor grad_update = grad_hy * (hx - fresh) * sigmoid_slope(update);
  const at::Tensor input = at::cat({grad_reset, grad_update, grad_fresh}, 1);
  const at::Tensor gates = at::cat({grad_reset, grad_update, grad_fresh * reset}, 1);
  return {input, gates, grad_hy * update, has_bias ? input.sum(0) : at::Tensor(), has_bias ? gates.sum(0) : at::Tensor()};
}

}  // namespace ptxlab
