/* The connections with a server process.
 *
 * Each thread has a connection of its own, so that a launch that waits holds up no other thread. A message is a header and a body. The
 * server answers each request with a header whose kind is the result. While a request runs, the server may ask the library on the same
 * connection; those kinds are numbers from FROM_SERVER on, and the library answers likewise. remote/_server.py is the other side: the
 * kinds and bodies stand there too. */
#ifndef PTXLAB_CONNECTION_H
#define PTXLAB_CONNECTION_H

#include <sys/uio.h>

#include "internal.h"

enum Kind {
    HELLO = 1,
    LOAD_IMAGE,
    UNLOAD_IMAGE,
    KERNEL_NAME,
    KERNEL_INFO,
    VARIABLE,
    PREPARE_LAUNCH,
    RUN_LAUNCH,
    ENCODE_TENSOR_MAP,
    LINK,
    REPORT,
    HEAP_CHANGES,
    CONFLICT,
    ENDED,
    FROM_SERVER = 10000, /* above all codes of results */
    STALLED = FROM_SERVER,
    ACTIVITY,
    HEAP_ALLOCATE,
    HEAP_FREE,
    PRINT,
    ORDER_IS_WANTED,
    ACCESSED,
    PLACE,
    ESTIMATED
};

/* The connection of a thread, and the last body that came over it. */
typedef struct Connection {
    int socket;
    char *body;
    size_t size, capacity;
    struct Connection *next;
} Connection;

/* Connect the calling thread with the server of this name in the abstract namespace, and send it a file; the body of its answer is that of
 * the connection. Null if there is no such server. */
Connection *connect_to_server(const char *name, int file);
/* The server has ended: say so once. */
CUresult server_is_lost(void);
bool is_server_lost(void);
/* The connection of this thread; null if there is none. */
Connection *connection(void);
/* Send a request and wait for its result; the body of the answer is `*answered` then, until the next request of the thread. */
CUresult request(enum Kind kind, struct iovec *parts, int count, Connection **answered);

#endif
