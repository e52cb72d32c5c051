// Operators that need more than a CPU kernel on the same memory: new memory, views, copies between devices.
#pragma once

#include <string>
#include <vector>

namespace ptxlab {

// Registers them, and returns their names.
std::vector<std::string> register_operators();

}  // namespace ptxlab
