// The devices that torch sees, and the current device and streams of each thread.
#pragma once

#include <c10/core/Device.h>

#include "driver.h"

namespace ptxlab {

constexpr int kMostDevices = 16;

c10::DeviceIndex device_count();
void set_device_count(int count);

c10::DeviceIndex current_device();
// Raises torch's error for a number that no device has.
void set_current_device(c10::DeviceIndex device);
c10::DeviceIndex exchange_device(c10::DeviceIndex device);

StreamHandle current_stream(c10::DeviceIndex device);
StreamHandle exchange_stream(c10::DeviceIndex device, StreamHandle stream);

// A stream of the device's pool: they are used in turn and never destroyed.
StreamHandle pooled_stream(c10::DeviceIndex device, int priority);

void register_guard();

}  // namespace ptxlab
