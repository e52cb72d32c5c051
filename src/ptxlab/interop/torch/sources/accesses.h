// Which bytes operators access, for the driver, which finds work of other streams that uses the same bytes in no order.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include "driver.h"

namespace ptxlab {

class Accesses {
 public:
  void read(const at::Tensor& tensor) { add(tensor, false); }
  void write(const at::Tensor& tensor) { add(tensor, true); }

  // The work of the current stream of a device has ended. `what` stays.
  void end_work(c10::DeviceIndex device, const char* what);

 private:
  void add(const at::Tensor& tensor, bool written);

  c10::SmallVector<Access, 8> found_;
};

// Waits for what the current stream of a device comes after.
void begin_work(c10::DeviceIndex device);

}  // namespace ptxlab
