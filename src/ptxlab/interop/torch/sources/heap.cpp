#include "heap.h"

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>

#include "devices.h"
#include "driver.h"

namespace ptxlab {
namespace {

struct Block {
  size_t bytes;
  c10::DeviceIndex device;
};

class Heap {
 public:
  void* take(c10::DeviceIndex device, size_t bytes) {
    const auto size = static_cast<int64_t>(bytes);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (statistics_.at(device).bytes.current + size > capacity_) return nullptr;
    }
    void* address = driver().allocate(device, current_stream(device), bytes);
    if (address == nullptr) return nullptr;
    const std::lock_guard<std::mutex> lock(mutex_);
    blocks_[static_cast<char*>(address)] = {bytes, device};
    add(statistics_.at(device).bytes, size);
    add(statistics_.at(device).blocks, 1);
    return address;
  }

  // Whether the address was that of a block, which is now released.
  bool give_back(void* address) {
    Block block;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto found = blocks_.find(static_cast<char*>(address));
      if (found == blocks_.end()) return false;
      block = found->second;
      blocks_.erase(found);
      remove(statistics_.at(block.device).bytes, static_cast<int64_t>(block.bytes));
      remove(statistics_.at(block.device).blocks, 1);
    }
    driver().release(block.device, address);
    return true;
  }

  // The device whose block an address lies in, or -1.
  c10::DeviceIndex device_of(const void* address) {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto* byte = static_cast<char*>(const_cast<void*>(address));
    auto after = blocks_.upper_bound(byte);
    if (after == blocks_.begin() || byte >= (--after)->first + after->second.bytes) return -1;
    return after->second.device;
  }

  HeapStatistics statistics(int device) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return statistics_.at(device);
  }

  void reset_peaks(int device) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (Count* count : {&statistics_.at(device).bytes, &statistics_.at(device).blocks}) count->peak = count->current;
  }

  void set_capacity(int64_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    capacity_ = bytes;
  }

  int64_t capacity() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return capacity_;
  }

 private:
  static void add(Count& count, int64_t amount) {
    count.current += amount;
    count.allocated += amount;
    count.peak = std::max(count.peak, count.current);
  }
  static void remove(Count& count, int64_t amount) {
    count.current -= amount;
    count.released += amount;
  }

  std::mutex mutex_;
  std::map<char*, Block> blocks_;
  std::array<HeapStatistics, kMostDevices> statistics_;
  int64_t capacity_ = INT64_MAX;
};

Heap& heap() {
  static Heap* the_heap = new Heap;  // tensors may be released after the destructors of static objects
  return *the_heap;
}

void release_block(void* address) { heap().give_back(address); }
void release_nothing(void*) {}

c10::DataPtr allocate_on(c10::DeviceIndex index, size_t bytes, c10::Device device) {
  if (bytes == 0) return {nullptr, nullptr, &release_nothing, device};
  void* address = heap().take(index, bytes);
  if (address == nullptr) {
    const HeapStatistics now = statistics(index);
    TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate ", bytes, " bytes. GPU ", static_cast<int>(index),
                     " has a total capacity of ", heap().capacity(), " bytes, of which ", now.bytes.current, " bytes are in use.");
  }
  return {address, address, &release_block, device};
}

class DeviceAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const c10::DeviceIndex device = current_device();
    return allocate_on(device, bytes, c10::Device(c10::DeviceType::CUDA, device));
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release_block; }
  void copy_data(void* to, const void* from, size_t bytes) const override { memcpy(to, from, bytes); }
};

thread_local int heap_of_cpu_tensors = -1;  // a device, or -1: the allocator that torch had

// Torch's allocator of CPU tensors, unless the thread has asked for a heap.
class CpuAllocator final : public c10::Allocator {
 public:
  explicit CpuAllocator(c10::Allocator* plain) { plain_ = plain; }
  c10::DataPtr allocate(size_t bytes) override {
    if (heap_of_cpu_tensors < 0) return plain_->allocate(bytes);
    return allocate_on(static_cast<c10::DeviceIndex>(heap_of_cpu_tensors), bytes, c10::Device(c10::DeviceType::CPU));
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override { memcpy(to, from, bytes); }

 private:
  static void release(void* address) {
    if (!heap().give_back(address)) plain_->raw_deallocate(address);
  }

  static inline c10::Allocator* plain_ = nullptr;
};

class PinnedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const c10::Device cpu(c10::DeviceType::CPU);
    if (bytes == 0) return {nullptr, nullptr, &release_nothing, cpu};
    void* address = driver().allocate_pinned(bytes);
    TORCH_CHECK(address != nullptr, "cannot allocate ", bytes, " bytes of pinned memory");
    const std::lock_guard<std::mutex> lock(mutex_);
    ends_[address] = static_cast<char*>(address) + bytes;
    return {address, address, &release_pinned, cpu};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release_pinned; }
  void copy_data(void* to, const void* from, size_t bytes) const override { memcpy(to, from, bytes); }

  bool contains(const void* address) {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto after = ends_.upper_bound(const_cast<void*>(address));
    return after != ends_.begin() && address < (--after)->second;
  }

 private:
  static void release_pinned(void* address);

  std::mutex mutex_;
  std::map<void*, void*> ends_;
};

PinnedAllocator& the_pinned_allocator() {
  static PinnedAllocator* allocator = new PinnedAllocator;
  return *allocator;
}

void PinnedAllocator::release_pinned(void* address) {
  {
    PinnedAllocator& self = the_pinned_allocator();
    const std::lock_guard<std::mutex> lock(self.mutex_);
    self.ends_.erase(address);
  }
  driver().release_pinned(address);
}

}  // namespace

c10::Allocator* device_allocator() {
  static DeviceAllocator* allocator = new DeviceAllocator;
  return allocator;
}

c10::Allocator* pinned_allocator() { return &the_pinned_allocator(); }
bool is_pinned(const void* address) { return the_pinned_allocator().contains(address); }
bool is_on_heap(const c10::DataPtr& data) { return data.get_deleter() == &release_block || data.get_deleter() == &release_nothing; }

void record_use(const c10::DataPtr& data, StreamHandle stream) {
  if (data.get_deleter() == &release_block) driver().record_use(data.get(), stream);
}

c10::DeviceIndex device_of(const void* address) { return heap().device_of(address); }

HeapStatistics statistics(int device) { return heap().statistics(device); }
void reset_peaks(int device) { heap().reset_peaks(device); }
void set_capacity(int64_t bytes) { heap().set_capacity(bytes); }

OnHeap::OnHeap(c10::DeviceIndex device) : before_(heap_of_cpu_tensors) { heap_of_cpu_tensors = device; }
OnHeap::~OnHeap() { heap_of_cpu_tensors = before_; }

void register_allocators() {
  c10::SetAllocator(c10::DeviceType::CUDA, device_allocator());
  c10::SetAllocator(c10::DeviceType::CPU, new CpuAllocator(c10::GetAllocator(c10::DeviceType::CPU)));
}

}  // namespace ptxlab
