#include "scaled_products.h"

namespace ptxlab {
namespace {

// Scales of blocks lie in tiles of 128 rows and 4 columns; row 32 * i + j of a tile lies in line j, as part i of it.
constexpr int64_t kTileRows = 128, kTileColumns = 4, kTileLines = 32;
constexpr int64_t kNarrowBlock = 16, kWideBlock = 32;

int64_t rounded_up(int64_t size, int64_t unit) { return (size + unit - 1) / unit * unit; }

int64_t block_of(const at::Tensor& scale) { return scale.scalar_type() == at::kFloat8_e4m3fn ? kNarrowBlock : kWideBlock; }

int64_t columns_of_scales(int64_t columns, int64_t block) { return rounded_up((columns + block - 1) / block, kTileColumns); }

bool is_packed(const at::Tensor& matrix) { return matrix.scalar_type() == at::kFloat4_e2m1fn_x2; }

// The elements as float. A byte of fp4 has two elements of a row, the first in its lower half.
at::Tensor elements(const at::Tensor& rows) {
  if (!is_packed(rows)) return rows.to(at::kFloat);
  const at::Tensor positive = at::tensor({0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f}, rows.options().dtype(at::kFloat));
  const at::Tensor bytes = rows.contiguous().view(at::kByte).to(at::kLong);
  const at::Tensor codes = at::stack({bytes.bitwise_and(15), bytes.bitwise_right_shift(4)}, -1).flatten(1);
  return at::cat({positive, positive.neg()}).take(codes);
}

at::Tensor scales(const at::Tensor& given, int64_t rows, int64_t columns) {
  if (given.scalar_type() == at::kFloat) {
    if (given.numel() == 1) return given.reshape({1, 1});
    TORCH_CHECK_VALUE(given.dim() == 2 && rows % given.size(0) == 0 && columns % given.size(1) == 0, "Invalid scaling configuration.");
    return given.repeat_interleave(rows / given.size(0), 0).repeat_interleave(columns / given.size(1), 1);
  }
  const int64_t block = block_of(given);
  const int64_t all_rows = rounded_up(rows, kTileRows), all_columns = columns_of_scales(columns, block);
  TORCH_CHECK_VALUE(given.numel() == all_rows * all_columns && given.is_contiguous(), "Invalid scaling configuration.");
  const at::Tensor tiles = given.to(at::kFloat).view(
      {all_rows / kTileRows, all_columns / kTileColumns, kTileLines, kTileRows / kTileLines, kTileColumns});
  const at::Tensor blocks = tiles.permute({0, 3, 2, 1, 4}).reshape({all_rows, all_columns});
  return blocks.narrow(0, 0, rows).repeat_interleave(block, 1).narrow(1, 0, columns);
}

}  // namespace

at::Tensor scaled_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale_a, const at::Tensor& scale_b,
                          const std::optional<at::Tensor>& bias, const std::optional<at::Tensor>& scale_result,
                          std::optional<at::ScalarType> dtype, bool) {
  TORCH_CHECK(a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(0), "mat1 and mat2 shapes cannot be multiplied");
  const at::Tensor left = elements(a), right = elements(b.t());
  const at::Tensor scale_right = scale_b.scalar_type() == at::kFloat && scale_b.numel() > 1 ? scale_b.t() : scale_b;
  at::Tensor result = at::mm(left * scales(scale_a, left.size(0), left.size(1)),
                             (right * scales(scale_right, right.size(0), right.size(1))).t());
  if (bias && bias->defined()) result = result + *bias;
  if (scale_result && scale_result->defined()) result = result * *scale_result;
  return result.to(dtype.value_or(a.scalar_type()));
}

at::Tensor scaled_grouped_product(const at::Tensor& a, const at::Tensor& b, at::TensorList scale_a, at::IntArrayRef, at::IntArrayRef,
                                  at::TensorList scale_b, at::IntArrayRef, at::IntArrayRef, const std::optional<at::Tensor>& ends,
                                  const std::optional<at::Tensor>& bias, std::optional<at::ScalarType> dtype, at::IntArrayRef, bool) {
  TORCH_CHECK_NOT_IMPLEMENTED(a.dim() == 2 && b.dim() == 3 && ends && ends->defined() && !(bias && bias->defined()) &&
                                  scale_a.at(0).scalar_type() != at::kFloat,
                              "ptxlab's CUDA device multiplies groups of rows by one matrix each, with scales of blocks, only");
  const at::Tensor last = ends->cpu().to(at::kLong);
  const int64_t inner = b.size(1) * (is_packed(b) ? 2 : 1), columns = columns_of_scales(inner, block_of(scale_a[0]));
  const at::Tensor scales_of_rows = scale_a[0].flatten();
  std::vector<at::Tensor> parts;
  for (int64_t group = 0, row = 0, line = 0; group < b.size(0); ++group) {
    const int64_t count = last[group].item<int64_t>() - row, lines = rounded_up(count, kTileRows);
    at::Tensor part = scaled_product(a.narrow(0, row, count), b[group], scales_of_rows.narrow(0, line * columns, lines * columns),
                                     scale_b[0][group].flatten(), {}, {}, at::kFloat, false);
    for (const at::TensorList& scales_of_groups : {scale_a, scale_b})
      if (scales_of_groups.size() > 1) part = part * scales_of_groups[1][group];
    parts.push_back(part);
    row += count;
    line += lines;
  }
  return at::cat(parts).to(dtype.value_or(at::kBFloat16));
}

}  // namespace ptxlab
