/* Each call of calls.def in three states. */
#include <string.h>

#include "sequences.h"

static _Alignas(4096) char page[8192];

static void do_nothing(void *data) { (void)data; }

static void make(long line) {
    int number = 0, mode = 0;
    unsigned int flags = 0;
    size_t size = 0;
    unsigned long long address = 0;
    void *handle = 0;
    char name[128];
    CUmemAllocationProp allocation;
    CUmemPoolProps pool;
    memset(&allocation, 0, sizeof allocation);
    memset(&pool, 0, sizeof pool);
    allocation.type = pool.allocType = 1;
    allocation.location.type = pool.location.type = 1;
    switch (line) {
#define CASE(symbol, ...)           \
    case __LINE__:                  \
        CALL(symbol, ##__VA_ARGS__); \
        break;
#include "calls.def"
#undef CASE
    }
}

static void before_init(const long *line) { make(*line); }

static void without_context(const long *line) {
    SETUP(cuInit, 0);
    make(*line);
}

static void with_context(const long *line) {
    start();
    make(*line);
}

static void after_a_fault(const long *line) {
    start();
    CUdeviceptr nowhere = 64;
    unsigned int what = 1;
    void *parameters[] = {&nowhere, &what};
    CALL(cuLaunchKernel, load_kernel("store"), 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL);
    CALL(cuCtxSynchronize);
    make(*line);
}


void add_calls(void) {
#define CASE(symbol, ...) add_named("before_init/" #symbol, before_init, __LINE__);
#include "calls.def"
#undef CASE
#define CASE(symbol, ...) add_named("without_context/" #symbol, without_context, __LINE__);
#include "calls.def"
#undef CASE
#define CASE(symbol, ...) add_named("with_context/" #symbol, with_context, __LINE__);
#include "calls.def"
#undef CASE
/* Every third: each makes the device report a fault. */
#define CASE(symbol, ...)  \
    if (__LINE__ % 3 == 0) \
        add_named("after_a_fault/" #symbol, after_a_fault, __LINE__);
#include "calls.def"
#undef CASE
}
