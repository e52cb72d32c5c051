// Random numbers of the device: a seed and an offset for each device and for each generator that a program makes.
#pragma once

#include <ATen/core/Generator.h>

namespace ptxlab {

const at::Generator& default_generator(c10::DeviceIndex device);
at::Generator new_generator(c10::DeviceIndex device);

// A CPU generator for one operator that draws from a CUDA generator, whose offset grows.
at::Generator host_generator(const at::Generator& generator);

}  // namespace ptxlab
