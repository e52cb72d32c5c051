#include "accesses.h"

#include <algorithm>
#include <utility>

#include "devices.h"

namespace ptxlab {
namespace {

constexpr size_t kMostRuns = 256;

}  // namespace

// A tensor is a run of bytes for each index of the dimensions that leave gaps. Of many runs the first ones count.
void Accesses::add(const at::Tensor& tensor, bool written) {
  if (!tensor.defined() || tensor.layout() != c10::kStrided || tensor.numel() == 0) return;
  const auto start = reinterpret_cast<uint64_t>(tensor.const_data_ptr());
  if (start == 0) return;
  const auto element = static_cast<uint64_t>(tensor.element_size());
  c10::SmallVector<std::pair<uint64_t, uint64_t>, 8> dimensions;  // bytes of a step, and how many there are
  for (int64_t d = 0; d < tensor.dim(); ++d)
    if (tensor.size(d) > 1 && tensor.stride(d) != 0)
      dimensions.emplace_back(static_cast<uint64_t>(tensor.stride(d)) * element, static_cast<uint64_t>(tensor.size(d)));
  std::sort(dimensions.begin(), dimensions.end());
  uint64_t run = element;
  size_t outer = 0;
  for (; outer < dimensions.size() && dimensions[outer].first <= run; ++outer)
    run += dimensions[outer].first * (dimensions[outer].second - 1);
  size_t runs = 1;
  for (size_t d = outer; d < dimensions.size() && runs < kMostRuns; ++d) runs *= dimensions[d].second;
  for (size_t i = 0; i < std::min(runs, kMostRuns); ++i) {
    uint64_t at = start;
    size_t left = i;
    for (size_t d = outer; d < dimensions.size(); left /= dimensions[d++].second) at += left % dimensions[d].second * dimensions[d].first;
    found_.push_back({at, at + run, written, 0});
  }
}

void Accesses::end_work(c10::DeviceIndex device, const char* what) {
  std::sort(found_.begin(), found_.end(), [](const Access& one, const Access& other) { return one.low < other.low; });
  driver().end_work(device, current_stream(device), what, found_.data(), found_.size());
}

void begin_work(c10::DeviceIndex device) { driver().begin_work(device, current_stream(device)); }

}  // namespace ptxlab
