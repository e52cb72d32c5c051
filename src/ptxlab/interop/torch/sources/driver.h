// What the torch device needs from a CUDA driver: memory, streams and events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace ptxlab {

using StreamHandle = int64_t;
constexpr StreamHandle kDefaultStream = 0;

// Bytes that an operator accesses, as the driver takes them.
struct Access {
  uint64_t low, high;
  uint32_t written, reserved;
};

class Driver {
 public:
  virtual ~Driver() = default;

  // Memory that kernels and host code address alike, for work of a stream. Null if there is not enough.
  virtual void* allocate(int device, StreamHandle stream, size_t bytes) = 0;
  virtual void release(int device, void* address) = 0;
  virtual void* allocate_pinned(size_t bytes) = 0;
  virtual void release_pinned(void* address) = 0;

  virtual void set_device(int device) = 0;
  virtual void synchronize_device(int device) = 0;

  virtual StreamHandle create_stream(int device, int priority) = 0;
  virtual bool stream_is_idle(StreamHandle stream) = 0;
  virtual void synchronize_stream(StreamHandle stream) = 0;

  // Around an operator, which is work of a stream that this thread does. The first waits for what the stream comes after, which is no wait
  // of the program; it must cost little when nothing is queued. `what` stays, and `accesses` are sorted by their first bytes.
  virtual void begin_work(int device, StreamHandle stream) = 0;
  virtual void end_work(int device, StreamHandle stream, const char* what, const Access* accesses, size_t count) = 0;

  // The memory is used by a stream that is not the one in which it was allocated: what is released then is not given away before that
  // stream has done its work.
  virtual void record_use(void* address, StreamHandle stream) = 0;

  virtual void* create_event(int device) = 0;
  virtual void destroy_event(void* event) = 0;
  virtual void record_event(void* event, StreamHandle stream) = 0;
  virtual void wait_for_event(StreamHandle stream, void* event) = 0;
  virtual bool event_has_passed(void* event) = 0;
  virtual void synchronize_event(void* event) = 0;
  virtual double milliseconds_between(void* start, void* end) = 0;

  // Between these two, launches on the stream are kept and not run. The second returns what runs them on a stream, or an empty function
  // if there were none.
  virtual void begin_capture(StreamHandle stream) = 0;
  virtual std::function<void(StreamHandle)> end_capture(StreamHandle stream) = 0;
};

// The driver in use: the computer's memory, until a library with the functions of a CUDA driver is named.
Driver& driver();
void use_driver(Driver& other);

}  // namespace ptxlab
