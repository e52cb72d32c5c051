/* The options of the JIT compiler: the buffers for its logs. */
#ifndef PTXLAB_JIT_OPTIONS_H
#define PTXLAB_JIT_OPTIONS_H

#include "internal.h"

typedef struct Logs {
    char *info, *error;
    size_t info_size, error_size;
    void **info_filled, **error_filled;
} Logs;

CUresult read_options(Logs *logs, unsigned int count, const CUjit_option *options, void **values);
void write_logs(const Logs *logs, const char *text, bool failed);

#endif
