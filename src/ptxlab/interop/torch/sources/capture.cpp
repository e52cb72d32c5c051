#include "capture.h"

#include <c10/util/Exception.h>

#include <atomic>

namespace ptxlab {
namespace {

std::atomic<Recording*> recording_now{nullptr};

}  // namespace

void Recording::begin(StreamHandle stream) {
  stream_ = stream;
  driver_captures_ = driver().begin_capture(stream);
}

void Recording::add(std::function<void()> node) {
  finish_captured_part();
  nodes_.push_back([node = std::move(node)](StreamHandle stream) {
    driver().synchronize_stream(stream);
    node();
  });
  driver_captures_ = driver().begin_capture(stream_);
}

void Recording::end() { finish_captured_part(); }

void Recording::replay(StreamHandle stream) const {
  for (const auto& node : nodes_) node(stream);
}

void Recording::finish_captured_part() {
  if (!driver_captures_) return;
  driver_captures_ = false;
  if (const std::shared_ptr<void> graph = driver().end_capture(stream_))
    nodes_.push_back([graph](StreamHandle stream) { driver().launch_graph(graph.get(), stream); });
}

Recording* active_recording() { return recording_now.load(std::memory_order_relaxed); }

void begin_recording(Recording& recording, StreamHandle stream) {
  Recording* none = nullptr;
  TORCH_CHECK(recording_now.compare_exchange_strong(none, &recording), "another CUDA graph is being captured");
  recording.begin(stream);
}

void end_recording() {
  if (Recording* recording = recording_now.exchange(nullptr)) recording->end();
}

void refuse_during_capture() {
  TORCH_CHECK(active_recording() == nullptr, "CUDA error: operation not permitted when stream is capturing");
}

}  // namespace ptxlab
