/* What the files of this library share. */
#ifndef PTXLAB_CUTE_CONTEXT_H
#define PTXLAB_CUTE_CONTEXT_H

#include "../driver_api.h"

#define EXPORT __attribute__((visibility("default")))

/* The device of the calling thread, as the functions that follow the runtime API see it. */
CUresult cute_device(int *device);
CUresult cute_set_device(int device);

/* Makes the primary context of the thread's device current if there is no current context, as the runtime API does. */
CUresult cute_context(void);

/* A call has failed that host code does not check: the next launch of the thread gives the error. `cute_take_failure` gives it once. */
void cute_fail(CUresult error);
CUresult cute_take_failure(void);

#endif
