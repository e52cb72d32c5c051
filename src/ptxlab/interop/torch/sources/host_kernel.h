// Operators on CUDA tensors by torch's CPU kernels, on the same memory.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>

namespace ptxlab {

// Calls one operator's CPU kernel: its tensors are replaced by CPU aliases, its results become CUDA tensors.
class HostKernel final : public c10::OperatorKernel {
 public:
  explicit HostKernel(const c10::OperatorHandle& op);
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, c10::Stack* stack);

 private:
  enum class Kind : uint8_t { other, tensor, tensors, optional_tensors, generator, device };
  struct Argument {
    Kind kind;
    bool written;
  };
  class Call;

  std::vector<Argument> arguments_;
  std::vector<int> returned_arguments_;  // for each result: the argument that it is, or -1
  std::string name_;
  bool cpu_tensors_allowed_;
  bool takes_a_part_;     // of its first argument
  bool is_view_ = false;  // its result shares the memory of an argument, which it does not access
  bool waits_;            // the program needs to know values, and waits for the stream
};

// Registers a host kernel for every operator that has a CPU kernel, except for those named.
void register_host_kernels(const std::vector<std::string>& except);

}  // namespace ptxlab
