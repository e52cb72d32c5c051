// tcgen05.ld, st and ld.red in every shape: tensor memory is written from an image, one instruction moves registers of all four warps, and
// registers or tensor memory are shown.
#include "registers.cuh"
#include "tcgen05.cuh"

using namespace tcgen05;

#define OUT(x) "=r"(x)
#define IN(x) "r"(x)

constexpr int MOST = 128;  // registers of a thread

// `given`: values of the threads to store [thread][register]; `found`: values of the threads that were loaded, then the reduction.
extern "C" __global__ void __launch_bounds__(128)
transfer(uint32_t form, uint32_t place, const uint32_t *before, const uint32_t *given, uint32_t *found, uint32_t *after) {
  __shared__ uint32_t slot;
  if (threadIdx.x < 32) allocate<1>(&slot, COLUMNS);
  meet<1>();
  uint32_t base = slot, address = base + place + (threadIdx.x / 32 << 21);
  write_all(base, before);
  given += threadIdx.x * MOST;
  found += threadIdx.x * (MOST + 1);
  meet<1>();
  switch (form) {
#define LOAD(FORM, COUNT, TAIL)                                                                                                        \
  case __LINE__: {                                                                                                                     \
    uint32_t v[COUNT];                                                                                                                 \
    asm volatile("tcgen05.ld.sync.aligned." FORM " {" PLACES_##COUNT "}, [" PLACE_BEHIND_##COUNT "]" TAIL ";" : VALUES_##COUNT(OUT) : "r"(address)); \
    wait_load();                                                                                                                       \
    for (int i = 0; i < COUNT; i++) found[i] = v[i];                                                                                   \
    break;                                                                                                                             \
  }
#define STORE(FORM, COUNT, TAIL)                                                                                                       \
  case __LINE__: {                                                                                                                     \
    uint32_t v[COUNT];                                                                                                                 \
    for (int i = 0; i < COUNT; i++) v[i] = given[i];                                                                                   \
    asm volatile("tcgen05.st.sync.aligned." FORM " [" PLACE_BEHIND_##COUNT "]" TAIL ", {" PLACES_##COUNT "};" ::VALUES_##COUNT(IN), "r"(address) : "memory"); \
    wait_store();                                                                                                                      \
    break;                                                                                                                             \
  }
#define REDUCE(FORM, COUNT, TAIL)                                                                                                      \
  case __LINE__: {                                                                                                                     \
    uint32_t v[COUNT], reduced;                                                                                                        \
    asm volatile("tcgen05.ld.red.sync.aligned." FORM " {" PLACES_##COUNT "}, " PLACE_BEHIND_##COUNT ", [" PLACE_AFTER_##COUNT "]" TAIL ";" \
                 : VALUES_##COUNT(OUT), "=r"(reduced) : "r"(address));                                                                 \
    wait_load();                                                                                                                       \
    for (int i = 0; i < COUNT; i++) found[i] = v[i];                                                                                   \
    found[MOST] = reduced;                                                                                                             \
    break;                                                                                                                             \
  }
#include "tcgen05_transfers.inc"
  }
  meet<1>();
  read_all(base, after);
  meet<1>();
  if (threadIdx.x < 32) deallocate<1>(base, COLUMNS);
}
