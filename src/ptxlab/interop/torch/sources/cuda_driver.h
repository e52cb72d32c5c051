// The driver as a library with the functions of a CUDA driver.
#pragma once

#include "driver.h"

namespace ptxlab {

// Opens the library, which the process has loaded already, and makes the contexts of all its devices. It lives as long as the process.
Driver& open_cuda_driver(const char* path);

}  // namespace ptxlab
