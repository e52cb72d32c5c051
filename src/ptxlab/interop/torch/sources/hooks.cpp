// What torch's CPU library asks about CUDA: devices, generators, pinned memory.
#include "hooks.h"

#include <ATen/detail/CUDAHooksInterface.h>

#include "devices.h"
#include "generator.h"
#include "heap.h"

namespace ptxlab {
namespace {

class Hooks final : public at::CUDAHooksInterface {
 public:
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return device_count() > 0; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }

  int getNumGPUs() const override { return device_count(); }
  c10::DeviceIndex deviceCount() const override { return device_count(); }
  c10::DeviceIndex current_device() const override { return ptxlab::current_device(); }
  c10::DeviceIndex getCurrentDevice() const override { return ptxlab::current_device(); }
  void setCurrentDevice(c10::DeviceIndex device) const override { set_current_device(device); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override { return exchange_device(device); }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override { return exchange_device(device); }
  void deviceSynchronize(c10::DeviceIndex device) const override { driver().synchronize_device(device); }

  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override { return default_generator(device); }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override { return new_generator(device); }

  at::Allocator* getPinnedMemoryAllocator() const override { return pinned_allocator(); }
  at::Allocator* getCUDADeviceAllocator() const override { return device_allocator(); }
  bool isPinnedPtr(const void* address) const override { return is_pinned(address); }
  at::Device getDeviceFromPtr(void* address) const override {
    const auto found = device_of(address);
    TORCH_CHECK(found >= 0, "The pointer ", address, " is not in the memory of a device");
    return at::Device(at::DeviceType::CUDA, found);
  }

  long versionCUDART() const override { return kRuntimeVersion; }
  std::string showConfig() const override { return "CUDA device of ptxlab\n"; }
};

}  // namespace

void register_hooks() {
  at::CUDAHooksRegistry()->Register("CUDAHooks", [](at::CUDAHooksArgs) -> std::unique_ptr<at::CUDAHooksInterface> {
    return std::make_unique<Hooks>();
  });
}

}  // namespace ptxlab
