// Thin wrappers of PTX: mbarriers, tensor copies, clusters.
#pragma once
#include <cstdint>

struct alignas(64) TensorMap {
  uint8_t bytes[128];
};

__device__ inline uint32_t shared(const void *p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

namespace barrier {

__device__ inline void init(uint64_t *b, int count) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared(b)), "r"(count) : "memory"); }
__device__ inline void fence_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ inline void expect(uint64_t *b, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared(b)), "r"(bytes) : "memory");
}
__device__ inline void arrive(uint64_t *b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared(b)) : "memory"); }
// Arrives on the barrier at the same place in another CTA of the cluster.
__device__ inline void arrive(uint64_t *b, uint32_t cta) {
  asm volatile(
      "{.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\nmbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];}" ::"r"(shared(b)),
      "r"(cta)
      : "memory");
}
__device__ inline void wait(uint64_t *b, int parity) {
  asm volatile(
      "{.reg .pred p;\nWAIT_%=:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1;\n@!p bra WAIT_%=;}" ::"r"(shared(b)),
      "r"(parity)
      : "memory");
}

}  // namespace barrier

namespace cluster {

__device__ inline uint32_t rank() {
  uint32_t r;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return r;
}
__device__ inline void sync() { asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory"); }

}  // namespace cluster

namespace tma {

__device__ inline void load(void *to, const TensorMap *map, uint64_t *b, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(shared(to)),
               "l"(map), "r"(x), "r"(y), "r"(shared(b))
               : "memory");
}
__device__ inline void load_multicast(void *to, const TensorMap *map, uint64_t *b, int x, int y, uint16_t ctas) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(
          shared(to)),
      "l"(map), "r"(x), "r"(y), "r"(shared(b)), "h"(ctas)
      : "memory");
}
// Bytes as they are, without a tensor map.
__device__ inline void load_bytes(void *to, const void *from, int bytes, uint64_t *b) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared(to)), "l"(from), "r"(bytes),
               "r"(shared(b))
               : "memory");
}
__device__ inline void store(const TensorMap *map, const void *from, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map), "r"(x), "r"(y), "r"(shared(from)) : "memory");
}
__device__ inline void commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int Pending> __device__ inline void wait_read() { asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Pending) : "memory"); }
template <int Pending> __device__ inline void wait() { asm volatile("cp.async.bulk.wait_group %0;" ::"n"(Pending) : "memory"); }
__device__ inline void fence_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

}  // namespace tma
