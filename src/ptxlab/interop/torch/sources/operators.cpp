#include "operators.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_fused_sdp_choice_native.h>
#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/jit/frontend/function_schema_parser.h>
#include <torch/library.h>

#include "accesses.h"
#include "alias.h"
#include "capture.h"
#include "fused_cells.h"
#include "devices.h"
#include "generator.h"
#include "heap.h"
#include "scaled_products.h"

namespace ptxlab {
namespace {

constexpr c10::DispatchKeySet kCudaKeys(c10::DispatchKey::CUDA);
using Sizes = c10::SymIntArrayRef;

template <class T>
using Maybe = std::optional<T>;

at::Tensor empty(Sizes sizes, Maybe<at::ScalarType> dtype, Maybe<at::Layout> layout, Maybe<at::Device> device, Maybe<bool> pinned,
                 Maybe<at::MemoryFormat> format) {
  TORCH_CHECK(!c10::pinned_memory_or_default(pinned), "Only dense CPU tensors can be pinned");
  TORCH_CHECK_NOT_IMPLEMENTED(c10::layout_or_default(layout) == c10::kStrided, "ptxlab's CUDA device has no tensors of layout ", *layout);
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(sizes), device_allocator(), kCudaKeys, c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(Sizes sizes, Sizes strides, Maybe<at::ScalarType> dtype, Maybe<at::Layout>, Maybe<at::Device> device,
                         Maybe<bool> pinned) {
  TORCH_CHECK(!c10::pinned_memory_or_default(pinned), "Only dense CPU tensors can be pinned");
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_strided_generic(C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides), device_allocator(), kCudaKeys,
                                           c10::dtype_or_default(dtype));
}

at::Tensor zero_tensor(Sizes sizes, Maybe<at::ScalarType> dtype, Maybe<at::Layout>, Maybe<at::Device> device, Maybe<bool>) {
  const auto index = device && device->has_index() ? device->index() : current_device();
  at::native::ZeroTensorAllocator nothing(at::Device(at::kCUDA, index));
  return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(sizes), &nothing, kCudaKeys | c10::DispatchKeySet(c10::DispatchKey::ZeroTensor),
                                   c10::dtype_or_default(dtype), std::nullopt);
}

at::Tensor as_strided(const at::Tensor& self, Sizes sizes, Sizes strides, Maybe<c10::SymInt> offset) {
  return at::native::as_strided_tensorimpl(self, C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides),
                                           offset ? Maybe<int64_t>(offset->expect_int()) : std::nullopt);
}

at::Tensor view(const at::Tensor& self, Sizes sizes) { return at::native::view(self, C10_AS_INTARRAYREF_SLOW(sizes)); }

at::Tensor reshape_alias(const at::Tensor& self, Sizes sizes, Sizes strides) {
  return at::native::_reshape_alias(self, C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides));
}

const at::Tensor& resize(const at::Tensor& self, Sizes sizes, Maybe<at::MemoryFormat> format) {
  const c10::DeviceGuard guard(self.device());
  return at::native::resize_(self, C10_AS_INTARRAYREF_SLOW(sizes), format);
}

at::Tensor& set_part_of_storage(at::Tensor& self, at::Storage source, c10::SymInt offset, Sizes sizes, Sizes strides) {
  return at::native::set_storage_cpu_(self, std::move(source), offset.expect_int(), C10_AS_INTARRAYREF_SLOW(sizes),
                                      C10_AS_INTARRAYREF_SLOW(strides));
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source) { return at::native::set_(self, std::move(source)); }
at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) { return at::native::set_tensor_(self, source); }

at::Tensor& set_empty(at::Tensor& self) {
  const c10::DeviceGuard guard(self.device());
  c10::Storage nothing(c10::Storage::use_byte_size_t(), 0, device_allocator(), true);
  return self.set_(std::move(nothing), 0, {0}, {});
}

at::Tensor host_side(const at::Tensor& tensor) { return tensor.is_cuda() ? host_alias(tensor) : tensor; }

void wait_for(StreamHandle stream, StreamHandle other, c10::DeviceIndex device_of_other) {
  void* event = driver().create_event(device_of_other);
  driver().record_event(event, other);
  driver().wait_for_event(stream, event);
  driver().destroy_event(event);
}

// A copy is work of the stream of one device; between two devices it is also behind, and before, the work of the other's stream.
void copy_in_stream(const at::Tensor& target, const at::Tensor& source) {
  const c10::DeviceIndex device = (source.is_cuda() ? source : target).device().index();
  const bool between = source.is_cuda() && target.is_cuda() && target.device() != source.device();
  begin_work(device);
  if (between) begin_work(target.device().index());
  host_side(target).copy_(host_side(source));
  Accesses accesses;
  if (source.is_cuda()) accesses.read(source);
  if (target.is_cuda()) accesses.write(target);
  if (!between) return accesses.end_work(device, "aten::copy_");
  const StreamHandle own = current_stream(device), other = current_stream(target.device().index());
  wait_for(own, other, target.device().index());
  accesses.end_work(device, "aten::copy_");
  wait_for(other, own, device);
}

at::Tensor& copy(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  if (Recording* recording = active_recording()) {
    recording->add([target = self, source] {
      const at::AutoDispatchBelowADInplaceOrView below_autograd;
      copy_in_stream(target, source);
    });
    return self;
  }
  copy_in_stream(self, source);
  // The program waits for copies from and to its own memory, unless it asks for another kind, which there is to pinned memory only.
  const bool waits = self.is_cpu() ? !non_blocking || !is_pinned(self.const_data_ptr()) : source.is_cpu() && !non_blocking;
  if (waits) driver().synchronize_stream(current_stream((self.is_cpu() ? source : self).device().index()));
  return self;
}

at::Scalar scalar_of(const at::Tensor& self) {
  refuse_during_capture();
  const c10::DeviceIndex device = self.device().index();
  begin_work(device);
  const at::Scalar value = at::native::_local_scalar_dense_cpu(self);
  Accesses accesses;
  accesses.read(self);
  accesses.end_work(device, "aten::_local_scalar_dense");
  driver().synchronize_stream(current_stream(device));
  return value;
}

void record_stream(at::Tensor& self, at::Stream stream) { record_use(self.storage().data_ptr(), stream.id()); }

std::tuple<at::Tensor, at::Tensor> dropout(const at::Tensor& input, double probability, Maybe<bool> train) {
  if (input.numel() == 0) return {input, at::empty_like(input, input.options())};
  const bool training = train.value_or(true);
  if (!training || probability == 0) return {input.clone(), at::ones_like(input, input.options().dtype(at::kBool))};
  if (probability == 1) return {at::zeros_like(input), at::zeros_like(input, input.options().dtype(at::kBool))};
  const double kept = 1 - probability;
  at::Tensor mask = at::empty_like(input, input.options().dtype(at::kBool));
  mask.bernoulli_(kept);
  return {input.mul(mask).mul_(1 / kept), mask};
}

bool has_no_library_for_ctc_loss(const at::Tensor&, const at::Tensor&, at::IntArrayRef, at::IntArrayRef, int64_t) { return false; }
bool has_no_library_for_ctc_loss_of_tensors(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, int64_t) { return false; }

template <class Result, class... Arguments>
bool has_as_many_arguments(const c10::OperatorHandle& op, Result (*)(Arguments...)) {
  return op.hasSchema() && op.schema().arguments().size() == sizeof...(Arguments);
}

}  // namespace

std::vector<std::string> register_operators() {
  static auto* library = new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::CUDA, __FILE__, __LINE__);
  std::vector<std::string> names;
  const auto add = [&names](const char* name, auto* function) {
    const auto op = c10::Dispatcher::singleton().findOp(torch::jit::parseName(name));
    if (!op || !has_as_many_arguments(*op, function)) return;  // versions of torch have different operators
    library->impl(name, function);
    names.push_back(name);
  };
  add("aten::empty.memory_format", &empty);
  add("aten::empty_strided", &empty_strided);
  add("aten::_efficientzerotensor", &zero_tensor);
  add("aten::as_strided", &as_strided);
  add("aten::view", &view);
  add("aten::_reshape_alias", &reshape_alias);
  add("aten::unfold", &at::native::unfold);
  add("aten::resize_", &resize);
  add("aten::set_.source_Storage_storage_offset", &set_part_of_storage);
  add("aten::set_.source_Storage", &set_storage);
  add("aten::set_.source_Tensor", &set_tensor);
  add("aten::set_", &set_empty);
  add("aten::is_set_to", &at::native::is_set_to);
  add("aten::copy_", &copy);
  add("aten::_local_scalar_dense", &scalar_of);
  add("aten::record_stream", &record_stream);
  add("aten::native_dropout", &dropout);
  add("aten::_scaled_mm", &scaled_product);
  add("aten::_scaled_grouped_mm_v2", &scaled_grouped_product);
  for (const char* name : {"aten::_use_cudnn_ctc_loss", "aten::_use_miopen_ctc_loss"}) add(name, &has_no_library_for_ctc_loss);
  for (const char* name : {"aten::_use_cudnn_ctc_loss.Tensor", "aten::_use_miopen_ctc_loss.Tensor"})
    add(name, &has_no_library_for_ctc_loss_of_tensors);
  add("aten::_thnn_fused_lstm_cell", &lstm_cell);
  add("aten::_thnn_fused_lstm_cell_backward_impl", &lstm_cell_backward);
  add("aten::_thnn_fused_gru_cell", &gru_cell);
  add("aten::_thnn_fused_gru_cell_backward", &gru_cell_backward);
  return names;
}

}  // namespace ptxlab
