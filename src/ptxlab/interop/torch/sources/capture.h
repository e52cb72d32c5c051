// CUDA graphs of torch: what operators and kernels do while a graph is captured is recorded, and done again at each replay.
#pragma once

#include <functional>
#include <vector>

#include "driver.h"

namespace ptxlab {

class Recording {
 public:
  using Node = std::function<void(StreamHandle)>;

  // The driver captures launches on the stream until the end, or until something else is added.
  void begin(StreamHandle stream);
  void add(std::function<void()> work);
  void end();
  void replay(StreamHandle stream) const {
    for (const Node& node : nodes_) node(stream);
  }

 private:
  std::vector<Node> nodes_;
  StreamHandle stream_ = kDefaultStream;
};

// The graph that is being captured, or null. There is one at a time, and it takes the work of all threads.
Recording* active_recording();
void begin_recording(Recording& recording, StreamHandle stream);
void end_recording();

// Raises torch's error for what a GPU does not permit during a capture.
void refuse_during_capture();

}  // namespace ptxlab
