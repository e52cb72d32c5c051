// The functions that Python calls: through ctypes, and operators of the namespace `ptxlab_cuda` for what holds torch's objects.
#include <torch/library.h>

#include "alias.h"
#include "capture.h"
#include "cuda_driver.h"
#include "devices.h"
#include "generator.h"
#include "heap.h"
#include "hooks.h"
#include "host_kernel.h"
#include "operators.h"

namespace {

at::Generator default_generator(int64_t device) { return ptxlab::default_generator(static_cast<c10::DeviceIndex>(device)); }

c10::DeviceIndex index(int device) { return static_cast<c10::DeviceIndex>(device); }

ptxlab::StreamHandle stream_of_thread() { return ptxlab::current_stream(ptxlab::current_device()); }

// Null, or what went wrong: exceptions must not reach Python's foreign function interface.
template <class Function>
const char* error_of(const Function& function) {
  thread_local std::string error;
  try {
    function();
    return nullptr;
  } catch (const c10::Error& found) {
    error = found.what_without_backtrace();
  } catch (const std::exception& found) {
    error = found.what();
  }
  return error.c_str();
}

void register_functions() {
  static auto* library = new torch::Library(torch::Library::DEF, "ptxlab_cuda", std::nullopt, __FILE__, __LINE__);
  library->def("default_generator(int device) -> Generator?", &default_generator);
  library->def("host_view(Tensor self) -> Tensor", &ptxlab::host_view);
}

}  // namespace

extern "C" {

const char* ptxlab_torch_use_driver(const char* path) {
  return error_of([&] { ptxlab::use_driver(ptxlab::open_cuda_driver(path)); });
}

const char* ptxlab_torch_register(int devices, int64_t bytes) {
  return error_of([&] {
    ptxlab::set_device_count(devices);
    ptxlab::set_capacity(bytes);
    register_functions();
    ptxlab::register_allocators();
    ptxlab::register_guard();
    ptxlab::register_hooks();
    ptxlab::register_host_kernels(ptxlab::register_operators());
  });
}

int ptxlab_torch_device_count() { return ptxlab::device_count(); }
int ptxlab_torch_current_device() { return ptxlab::current_device(); }
const char* ptxlab_torch_set_device(int device) {
  return error_of([&] { ptxlab::set_current_device(index(device)); });
}
const char* ptxlab_torch_synchronize_device(int device) {
  return error_of([&] {
    ptxlab::refuse_during_capture();
    ptxlab::driver().synchronize_device(device);
  });
}

int64_t ptxlab_torch_current_stream(int device) { return ptxlab::current_stream(index(device)); }
const char* ptxlab_torch_set_stream(int device, int64_t stream) {
  return error_of([&] { ptxlab::exchange_stream(index(device), stream); });
}

double ptxlab_torch_milliseconds_between(void* start, void* end) { return ptxlab::driver().milliseconds_between(start, end); }

// Eight numbers: current, peak, allocated and released, of bytes and of blocks.
void ptxlab_torch_statistics(int device, int64_t* numbers) {
  const ptxlab::HeapStatistics found = ptxlab::statistics(device);
  for (const ptxlab::Count& count : {found.bytes, found.blocks})
    for (const int64_t number : {count.current, count.peak, count.allocated, count.released}) *numbers++ = number;
}
void ptxlab_torch_reset_peaks(int device) { ptxlab::reset_peaks(device); }

void* ptxlab_torch_new_graph() { return new ptxlab::Recording; }
void ptxlab_torch_delete_graph(void* graph) { delete static_cast<ptxlab::Recording*>(graph); }
int ptxlab_torch_is_capturing() { return ptxlab::active_recording() != nullptr; }
const char* ptxlab_torch_begin_capture(void* graph) {
  return error_of([&] { ptxlab::begin_recording(*static_cast<ptxlab::Recording*>(graph), stream_of_thread()); });
}
const char* ptxlab_torch_end_capture() { return error_of(&ptxlab::end_recording); }
const char* ptxlab_torch_replay(void* graph) {
  return error_of([&] { static_cast<const ptxlab::Recording*>(graph)->replay(stream_of_thread()); });
}
// Adds a call to the graph that is being captured. The function returns 0, or something else if it failed.
const char* ptxlab_torch_add_call(int (*function)(int64_t), int64_t argument) {
  return error_of([&] {
    ptxlab::active_recording()->add([function, argument] { TORCH_CHECK(function(argument) == 0, "a kernel of the graph failed"); });
  });
}

}  // extern "C"
