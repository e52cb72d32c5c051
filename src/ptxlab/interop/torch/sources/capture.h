// CUDA graphs of torch: what operators and kernels do while a graph is captured is recorded, and done again at each replay.
#pragma once

#include <functional>
#include <vector>

#include "driver.h"

namespace ptxlab {

// Operators run on the host at each replay. Between two of them the driver captures what other code queues in the stream.
class Recording {
 public:
  void begin(StreamHandle stream);
  void add(std::function<void()> node);
  void end();
  void replay(StreamHandle stream) const;

 private:
  void finish_captured_part();

  StreamHandle stream_ = kDefaultStream;
  bool driver_captures_ = false;
  std::vector<std::function<void(StreamHandle)>> nodes_;
};

// The graph that is being captured, or null. There is one at a time, and it takes the work of all threads.
Recording* active_recording();
void begin_recording(Recording& recording, StreamHandle stream);
void end_recording();

// Raises torch's error for what a GPU does not permit during a capture.
void refuse_during_capture();

}  // namespace ptxlab
