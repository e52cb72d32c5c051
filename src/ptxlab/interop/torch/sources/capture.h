// CUDA graphs of torch: what operators and kernels do while a graph is captured is recorded, and done again at each replay.
#pragma once

#include <functional>
#include <vector>

namespace ptxlab {

class Recording {
 public:
  void add(std::function<void()> node) { nodes_.push_back(std::move(node)); }
  void replay() const {
    for (const auto& node : nodes_) node();
  }

 private:
  std::vector<std::function<void()>> nodes_;
};

// The graph that is being captured, or null. There is one at a time, and it takes the work of all threads.
Recording* active_recording();
void begin_recording(Recording& recording);
void end_recording();

// Raises torch's error for what a GPU does not permit during a capture.
void refuse_during_capture();

}  // namespace ptxlab
