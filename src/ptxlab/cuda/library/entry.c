/* The functions that the library exports, and the answers of cuGetProcAddress: both come from functions/all.def. */
#include <string.h>

#include "internal.h"

static CUresult result_of(CUresult refused) { return refused == NOTHING_LEFT ? CUDA_SUCCESS : refused; }

#define BODY(name, symbol, needs, parameters, arguments) \
    EXPORT CUresult symbol parameters                    \
    {                                                    \
        CUresult refused = enter_##needs();              \
        if (refused)                                     \
            return result_of(refused);                   \
        this_thread()->function = #name;                 \
        return ptxlab_##symbol arguments;                \
    }
#define FUNCTION(name, since, symbol, needs, parameters, arguments) BODY(name, symbol, needs, parameters, arguments)
#define STREAM_FUNCTION(name, since, symbol, suffix, needs, parameters, arguments) \
    BODY(name, symbol, needs, parameters, arguments)                               \
    EXPORT CUresult symbol##suffix parameters                                      \
    {                                                                              \
        CUresult refused = enter_##needs();                                        \
        if (refused)                                                               \
            return result_of(refused);                                             \
        this_thread()->function = #name;                                           \
        this_thread()->per_thread++;                                               \
        CUresult result = ptxlab_##symbol arguments;                               \
        this_thread()->per_thread--;                                               \
        return result;                                                             \
    }
#include "functions/all.def"
#undef FUNCTION
#undef STREAM_FUNCTION

/* Names without a version, for programs that look the newest form up by its plain name. */
#define ALIAS(name, symbol) extern __typeof__(symbol) name __attribute__((alias(#symbol), visibility("default")));
#include "functions/aliases.def"
#undef ALIAS

/* Functions that programs are linked with and that the library lacks. */
#define REFUSED(symbol)    \
    CUresult symbol(void); \
    EXPORT CUresult symbol(void) { return ptxlab_unsupported(#symbol); }
#include "functions/refused.def"
#undef REFUSED

/* ------------------------------------------------------------------ look-up */

typedef void (*AnyFunction)(void);

/* The version of CUDA from which on functions have a form for the default stream of the thread. */
enum { FIRST_PER_THREAD = 7000 };

typedef struct Row {
    const char *name;
    int since;
    AnyFunction function, per_thread;
} Row;

static const Row rows[] = {
#define FUNCTION(name, since, symbol, needs, parameters, arguments) {#name, since, (AnyFunction)symbol, (AnyFunction)symbol},
#define STREAM_FUNCTION(name, since, symbol, suffix, needs, parameters, arguments) \
    {#name, since, (AnyFunction)symbol, (AnyFunction)symbol##suffix},
#include "functions/all.def"
#undef FUNCTION
#undef STREAM_FUNCTION
};

CUresult ptxlab_cuGetProcAddress_v2(const char *name, void **function, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
    if (!name || !function || flags > (CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM))
        return CUDA_ERROR_INVALID_VALUE;
    const Row *found = NULL;
    bool known = false;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].name, name)) {
            known = true;
            int since = flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM && rows[i].per_thread != rows[i].function &&
                                rows[i].since < FIRST_PER_THREAD
                            ? FIRST_PER_THREAD
                            : rows[i].since;
            if (since <= version)
                found = &rows[i];
        }
    *function = NULL;
    if (!found) {
        if (status)
            *status = known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
        return CUDA_ERROR_NOT_FOUND;
    }
    AnyFunction chosen = flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM ? found->per_thread : found->function;
    memcpy(function, &chosen, sizeof chosen);
    if (status)
        *status = CU_GET_PROC_ADDRESS_SUCCESS;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags)
{
    return ptxlab_cuGetProcAddress_v2(name, function, version, flags, NULL);
}

/* Tables of functions that are not public: there are none. */
CUresult ptxlab_cuGetExportTable(const void **table, const CUuuid *id)
{
    (void)id;
    if (table)
        *table = NULL;
    return CUDA_ERROR_NOT_FOUND;
}

CUresult ptxlab_cuDriverGetVersion(int *version)
{
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = DRIVER_VERSION;
    return CUDA_SUCCESS;
}
