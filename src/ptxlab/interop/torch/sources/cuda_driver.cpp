#include "cuda_driver.h"

#include <c10/util/Exception.h>
#include <dlfcn.h>

#include <memory>
#include <mutex>
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

// Blocks that were released, by their exact size: memory of a size is mostly wanted again, and bounds of blocks stay those asked for.
class KeptBlocks {
 public:
  void* take(int device, size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = blocks_.find({device, bytes});
    if (found == blocks_.end() || found->second.empty()) return nullptr;
    void* address = found->second.back();
    found->second.pop_back();
    bytes_ -= bytes;
    return address;
  }

  void remember_size(void* address, size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    sizes_[address] = bytes;
  }

  // False if the block must be released.
  bool keep(int device, void* address) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto size = sizes_.find(address);
    if (size == sizes_.end()) return false;
    if (size->second > kLargestKeptBlock || bytes_ + size->second > kMostKeptBytes) {
      sizes_.erase(size);
      return false;
    }
    blocks_[{device, size->second}].push_back(address);
    bytes_ += size->second;
    return true;
  }

 private:
  struct Hash {
    size_t operator()(const std::pair<int, size_t>& key) const { return key.second * 31 + static_cast<size_t>(key.first); }
  };

  std::mutex mutex_;
  std::unordered_map<std::pair<int, size_t>, std::vector<void*>, Hash> blocks_;
  std::unordered_map<void*, size_t> sizes_;
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

  void* allocate(int device, size_t bytes) override {
    if (void* kept = kept_.take(device, bytes)) return kept;
    use(device);
    Address address = 0;
    const Result result = allocate_(&address, bytes);
    if (result == kOutOfMemory) return nullptr;
    check(result);
    auto* found = reinterpret_cast<void*>(address);
    kept_.remember_size(found, bytes);
    return found;
  }
  // Errors are ignored: tensors may be released after the driver has ended.
  void release(int device, void* address) override {
    if (!kept_.keep(device, address)) free_(reinterpret_cast<Address>(address));
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

  void use(int device) const { check(use_context_(contexts_.at(static_cast<size_t>(device)))); }

  Handle library_;
  std::vector<Handle> contexts_;
  KeptBlocks kept_;
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
