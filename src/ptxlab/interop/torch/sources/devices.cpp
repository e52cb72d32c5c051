#include "devices.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>

#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <vector>

#include "heap.h"

namespace ptxlab {
namespace {

constexpr auto kCudaDevice = c10::DeviceType::CUDA;
constexpr size_t kPooledStreams = 32;

std::atomic<int> devices{1};
thread_local c10::DeviceIndex device_of_thread = 0;
thread_local std::array<StreamHandle, kMostDevices> streams_of_thread{};

void check_index(c10::DeviceIndex device) {
  TORCH_CHECK(device >= 0 && device < device_count(), "CUDA error: invalid device ordinal");
}

c10::DeviceIndex index_or_current(c10::DeviceIndex device) { return device < 0 ? current_device() : device; }

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kCudaDevice; }
  c10::Device getDevice() const override { return c10::Device(kCudaDevice, current_device()); }
  c10::Device exchangeDevice(c10::Device device) const override { return c10::Device(kCudaDevice, exchange_device(device.index())); }
  void setDevice(c10::Device device) const override { set_current_device(device.index()); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.index() >= 0) device_of_thread = device.index();
  }
  c10::DeviceIndex deviceCount() const noexcept override { return device_count(); }

  c10::Stream getStream(c10::Device device) const override {
    const auto index = index_or_current(device.index());
    return stream_of(index, current_stream(index));
  }
  c10::Stream getDefaultStream(c10::Device device) const override { return stream_of(index_or_current(device.index()), kDefaultStream); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool high_priority) const override {
    return getNewStream(device, high_priority ? -1 : 0);
  }
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    const auto index = index_or_current(device.index());
    return stream_of(index, pooled_stream(index, priority));
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    return stream_of(stream.device_index(), exchange_stream(stream.device_index(), stream.id()));
  }
  // Without `override`, because not every version of torch has it.
  void* getStreamNativeHandle(const c10::Stream stream) const { return reinterpret_cast<void*>(stream.id()); }
  bool queryStream(const c10::Stream& stream) const override { return driver().stream_is_idle(stream.id()); }
  void synchronizeStream(const c10::Stream& stream) const override { driver().synchronize_stream(stream.id()); }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override { record_use(data, stream.id()); }
  void synchronizeDevice(const c10::DeviceIndex device) const override { driver().synchronize_device(index_or_current(device)); }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex, const c10::EventFlag) const override {
    if (*event == nullptr) *event = driver().create_event(stream.device_index());
    driver().record_event(*event, stream.id());
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr) driver().wait_for_event(stream.id(), event);
  }
  bool queryEvent(void* event) const override { return event == nullptr || driver().event_has_passed(event); }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) driver().synchronize_event(event);
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    if (event != nullptr) driver().destroy_event(event);
  }
  double elapsedTime(void* start, void* end, const c10::DeviceIndex) const override {
    TORCH_CHECK(start != nullptr && end != nullptr, "Both events must be recorded before calculating elapsed time.");
    return driver().milliseconds_between(start, end);
  }

 private:
  static c10::Stream stream_of(c10::DeviceIndex device, StreamHandle stream) {
    return c10::Stream(c10::Stream::UNSAFE, c10::Device(kCudaDevice, device), stream);
  }
};

}  // namespace

c10::DeviceIndex device_count() { return static_cast<c10::DeviceIndex>(devices.load()); }
void set_device_count(int count) { devices = count; }

c10::DeviceIndex current_device() { return device_of_thread; }

void set_current_device(c10::DeviceIndex device) {
  check_index(device);
  if (device == device_of_thread) return;
  driver().set_device(device);
  device_of_thread = device;
}

c10::DeviceIndex exchange_device(c10::DeviceIndex device) {
  const c10::DeviceIndex before = device_of_thread;
  if (device >= 0) set_current_device(device);
  return before;
}

StreamHandle current_stream(c10::DeviceIndex device) { return streams_of_thread.at(device); }

StreamHandle exchange_stream(c10::DeviceIndex device, StreamHandle stream) {
  check_index(device);
  const StreamHandle before = streams_of_thread.at(device);
  streams_of_thread.at(device) = stream;
  return before;
}

StreamHandle pooled_stream(c10::DeviceIndex device, int priority) {
  struct Pool {
    std::vector<StreamHandle> streams;
    size_t next = 0;
  };
  static std::mutex mutex;
  static std::map<std::pair<int, int>, Pool> pools;
  check_index(device);
  const std::lock_guard<std::mutex> lock(mutex);
  Pool& pool = pools[{device, priority}];
  if (pool.streams.size() < kPooledStreams) {
    pool.streams.push_back(driver().create_stream(device, priority));
    return pool.streams.back();
  }
  return pool.streams[pool.next++ % kPooledStreams];
}

void register_guard() {
  static const Guard* guard = new Guard;
  const c10::impl::DeviceGuardImplRegistrar registrar(kCudaDevice, guard);
}

}  // namespace ptxlab
