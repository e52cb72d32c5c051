// The driver without a library: memory of the computer, and streams on which nothing is ever queued.
#include "driver.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>

namespace ptxlab {
namespace {

constexpr size_t kDeviceAlignment = 512;
constexpr size_t kPageSize = 4096;
constexpr double kShortestTime = 1e-3;  // benchmarks divide by the time

void* aligned(size_t alignment, size_t bytes) {
  void* address = nullptr;
  return posix_memalign(&address, alignment, bytes) == 0 ? address : nullptr;
}

struct PointInTime {
  std::chrono::steady_clock::time_point when;
};

class HostDriver final : public Driver {
 public:
  void* allocate(int, StreamHandle, size_t bytes) override { return aligned(kDeviceAlignment, bytes); }
  void release(int, void* address) override { free(address); }
  void* allocate_pinned(size_t bytes) override { return aligned(kPageSize, bytes); }
  void release_pinned(void* address) override { free(address); }

  void set_device(int) override {}
  void synchronize_device(int) override {}

  StreamHandle create_stream(int, int) override { return ++streams_; }
  bool stream_is_idle(StreamHandle) override { return true; }
  void synchronize_stream(StreamHandle) override {}
  void begin_work(int, StreamHandle) override {}
  void end_work(int, StreamHandle, const char*, const Access*, size_t) override {}
  void record_use(void*, StreamHandle) override {}

  void* create_event(int) override { return new PointInTime{}; }
  void destroy_event(void* event) override { delete static_cast<PointInTime*>(event); }
  void record_event(void* event, StreamHandle) override {
    static_cast<PointInTime*>(event)->when = std::chrono::steady_clock::now();
  }
  void wait_for_event(StreamHandle, void*) override {}
  bool event_has_passed(void*) override { return true; }
  void synchronize_event(void*) override {}
  double milliseconds_between(void* start, void* end) override {
    const auto passed = static_cast<PointInTime*>(end)->when - static_cast<PointInTime*>(start)->when;
    return std::max(std::chrono::duration<double, std::milli>(passed).count(), kShortestTime);
  }

  void begin_capture(StreamHandle) override {}
  std::function<void(StreamHandle)> end_capture(StreamHandle) override { return {}; }

 private:
  std::atomic<StreamHandle> streams_{kDefaultStream};
};

Driver*& chosen() {
  static HostDriver* host = new HostDriver;  // memory may be released after the destructors of static objects
  static Driver* current = host;
  return current;
}

}  // namespace

Driver& driver() { return *chosen(); }
void use_driver(Driver& other) { chosen() = &other; }

}  // namespace ptxlab
