// Device memory and pinned memory as torch's allocators, with statistics.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>

#include <cstdint>

#include "driver.h"

namespace ptxlab {

// How much of one kind there is, was at most, was allocated and was released.
struct Count {
  int64_t current = 0, peak = 0, allocated = 0, released = 0;
};

struct HeapStatistics {
  Count bytes, blocks;
};

c10::Allocator* device_allocator();
c10::Allocator* pinned_allocator();
bool is_pinned(const void* address);

// Whether memory came from the device allocator, also when a CPU tensor owns it.
bool is_on_heap(const c10::DataPtr& data);

// The memory is used by a stream that it was not allocated for. Memory that is not on the heap is left alone.
void record_use(const c10::DataPtr& data, StreamHandle stream);

// The device whose memory an address is in, or -1.
c10::DeviceIndex device_of(const void* address);

HeapStatistics statistics(int device);
void reset_peaks(int device);
void set_capacity(int64_t bytes);

// While one exists, what this thread allocates for CPU tensors comes from the heap of a device.
class OnHeap {
 public:
  explicit OnHeap(c10::DeviceIndex device);
  ~OnHeap();
  OnHeap(const OnHeap&) = delete;
  OnHeap& operator=(const OnHeap&) = delete;

 private:
  int before_;
};

// Makes torch use these allocators.
void register_allocators();

}  // namespace ptxlab
