#include "capture.h"

#include <c10/util/Exception.h>

#include <atomic>

namespace ptxlab {
namespace {

std::atomic<Recording*> recording_now{nullptr};

}  // namespace

void Recording::begin(StreamHandle stream) {
  stream_ = stream;
  driver().begin_capture(stream_);
}

void Recording::add(std::function<void()> work) {
  end();
  nodes_.push_back([work = std::move(work)](StreamHandle) { work(); });
  driver().begin_capture(stream_);
}

void Recording::end() {
  if (Node launches = driver().end_capture(stream_)) nodes_.push_back(std::move(launches));
}

Recording* active_recording() { return recording_now.load(std::memory_order_relaxed); }

void begin_recording(Recording& recording, StreamHandle stream) {
  Recording* none = nullptr;
  TORCH_CHECK(recording_now.compare_exchange_strong(none, &recording), "another CUDA graph is being captured");
  try {
    recording.begin(stream);
  } catch (...) {
    recording_now = nullptr;
    throw;
  }
}

void end_recording() {
  if (Recording* recording = recording_now.exchange(nullptr)) recording->end();
}

void refuse_during_capture() {
  TORCH_CHECK(active_recording() == nullptr, "CUDA error: operation not permitted when stream is capturing");
}

}  // namespace ptxlab
