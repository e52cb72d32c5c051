#include "cuda_driver.h"

#include <c10/util/Exception.h>
#include <dlfcn.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace ptxlab {
namespace {

using Result = int;
using Handle = void*;
using Address = uint64_t;

constexpr Result kSuccess = 0, kOutOfMemory = 2, kNotReady = 600;
constexpr unsigned kNonBlocking = 1;
constexpr int kRelaxed = 2;
constexpr size_t kLargestKeptBlock = 1 << 20;
constexpr size_t kMostKeptBytes = 64 << 20;

// Blocks that were released, by the stream that they were allocated for and their exact size: memory of a size is mostly wanted again,
// bounds of blocks stay those asked for, and the order of the stream puts the next use behind the last one.
class KeptBlocks {
 public:
  void* take(int device, StreamHandle stream, size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = blocks_.find({device, stream, bytes});
    if (found == blocks_.end() || found->second.empty()) return nullptr;
    void* address = found->second.back();
    found->second.pop_back();
    bytes_ -= bytes;
    return address;
  }

  void remember(void* address, int device, StreamHandle stream, size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    owners_[address] = {device, stream, bytes};
  }

  // False if the block must be released.
  bool keep(void* address) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto owner = owners_.find(address);
    if (owner == owners_.end()) return false;
    const size_t bytes = std::get<2>(owner->second);
    if (bytes > kLargestKeptBlock || bytes_ + bytes > kMostKeptBytes) {
      owners_.erase(owner);
      return false;
    }
    blocks_[owner->second].push_back(address);
    bytes_ += bytes;
    return true;
  }

 private:
  using Owner = std::tuple<int, StreamHandle, size_t>;
  struct Hash {
    size_t operator()(const Owner& key) const {
      return (std::get<2>(key) * 31 + static_cast<size_t>(std::get<1>(key))) * 31 + static_cast<size_t>(std::get<0>(key));
    }
  };

  std::mutex mutex_;
  std::unordered_map<Owner, std::vector<void*>, Hash> blocks_;
  std::unordered_map<void*, Owner> owners_;
  size_t bytes_ = 0;
};

class CudaDriver final : public Driver {
 public:
  explicit CudaDriver(const char* path) : library_(dlopen(path, RTLD_NOW | RTLD_NOLOAD)) {
    TORCH_CHECK(library_ != nullptr, "the CUDA driver is not loaded: ", path);
    find(init_, "cuInit");
    find(count_devices_, "cuDeviceGetCount");
    find(retain_context_, "cuDevicePrimaryCtxRetain");
    find(use_context_, "cuCtxSetCurrent");
    find(synchronize_context_, "cuCtxSynchronize");
    find(allocate_, "cuMemAlloc_v2");
    find(free_, "cuMemFree_v2");
    find(allocate_host_, "cuMemAllocHost_v2");
    find(free_host_, "cuMemFreeHost");
    find(create_stream_, "cuStreamCreateWithPriority");
    find(query_stream_, "cuStreamQuery");
    find(synchronize_stream_, "cuStreamSynchronize");
    find(begin_work_, "ptxlab_begin_work");
    find(end_work_, "ptxlab_end_work");
    find(wait_, "cuStreamWaitEvent");
    find(create_event_, "cuEventCreate");
    find(destroy_event_, "cuEventDestroy_v2");
    find(record_, "cuEventRecord");
    find(query_event_, "cuEventQuery");
    find(synchronize_event_, "cuEventSynchronize");
    find(elapsed_, "cuEventElapsedTime");
    find(begin_capture_, "cuStreamBeginCapture_v2");
    find(end_capture_, "cuStreamEndCapture");
    find(nodes_of_graph_, "cuGraphGetNodes");
    find(instantiate_, "cuGraphInstantiateWithFlags");
    find(launch_graph_, "cuGraphLaunch");
    find(destroy_executable_, "cuGraphExecDestroy");
    find(destroy_graph_, "cuGraphDestroy");
    find(error_name_, "cuGetErrorName");
    check(init_(0));
    int count = 0;
    check(count_devices_(&count));
    contexts_.resize(static_cast<size_t>(count));
    for (int device = 0; device < count; ++device) check(retain_context_(&contexts_[static_cast<size_t>(device)], device));
  }

  void* allocate(int device, StreamHandle stream, size_t bytes) override {
    if (has_leaving_) release_left();
    if (void* kept = kept_.take(device, stream, bytes)) return kept;
    use(device);
    Address address = 0;
    const Result result = allocate_(&address, bytes);
    if (result == kOutOfMemory) return nullptr;
    check(result);
    auto* found = reinterpret_cast<void*>(address);
    kept_.remember(found, device, stream, bytes);
    return found;
  }
  // Errors are ignored: tensors may be released after the driver has ended.
  void release(int device, void* address) override {
    if (has_uses_ && leaves(device, address)) return;
    keep_or_free(address);
  }
  void record_use(void* address, StreamHandle stream) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    uses_[address].insert(stream);
    has_uses_ = true;
  }
  void* allocate_pinned(size_t bytes) override {
    use(device_of_thread_);
    void* address = nullptr;
    return allocate_host_(&address, bytes) == kSuccess ? address : nullptr;
  }
  void release_pinned(void* address) override { free_host_(address); }

  void set_device(int device) override {
    device_of_thread_ = device;
    use(device);
  }
  void synchronize_device(int device) override {
    use(device);
    check(synchronize_context_());
  }

  StreamHandle create_stream(int device, int priority) override {
    use(device);
    Handle stream = nullptr;
    check(create_stream_(&stream, kNonBlocking, priority));
    return reinterpret_cast<StreamHandle>(stream);
  }
  bool stream_is_idle(StreamHandle stream) override { return is_done(query_stream_(handle(stream))); }
  void synchronize_stream(StreamHandle stream) override {
    if (stream == kDefaultStream) use(device_of_thread_);
    check(synchronize_stream_(handle(stream)));
  }

  void begin_work(int device, StreamHandle stream) override {
    const ContextOf context(*this, device, stream);
    check(begin_work_(handle(stream)));
  }
  void end_work(int device, StreamHandle stream, const char* what, const Access* accesses, size_t count) override {
    const ContextOf context(*this, device, stream);
    check(end_work_(handle(stream), what, accesses, static_cast<uint32_t>(count)));
  }

  void* create_event(int device) override {
    use(device);
    Handle event = nullptr;
    check(create_event_(&event, 0));
    return event;
  }
  void destroy_event(void* event) override { destroy_event_(event); }
  void record_event(void* event, StreamHandle stream) override { check(record_(event, handle(stream))); }
  void wait_for_event(StreamHandle stream, void* event) override { check(wait_(handle(stream), event, 0)); }
  bool event_has_passed(void* event) override { return is_done(query_event_(event)); }
  void synchronize_event(void* event) override { check(synchronize_event_(event)); }
  double milliseconds_between(void* start, void* end) override {
    float milliseconds = 0;
    check(elapsed_(&milliseconds, start, end));
    return milliseconds;
  }

  void begin_capture(StreamHandle stream) override { check(begin_capture_(handle(stream), kRelaxed)); }
  std::function<void(StreamHandle)> end_capture(StreamHandle stream) override {
    Handle captured = nullptr, made = nullptr;
    check(end_capture_(handle(stream), &captured));
    const std::shared_ptr<void> graph(captured, destroy_graph_);
    size_t nodes = 0;
    check(nodes_of_graph_(captured, nullptr, &nodes));
    if (nodes == 0) return {};
    check(instantiate_(&made, captured, 0));
    const std::shared_ptr<void> executable(made, destroy_executable_);
    return [this, executable](StreamHandle on) { check(launch_graph_(executable.get(), handle(on))); };
  }

 private:
  template <class Function>
  void find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library_, name));
    TORCH_CHECK(function != nullptr, "the CUDA driver has no function ", name);
  }

  static Handle handle(StreamHandle stream) { return reinterpret_cast<Handle>(stream); }

  void check(Result result) const {
    const char* name = nullptr;
    TORCH_CHECK(result == kSuccess || (error_name_(result, &name), false), "CUDA error: ", name == nullptr ? "unknown" : name);
  }

  bool is_done(Result result) const {
    if (result == kNotReady) return false;
    check(result);
    return true;
  }

  void keep_or_free(void* address) {
    if (!kept_.keep(address)) free_(reinterpret_cast<Address>(address));
  }

  // Whether other streams use a block that is released: it goes when they have done their work.
  bool leaves(int device, void* address) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto uses = uses_.find(address);
    if (uses == uses_.end()) return false;
    use(device);
    Leaving block{address, {}};
    for (const StreamHandle stream : uses->second) {
      Handle event = nullptr;
      if (create_event_(&event, 0) == kSuccess && record_(event, handle(stream)) == kSuccess) block.events.push_back(event);
    }
    uses_.erase(uses);
    leaving_.push_back(std::move(block));
    has_uses_ = !uses_.empty();
    has_leaving_ = true;
    return true;
  }

  void release_left() {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto block = leaving_.begin(); block != leaving_.end();) {
      auto& events = block->events;
      while (!events.empty() && query_event_(events.back()) != kNotReady) {
        destroy_event_(events.back());
        events.pop_back();
      }
      if (events.empty()) keep_or_free(block->address);
      block = events.empty() ? leaving_.erase(block) : std::next(block);
    }
    has_leaving_ = !leaving_.empty();
  }

  // While one exists, the default stream is that of a device.
  class ContextOf {
   public:
    ContextOf(const CudaDriver& driver, int device, StreamHandle stream) : driver_(driver), other_(device != device_of_thread_) {
      if (stream == kDefaultStream || other_) driver_.use(device);
    }
    ~ContextOf() {
      if (other_) driver_.use_context_(driver_.contexts_.at(static_cast<size_t>(device_of_thread_)));
    }

   private:
    const CudaDriver& driver_;
    bool other_;
  };

  void use(int device) const { check(use_context_(contexts_.at(static_cast<size_t>(device)))); }

  Handle library_;
  std::vector<Handle> contexts_;
  KeptBlocks kept_;
  struct Leaving {
    void* address;
    std::vector<Handle> events;
  };
  std::mutex mutex_;  // of the next three
  std::unordered_map<void*, std::set<StreamHandle>> uses_;
  std::vector<Leaving> leaving_;
  std::atomic<bool> has_uses_{false}, has_leaving_{false};
  static inline thread_local int device_of_thread_ = 0;

  Result (*init_)(unsigned);
  Result (*count_devices_)(int*);
  Result (*retain_context_)(Handle*, int);
  Result (*use_context_)(Handle);
  Result (*synchronize_context_)();
  Result (*allocate_)(Address*, size_t);
  Result (*free_)(Address);
  Result (*allocate_host_)(void**, size_t);
  Result (*free_host_)(void*);
  Result (*create_stream_)(Handle*, unsigned, int);
  Result (*query_stream_)(Handle);
  Result (*synchronize_stream_)(Handle);
  Result (*begin_work_)(Handle);
  Result (*end_work_)(Handle, const char*, const Access*, uint32_t);
  Result (*wait_)(Handle, Handle, unsigned);
  Result (*create_event_)(Handle*, unsigned);
  Result (*destroy_event_)(Handle);
  Result (*record_)(Handle, Handle);
  Result (*query_event_)(Handle);
  Result (*synchronize_event_)(Handle);
  Result (*elapsed_)(float*, Handle, Handle);
  Result (*begin_capture_)(Handle, int);
  Result (*end_capture_)(Handle, Handle*);
  Result (*nodes_of_graph_)(Handle, Handle*, size_t*);
  Result (*instantiate_)(Handle*, Handle, unsigned long long);
  Result (*launch_graph_)(Handle, Handle);
  Result (*destroy_executable_)(Handle);
  Result (*destroy_graph_)(Handle);
  Result (*error_name_)(Result, const char**);
};

}  // namespace

Driver& open_cuda_driver(const char* path) { return *new CudaDriver(path); }

}  // namespace ptxlab
