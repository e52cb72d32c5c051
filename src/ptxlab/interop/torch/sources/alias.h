// One memory, two tensors: a CUDA tensor's memory as a CPU tensor, and a CPU kernel's result as a CUDA tensor.
#pragma once

#include <ATen/core/Tensor.h>

namespace ptxlab {

// A CPU tensor over the memory of a CUDA tensor. It does not keep the memory alive.
at::Tensor host_alias(const at::Tensor& tensor);

// A CPU tensor over the memory of a CUDA tensor that keeps it alive.
at::Tensor host_view(const at::Tensor& tensor);

// The CUDA tensor with the storage given, and the sizes and flags of a CPU tensor.
at::Tensor on_device(const at::Tensor& host, c10::Storage storage);

// The storage of a CPU kernel's result, as one of the device: the same memory if it is on the heap, else a copy.
c10::Storage adopt(const at::Tensor& result, c10::Device device);

// Gives a CUDA tensor the memory and the sizes that its alias has after a kernel wrote to it.
void write_back(const at::Tensor& tensor, const at::Tensor& alias);

}  // namespace ptxlab
