#include "generator.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "devices.h"

namespace ptxlab {
namespace {

constexpr uint64_t kOffsetOfDraw = 4;  // offsets of CUDA are multiples of 4

// As on a GPU, a seed and an offset say which numbers come next.
struct State {
  uint64_t seed = c10::default_rng_seed_val;
  uint64_t offset = 0;
  std::mutex mutex{};
};

uint64_t mixed(uint64_t seed, uint64_t offset) {  // the finalizer of SplitMix64
  uint64_t bits = seed + offset * 0x9e3779b97f4a7c15;
  bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ bits >> 27) * 0x94d049bb133111eb;
  return bits ^ bits >> 31;
}

class CudaGenerator final : public c10::GeneratorImpl {
 public:
  CudaGenerator(c10::DeviceIndex device, std::shared_ptr<State> state)
      : c10::GeneratorImpl(c10::Device(c10::DeviceType::CUDA, device), c10::DispatchKeySet(c10::DispatchKey::CUDA)),
        state_(std::move(state)) {}

  at::Generator draw() const {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    const uint64_t seed = state_->offset == 0 ? state_->seed : mixed(state_->seed, state_->offset);
    state_->offset += kOffsetOfDraw;
    return at::make_generator<at::CPUGeneratorImpl>(seed);
  }

  void set_current_seed(uint64_t seed) override { set(seed, 0); }
  void set_offset(uint64_t offset) override {
    TORCH_CHECK(offset % kOffsetOfDraw == 0, "offset must be a multiple of 4");
    set(current_seed(), offset);
  }
  uint64_t get_offset() const override {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    return state_->offset;
  }
  uint64_t current_seed() const override {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    return state_->seed;
  }
  uint64_t seed() override {
    const uint64_t random = c10::detail::getNonDeterministicRandom(true);
    set_current_seed(random);
    return random;
  }

  // The bytes of the seed, and those of the offset, which may be missing.
  void set_state(const c10::TensorImpl& state) override {
    at::detail::check_rng_state(state);
    const auto bytes = state.numel();
    uint64_t words[2] = {0, 0};
    TORCH_CHECK(bytes == sizeof(words) || bytes == sizeof(words[0]), "RNG state is wrong size");
    std::memcpy(words, state.data(), bytes);
    set(words[0], words[1]);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    const uint64_t words[2] = {current_seed(), get_offset()};
    at::Tensor state = at::empty({sizeof(words)}, at::TensorOptions().device(at::kCPU).dtype(at::kByte));
    std::memcpy(state.mutable_data_ptr(), words, sizeof(words));
    return state.getIntrusivePtr();
  }
  void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& state) override {
    state_ = static_cast<const CudaGenerator*>(state.get())->state_;
  }
  c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override {
    return c10::make_intrusive<CudaGenerator>(device_.index(), state_);
  }

 private:
  CudaGenerator* clone_impl() const override {
    auto* copy = new CudaGenerator(device_.index(), std::make_shared<State>());
    copy->set(current_seed(), get_offset());
    return copy;
  }

  void set(uint64_t seed, uint64_t offset) {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->seed = seed;
    state_->offset = offset;
  }

  std::shared_ptr<State> state_;
};

}  // namespace

at::Generator new_generator(c10::DeviceIndex device) {
  return at::make_generator<CudaGenerator>(device < 0 ? current_device() : device, std::make_shared<State>());
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
  return static_cast<const CudaGenerator*>(generator.unsafeGetGeneratorImpl())->draw();
}

}  // namespace ptxlab
