#include "alias.h"

#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include <cstring>

#include "heap.h"

namespace ptxlab {
namespace {

// What a tensor says about its values, whatever its device.
constexpr c10::DispatchKeySet kFlags({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative, c10::DispatchKey::ZeroTensor});

at::Tensor with_storage(const at::Tensor& like, c10::Storage storage, c10::DispatchKey backend) {
  const auto keys = c10::DispatchKeySet(backend) | (like.key_set() & kFlags);
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), keys, like.dtype());
  auto* impl = tensor.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  if (like.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
  return tensor;
}

c10::Storage host_storage(const c10::Storage& storage, c10::DataPtr data) {
  return c10::Storage(c10::Storage::use_byte_size_t(), storage.nbytes(), std::move(data), c10::GetAllocator(c10::DeviceType::CPU),
                      storage.resizable());
}

void* memory_of(const c10::Storage& storage) { return const_cast<void*>(storage.data()); }

void release_storage(void* storage) { delete static_cast<c10::Storage*>(storage); }

// Turns memory that a CPU kernel allocated on the heap into device memory.
c10::DataPtr to_device(c10::DataPtr data, size_t bytes, c10::Device device) {
  if (is_on_heap(data)) {
    data.unsafe_set_device(device);
    return data;
  }
  const OnHeap guard(device.index());
  c10::DataPtr copy = c10::GetAllocator(c10::DeviceType::CPU)->allocate(bytes);
  if (bytes != 0) memcpy(copy.get(), data.get(), bytes);
  copy.unsafe_set_device(device);
  return copy;
}

}  // namespace

at::Tensor host_alias(const at::Tensor& tensor) {
  const c10::Storage& storage = tensor.storage();
  c10::DataPtr data(memory_of(storage), c10::Device(c10::DeviceType::CPU));
  return with_storage(tensor, host_storage(storage, std::move(data)), c10::DispatchKey::CPU);
}

at::Tensor host_view(const at::Tensor& tensor) {
  const c10::Storage& storage = tensor.storage();
  c10::DataPtr data(memory_of(storage), new c10::Storage(storage), &release_storage, c10::Device(c10::DeviceType::CPU));
  return with_storage(tensor, host_storage(storage, std::move(data)), c10::DispatchKey::CPU);
}

at::Tensor on_device(const at::Tensor& host, c10::Storage storage) {
  TORCH_CHECK_NOT_IMPLEMENTED(host.layout() == c10::kStrided, "ptxlab's CUDA device has no tensors of layout ", host.layout());
  return with_storage(host, std::move(storage), c10::DispatchKey::CUDA);
}

c10::Storage adopt(const at::Tensor& result, c10::Device device) {
  c10::Storage storage = result.storage();
  if (storage.device().is_cuda()) return storage;  // a second result with the same storage
  if (is_on_heap(storage.data_ptr())) {
    auto* impl = storage.unsafeGetStorageImpl();
    impl->set_data_ptr_noswap(to_device(std::move(impl->_mutable_data_ptr_no_checks()), storage.nbytes(), device));
    impl->set_allocator(device_allocator());
    return storage;
  }
  const at::Tensor& kept = result;
  c10::DataPtr borrowed(memory_of(kept.storage()), device);
  return c10::Storage(c10::Storage::use_byte_size_t(), storage.nbytes(), to_device(std::move(borrowed), storage.nbytes(), device),
                      device_allocator(), true);
}

void write_back(const at::Tensor& tensor, const at::Tensor& alias) {
  auto* device_side = tensor.storage().unsafeGetStorageImpl();
  auto* host_side = alias.storage().unsafeGetStorageImpl();
  if (host_side->data() != device_side->data() || host_side->nbytes() != device_side->nbytes()) {
    const size_t bytes = host_side->nbytes();
    auto data = to_device(std::move(host_side->_mutable_data_ptr_no_checks()), bytes, tensor.device());
    device_side->set_data_ptr_noswap(std::move(data));
    device_side->set_nbytes(bytes);
  }
  if (tensor.sizes() != alias.sizes() || tensor.strides() != alias.strides() || tensor.storage_offset() != alias.storage_offset())
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(alias.sizes(), alias.strides(), alias.storage_offset());
}

}  // namespace ptxlab
