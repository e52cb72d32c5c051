/* Named sequences of driver calls, and what they print.
 *
 * A sequence is a function that calls the driver through CALL. Each call and each value becomes a step, a line of text such as
 * "cuMemAlloc_v2=2" or "aligned=1". The steps of two drivers are compared as text, so a sequence prints nothing that differs from run to
 * run: addresses, handles, times. */
#ifndef PTXLAB_TESTS_SEQUENCES_H
#define PTXLAB_TESTS_SEQUENCES_H

#include "driver_api.h"

typedef int (*Function)();

/* The function of the driver with this symbol; one that gives -1 if it has none. */
Function function(const char *symbol);

int call_step(const char *symbol, int result);
int setup_step(const char *symbol, int result);
void value(const char *name, long long number);
void text(const char *name, const char *content);

/* Calls a function of the driver; its result is a step. */
#define CALL(symbol, ...) call_step(#symbol, function(#symbol)(__VA_ARGS__))
/* Calls a function that is needed before; only a failure is a step. */
#define SETUP(symbol, ...) setup_step(#symbol, function(#symbol)(__VA_ARGS__))

typedef void (*Body)(const long *parameters);

/* Adds a sequence; its name is followed by its parameters. */
void add(const char *name, Body body, int count, ...);

/* Adds a sequence whose name does not show its parameter. */
void add_named(const char *name, Body body, long parameter);

/* cuInit, and the primary context of device 0 as the current one. */
CUcontext start(void);
CUmodule load_module(void);
CUfunction load_kernel(const char *name);
CUdeviceptr allocate(size_t size);

/* The PTX module of the sequences. */
extern const char MODULE[];

/* A power of two of which an address is a multiple, at most `most`. */
long long alignment(CUdeviceptr address, long long most);

void add_calls(void);
void add_devices(void);
void add_contexts(void);
void add_memory(void);
void add_copies(void);
void add_streams(void);
void add_modules(void);
void add_launches(void);
void add_occupancy(void);
void add_pools(void);
void add_virtual_memory(void);
void add_graphs(void);
void add_faults(void);

#endif
