// Thin wrappers of PTX for sm_90a: mbarriers, tensor copies, clusters, and sparse wgmma. `wgmma.cuh` has the dense one.
#pragma once
#include <cstdint>

#include "../../end_to_end/cuda/wgmma.cuh"

// wgmma.fence, with all earlier writes of the registers in front of it.
template <int Count> __device__ inline void fence_sums(uint32_t (&d)[Count]) {
  for (int i = 0; i < Count; i++) asm volatile("" : "+r"(d[i])::"memory");
  wgmma::fence();
}

struct alignas(64) TensorMap {
  uint8_t bytes[128];
};

__device__ inline uint32_t shared(const void *p) { return wgmma::shared_address(p); }

namespace barrier {

__device__ inline void init(uint64_t *b, int count) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared(b)), "r"(count) : "memory"); }
__device__ inline void fence_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ inline void expect(uint64_t *b, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared(b)), "r"(bytes) : "memory");
}
__device__ inline void arrive(uint64_t *b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared(b)) : "memory"); }
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
__device__ inline uint32_t size() {
  uint32_t n;
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(n));
  return n;
}
__device__ inline void sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// The address of `p` in the shared memory of another CTA.
__device__ inline uint32_t map(const void *p, uint32_t cta) {
  uint32_t a;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(a) : "r"(shared(p)), "r"(cta));
  return a;
}
__device__ inline uint32_t load(uint32_t address) {
  uint32_t v;
  asm volatile("ld.shared::cluster.b32 %0, [%1];" : "=r"(v) : "r"(address) : "memory");
  return v;
}
__device__ inline void store(uint32_t address, uint32_t v) { asm volatile("st.shared::cluster.b32 [%0], %1;" ::"r"(address), "r"(v) : "memory"); }
__device__ inline void arrive(uint64_t *b, uint32_t cta) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(map(b, cta)) : "memory");
}

}  // namespace cluster

namespace tma {

__device__ inline void load(void *to, const TensorMap *map, uint64_t *b, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(shared(to)),
               "l"(map), "r"(x), "r"(y), "r"(shared(b))
               : "memory");
}
__device__ inline void load_multicast(void *to, const TensorMap *map, uint64_t *b, int x, int y, uint16_t ctas) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(
          shared(to)),
      "l"(map), "r"(x), "r"(y), "r"(shared(b)), "h"(ctas)
      : "memory");
}
__device__ inline void store(const TensorMap *map, const void *from, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map), "r"(x), "r"(y), "r"(shared(from)) : "memory");
}
__device__ inline void commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int Pending> __device__ inline void wait_read() { asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Pending) : "memory"); }
template <int Pending> __device__ inline void wait() { asm volatile("cp.async.bulk.wait_group %0;" ::"n"(Pending) : "memory"); }

}  // namespace tma

template <int Count> __device__ inline void fewer_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Count)); }
template <int Count> __device__ inline void more_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Count)); }
