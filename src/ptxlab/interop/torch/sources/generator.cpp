#include "generator.h"

#include <ATen/CPUGeneratorImpl.h>

#include <vector>

#include "devices.h"

namespace ptxlab {
namespace {

class CudaGenerator final : public c10::GeneratorImpl {
 public:
  CudaGenerator(c10::DeviceIndex device, at::Generator source)
      : c10::GeneratorImpl(c10::Device(c10::DeviceType::CUDA, device), c10::DispatchKeySet(c10::DispatchKey::CUDA)),
        source_(std::move(source)) {}

  const at::Generator& source() const { return source_; }

  void set_current_seed(uint64_t seed) override { source_.set_current_seed(seed); }
  void set_offset(uint64_t offset) override { source_.set_offset(offset); }
  uint64_t get_offset() const override { return source_.get_offset(); }
  uint64_t current_seed() const override { return source_.current_seed(); }
  uint64_t seed() override { return source_.seed(); }
  void set_state(const c10::TensorImpl& state) override { source_.unsafeGetGeneratorImpl()->set_state(state); }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override { return source_.unsafeGetGeneratorImpl()->get_state(); }
  void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& state) override {
    source_ = host_generator(at::Generator(state));
  }
  c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override {
    return c10::make_intrusive<CudaGenerator>(device_.index(), source_);
  }

 private:
  CudaGenerator* clone_impl() const override { return new CudaGenerator(device_.index(), source_.clone()); }

  at::Generator source_;
};

}  // namespace

at::Generator new_generator(c10::DeviceIndex device) {
  const auto index = device < 0 ? current_device() : device;
  return at::make_generator<CudaGenerator>(index, at::make_generator<at::CPUGeneratorImpl>());
}

const at::Generator& default_generator(c10::DeviceIndex device) {
  static const auto* generators = [] {
    auto* made = new std::vector<at::Generator>;
    for (int index = 0; index < kMostDevices; ++index) {
      made->push_back(new_generator(static_cast<c10::DeviceIndex>(index)));
      made->back().seed();
    }
    return made;
  }();
  return generators->at(device < 0 ? current_device() : device);
}

at::Generator host_generator(const at::Generator& generator) {
  TORCH_CHECK(generator.device().is_cuda(), "Expected a 'cuda' device type for generator but found '", generator.device().type(), "'");
  return static_cast<const CudaGenerator*>(generator.unsafeGetGeneratorImpl())->source();
}

}  // namespace ptxlab
