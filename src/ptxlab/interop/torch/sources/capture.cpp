#include "capture.h"

#include <c10/util/Exception.h>

#include <atomic>

namespace ptxlab {
namespace {

std::atomic<Recording*> recording_now{nullptr};

}  // namespace

Recording* active_recording() { return recording_now.load(std::memory_order_relaxed); }

void begin_recording(Recording& recording) {
  Recording* none = nullptr;
  TORCH_CHECK(recording_now.compare_exchange_strong(none, &recording), "another CUDA graph is being captured");
}

void end_recording() { recording_now = nullptr; }

void refuse_during_capture() {
  TORCH_CHECK(active_recording() == nullptr, "CUDA error: operation not permitted when stream is capturing");
}

}  // namespace ptxlab
