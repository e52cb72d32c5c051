#pragma once

namespace ptxlab {

constexpr long kRuntimeVersion = 13000;

// Makes torch find a CUDA device. It must come before torch asks for one, that is, before Python imports torch.
void register_hooks();

}  // namespace ptxlab
