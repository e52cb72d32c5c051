#include "host_kernel.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/SmallVector.h>
#include <ATen/core/enum_tag.h>
#include <torch/library.h>

#include <algorithm>
#include <unordered_set>

#include "accesses.h"
#include "alias.h"
#include "capture.h"
#include "devices.h"
#include "generator.h"
#include "heap.h"

namespace ptxlab {
namespace {

constexpr c10::DispatchKeySet kCpuKeys(c10::DispatchKey::CPU);

// Operators that take CPU tensors beside CUDA tensors on a GPU too: indices, lengths.
const std::unordered_set<std::string> kTakeCpuTensors = {
    "aten::index.Tensor",      "aten::index.Tensor_out",     "aten::index_put_",          "aten::_index_put_impl_",
    "aten::_unsafe_index.Tensor", "aten::_ctc_loss",         "aten::_ctc_loss.Tensor",    "aten::_fused_adam_",
    "aten::_fused_adam_.tensor_lr", "aten::_fused_adamw_",   "aten::_fused_adamw_.tensor_lr", "aten::_fused_sgd_",
    "aten::_fused_sgd_.tensor_lr",
};

// Operators whose composite kernels choose functions of CUDA libraries, or call one operator for each of many tensors.
bool is_taken_whole(const std::string& name) {
  static const std::unordered_set<std::string> names = {"aten::convolution", "aten::convolution_backward"};
  return names.count(name) != 0 || name.rfind("aten::_foreach_", 0) == 0;
}

// Operators that access a part of their first argument, which indices choose.
bool takes_a_part(const std::string& name) {
  for (const char* word : {"index", "scatter", "gather", "put_", "take", "embedding", "masked_fill_"})
    if (name.find(word) != std::string::npos) return true;
  return false;
}

std::string full_name(const c10::OperatorName& name) {
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

bool given(const c10::IValue& value) { return value.isTensor() && value.toTensor().defined(); }

// Makes the arguments float that are tensors.
void make_float(c10::Stack& stack, size_t first) {
  for (size_t i = first; i < stack.size(); ++i)
    if (given(stack[i])) stack[i] = stack[i].toTensor().to(at::kFloat);
}

// Operators that a GPU computes in float for 16-bit tensors, and rounds once.
//
// Layer normalisation: the CPU's kernels keep means in 16 bits and add up gradients in 16 bits. Products of matrices: on processors without
// instructions for 16-bit types, the CPU's kernels multiply hundreds of times slower than in float.
//
// Makes the arguments float, and returns the types of the results; nothing for other calls.
std::vector<at::ScalarType> widen(const c10::OperatorHandle& op, c10::Stack& stack) {
  static const std::unordered_set<std::string> products = {"aten::mm", "aten::bmm", "aten::addmm", "aten::baddbmm"};
  const c10::OperatorName& name = op.operator_name();
  const bool forward = name.name == "aten::native_layer_norm", product = products.count(name.name) != 0;
  if (!name.overload_name.empty() || (!forward && !product && name.name != "aten::native_layer_norm_backward")) return {};
  const size_t first = stack.size() - op.schema().arguments().size();
  const at::ScalarType type = stack[first + (forward || product ? 0 : 1)].toTensor().scalar_type();
  if (!at::isReducedFloatingType(type)) return {};
  if (product) {
    if (type != at::kHalf && type != at::kBFloat16) return {};
    for (size_t i = first; i < stack.size(); ++i)  // what the CPU refuses stays as it is
      if (given(stack[i]) && stack[i].toTensor().scalar_type() != type) return {};
    make_float(stack, first);
    return {type};
  }
  const c10::IValue& weight = stack[first + (forward ? 2 : 5)];
  const at::ScalarType weight_type = given(weight) ? weight.toTensor().scalar_type() : type;
  make_float(stack, first);
  if (forward) return {type, at::kFloat, at::kFloat};
  return {type, weight_type, weight_type};
}

void call_host_kernel(const c10::OperatorHandle& op, c10::Device device, c10::Stack* stack) {
  const OnHeap heap(device.index());
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const std::vector<at::ScalarType> types = widen(op, *stack);
  op.redispatchBoxed(kCpuKeys, stack);
  for (size_t i = 0; i < types.size(); ++i) {
    c10::IValue& result = (*stack)[stack->size() - types.size() + i];
    if (result.isTensor() && result.toTensor().defined()) result = result.toTensor().to(types[i]);
  }
}

const c10::Type& without_optional(const c10::Type& type) {
  return type.kind() == c10::TypeKind::OptionalType ? *type.containedType(0) : type;
}

}  // namespace

HostKernel::HostKernel(const c10::OperatorHandle& op)
    : name_(full_name(op.operator_name())),
      cpu_tensors_allowed_(kTakeCpuTensors.count(name_) != 0),
      takes_a_part_(takes_a_part(name_)),
      waits_(op.hasTag(at::Tag::dynamic_output_shape) || op.hasTag(at::Tag::data_dependent_output)) {
  const c10::FunctionSchema& schema = op.schema();
  for (const auto& argument : schema.arguments()) {
    const c10::Type& type = without_optional(*argument.type());
    Kind kind = Kind::other;
    if (type.kind() == c10::TypeKind::TensorType) kind = Kind::tensor;
    if (type.kind() == c10::TypeKind::GeneratorType) kind = Kind::generator;
    if (type.kind() == c10::TypeKind::DeviceObjType) kind = Kind::device;
    if (type.kind() == c10::TypeKind::ListType) {
      const c10::Type& element = *type.containedType(0);
      if (element.kind() == c10::TypeKind::TensorType) kind = Kind::tensors;
      if (element.kind() == c10::TypeKind::OptionalType && element.containedType(0)->kind() == c10::TypeKind::TensorType)
        kind = Kind::optional_tensors;
    }
    arguments_.push_back({kind, argument.alias_info() != nullptr && argument.alias_info()->isWrite()});
  }
  for (const auto& result : schema.returns()) {
    int found = -1;
    is_view_ |= result.alias_info() != nullptr && !result.alias_info()->isWrite();
    if (result.alias_info() != nullptr && result.alias_info()->isWrite())
      for (size_t i = 0; i < arguments_.size(); ++i) {
        const auto* alias = schema.arguments()[i].alias_info();
        if (alias != nullptr && *alias == *result.alias_info()) found = static_cast<int>(i);
      }
    returned_arguments_.push_back(found);
  }
}

// The tensors of one call, as the program gave them and as the CPU kernel sees them.
class HostKernel::Call {
 public:
  Call(const HostKernel& kernel, const c10::OperatorHandle& op, c10::Stack* stack)
      : kernel_(kernel), op_(op), stack_(stack), first_(stack->size() - kernel.arguments_.size()), device_(find_device()) {}

  void run() {
    for (size_t i = 0; i < kernel_.arguments_.size(); ++i) replace(argument(i), kernel_.arguments_[i]);
    for (const int argument : kernel_.returned_arguments_) returned_.push_back(argument < 0 ? at::Tensor() : given_[argument]);
    if (Recording* recording = active_recording()) {
      record(*recording);
      return;
    }
    begin_work(device_.index());
    call_host_kernel(op_, device_, stack_);
    for (const Operand& operand : operands_)
      if (operand.written) write_back(operand.given, operand.host);
    finish_results();
    if (kernel_.is_view_) return;
    end_work();
    if (kernel_.waits_ && (!kernel_.takes_a_part_ || has_mask())) driver().synchronize_stream(current_stream(device_.index()));
  }

 private:
  struct Operand {
    at::Tensor given, host;
    bool written;
  };

  c10::IValue& argument(size_t i) { return (*stack_)[first_ + i]; }

  // Tells the driver what the operator has accessed in its stream.
  void end_work() {
    Accesses accesses;
    for (size_t i = 0; i < operands_.size(); ++i) {
      const Operand& operand = operands_[i];
      if (!operand.given.defined() || (i == 0 && kernel_.takes_a_part_)) continue;
      operand.written ? accesses.write(operand.given) : accesses.read(operand.given);
    }
    for (size_t i = 0; i < returned_.size(); ++i) {
      const c10::IValue& value = result(i);
      if (returned_[i].defined()) continue;
      if (value.isTensor() && is_fresh(value.toTensor())) accesses.write(value.toTensor());
      if (value.isTensorList())
        for (const at::Tensor& tensor : value.toTensorVector())
          if (is_fresh(tensor)) accesses.write(tensor);
    }
    accesses.end_work(device_.index(), kernel_.name_.c_str());
  }

  // Whether a mask chooses elements: how many there are is known to the program only when the device has counted them.
  bool has_mask() const {
    return std::any_of(operands_.begin(), operands_.end(), [](const Operand& operand) {
      return operand.given.defined() && (operand.given.scalar_type() == at::kBool || operand.given.scalar_type() == at::kByte);
    });
  }

  c10::Device find_device() {
    for (size_t i = 0; i < kernel_.arguments_.size(); ++i)
      if (kernel_.arguments_[i].kind == Kind::device && argument(i).isDevice()) return with_index(argument(i).toDevice());
    for (size_t i = 0; i < kernel_.arguments_.size(); ++i) {
      const c10::IValue& value = argument(i);
      if (value.isTensor() && value.toTensor().defined() && value.toTensor().is_cuda()) return value.toTensor().device();
      if (value.isTensorList())
        for (const at::Tensor& tensor : value.toTensorVector())
          if (tensor.defined() && tensor.is_cuda()) return tensor.device();
    }
    return c10::Device(c10::DeviceType::CUDA, current_device());
  }

  static c10::Device with_index(c10::Device device) {
    return device.has_index() ? device : c10::Device(device.type(), current_device());
  }

  void replace(c10::IValue& value, const Argument& argument) {
    given_.emplace_back();
    switch (argument.kind) {
      case Kind::tensor:
        if (value.isTensor()) {
          given_.back() = value.toTensor();
          value = c10::IValue(host(value.toTensor(), argument.written));
        }
        return;
      case Kind::tensors:
        if (value.isTensorList()) {
          c10::List<at::Tensor> hosts;
          for (const at::Tensor& tensor : value.toTensorVector()) hosts.push_back(host(tensor, argument.written));
          value = c10::IValue(std::move(hosts));
        }
        return;
      case Kind::optional_tensors:
        if (value.isList()) {
          c10::List<std::optional<at::Tensor>> hosts;
          for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
            hosts.push_back(tensor ? std::optional<at::Tensor>(host(*tensor, argument.written)) : std::nullopt);
          value = c10::IValue(std::move(hosts));
        }
        return;
      case Kind::generator:
        value = c10::IValue(host_generator(value.isGenerator() ? value.toGenerator() : default_generator(device_.index())));
        return;
      case Kind::device:
        value = c10::IValue(c10::Device(c10::DeviceType::CPU));
        return;
      case Kind::other:
        return;
    }
  }

  at::Tensor host(const at::Tensor& tensor, bool written) {
    if (!tensor.defined()) return tensor;
    if (tensor.device() == device_) {
      operands_.push_back({tensor, host_alias(tensor), written});
      return operands_.back().host;
    }
    const bool allowed = tensor.is_cpu() && !written && (tensor.dim() == 0 || kernel_.cpu_tensors_allowed_);
    TORCH_CHECK(allowed, "Expected all tensors to be on the same device, but found at least two devices, ", device_, " and ",
                tensor.device(), "! (when checking arguments of ", full_name(op_.operator_name()), ")");
    operands_.push_back({at::Tensor(), tensor, false});
    return tensor;
  }

  // Adds the call to a graph. It runs once on copies of what it writes to, for the shapes and types of its results.
  void record(Recording& recording) {
    auto node = std::make_shared<Node>(Node{op_, device_, {stack_->begin() + static_cast<std::ptrdiff_t>(first_), stack_->end()}, {}, {}, kernel_.name_.c_str()});
    for (size_t i = 0; i < kernel_.arguments_.size(); ++i)
      if (kernel_.arguments_[i].written) argument(i) = copied(argument(i));
    call_host_kernel(op_, device_, stack_);
    finish_results();
    for (size_t i = 0; i < operands_.size(); ++i)
      node->kept.push_back({operands_[i].given, operands_[i].written, !(i == 0 && kernel_.takes_a_part_)});
    for (size_t i = 0; i < returned_.size(); ++i) {
      const c10::IValue& value = result(i);
      const bool fresh = !returned_[i].defined();
      const auto tensors = value.isTensor() ? std::vector<at::Tensor>{value.toTensor()}
                           : value.isTensorList() ? value.toTensorVector() : std::vector<at::Tensor>{};
      for (const at::Tensor& tensor : tensors) {
        node->kept.push_back({tensor, true, fresh && is_fresh(tensor)});
        node->results.push_back(fresh && is_fresh(tensor) ? host_alias(tensor) : at::Tensor());
      }
    }
    recording.add([node] {
      begin_work(node->device.index());  // launches of the graph may come before
      node->run();
      Accesses accesses;
      for (const Kept& kept : node->kept)
        if (kept.accessed) kept.written ? accesses.write(kept.tensor) : accesses.read(kept.tensor);
      accesses.end_work(node->device.index(), node->name);
    });
  }

  struct Kept {
    at::Tensor tensor;
    bool written, accessed;
  };

  struct Node {
    c10::OperatorHandle op;
    c10::Device device;
    c10::Stack arguments;
    std::vector<at::Tensor> results;  // where the results go; undefined for those that are an argument's memory
    std::vector<Kept> kept;
    const char* name;

    void run() const {
      c10::Stack stack = arguments;
      call_host_kernel(op, device, &stack);
      size_t next = 0;
      const auto put = [&](const at::Tensor& tensor) {
        const at::Tensor& target = results.at(next++);
        if (target.defined()) at::Tensor(target).copy_(tensor);
      };
      for (const c10::IValue& value : stack) {
        if (value.isTensor()) put(value.toTensor());
        if (value.isTensorList())
          for (const at::Tensor& tensor : value.toTensorVector()) put(tensor);
      }
    }
  };

  static c10::IValue copied(const c10::IValue& value) {
    if (value.isTensor() && value.toTensor().defined()) return value.toTensor().clone();
    if (!value.isTensorList()) return value;
    c10::List<at::Tensor> copies;
    for (const at::Tensor& tensor : value.toTensorVector()) copies.push_back(tensor.defined() ? tensor.clone() : tensor);
    return copies;
  }

  // Whether a result has memory of its own.
  bool is_fresh(const at::Tensor& tensor) const {
    return tensor.defined() && std::none_of(operands_.begin(), operands_.end(), [&](const Operand& operand) {
      return operand.given.defined() && operand.given.storage().is_alias_of(tensor.storage());
    });
  }

  c10::IValue& result(size_t i) { return (*stack_)[stack_->size() - returned_.size() + i]; }

  void finish_results() {
    for (size_t i = 0; i < returned_.size(); ++i) finish(result(i), returned_[i]);
  }

  void finish(c10::IValue& value, const at::Tensor& returned) {
    if (returned.defined()) {
      value = c10::IValue(returned);
    } else if (value.isTensor()) {
      value = c10::IValue(device_result(value.toTensor()));
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> results;
      for (const at::Tensor& tensor : value.toTensorVector()) results.push_back(device_result(tensor));
      value = c10::IValue(std::move(results));
    }
  }

  at::Tensor device_result(const at::Tensor& result) {
    if (!result.defined()) return result;
    if (result.layout() == c10::kStrided && result.is_cpu()) {
      const auto* storage = result.storage().unsafeGetStorageImpl();
      for (const Operand& operand : operands_)
        if (operand.host.storage().unsafeGetStorageImpl() == storage)
          return operand.given.defined() ? on_device(result, operand.given.storage()) : result.to(device_);
      return on_device(result, adopt(result, device_));
    }
    return on_device(result, c10::Storage());
  }

  const HostKernel& kernel_;
  const c10::OperatorHandle& op_;
  c10::Stack* stack_;
  size_t first_;
  c10::Device device_;
  c10::SmallVector<at::Tensor, 8> given_;  // by argument, for those that are one tensor
  c10::SmallVector<Operand, 8> operands_;
  c10::SmallVector<at::Tensor, 2> returned_;
};

void HostKernel::operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, c10::Stack* stack) { Call(*this, op, stack).run(); }

void register_host_kernels(const std::vector<std::string>& except) {
  static auto* library = new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::CUDA, __FILE__, __LINE__);
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& operator_name : dispatcher.getAllOpNames()) {
    const std::string name = full_name(operator_name);
    if (name.rfind("aten::", 0) != 0 || std::find(except.begin(), except.end(), name) != except.end()) continue;
    const auto op = dispatcher.findOp(operator_name);
    if (!op || !op->hasSchema() || op->hasKernelForDispatchKey(c10::DispatchKey::CUDA)) continue;
    if (!op->hasKernelForDispatchKey(c10::DispatchKey::CPU) && !is_taken_whole(name)) continue;
    library->impl(name.c_str(), torch::CppFunction::makeFromBoxedFunctor(std::make_unique<HostKernel>(*op)));
  }
}

}  // namespace ptxlab
