// Random numbers of the device: a CPU generator for each device and for each generator that a program makes.
#pragma once

#include <ATen/core/Generator.h>

namespace ptxlab {

const at::Generator& default_generator(c10::DeviceIndex device);
at::Generator new_generator(c10::DeviceIndex device);

// The CPU generator that a CUDA generator draws from.
at::Generator host_generator(const at::Generator& generator);

}  // namespace ptxlab
