/* Messages between a program and the server process that runs its kernels. */
#include "connection.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "client.h"

typedef struct Header {
    uint32_t size; /* of the body */
    int32_t kind;
} Header;

#define MOST_PARTS 6

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER; /* of the list of connections */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static Connection *connections;
static _Atomic bool lost;
static struct sockaddr_un server;
static socklen_t server_size;

CUresult server_is_lost(void)
{
    if (!atomic_exchange(&lost, true))
        fprintf(stderr, "ptxlab: the process that runs the kernels has ended; launches fail with CUDA_ERROR_OPERATING_SYSTEM\n");
    return CUDA_ERROR_OPERATING_SYSTEM;
}

bool is_server_lost(void) { return lost; }

static void close_connection(void *value)
{
    Connection *closed = value;
    pthread_mutex_lock(&guard);
    for (Connection **link = &connections; *link; link = &(*link)->next)
        if (*link == closed) {
            *link = closed->next;
            break;
        }
    pthread_mutex_unlock(&guard);
    close(closed->socket);
    free(closed->body);
    free(closed);
}

static void make_key(void) { pthread_key_create(&key, close_connection); }

Connection *connection(void)
{
    pthread_once(&once, make_key);
    Connection *found = pthread_getspecific(key);
    if (found || lost)
        return found;
    found = calloc(1, sizeof *found);
    if (!found)
        return NULL;
    found->socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (found->socket < 0 || connect(found->socket, (struct sockaddr *)&server, server_size)) {
        if (found->socket >= 0)
            close(found->socket);
        free(found);
        return NULL;
    }
    pthread_mutex_lock(&guard);
    found->next = connections;
    connections = found;
    pthread_mutex_unlock(&guard);
    pthread_setspecific(key, found);
    return found;
}

void client_forget(void)
{
    for (Connection *each = connections; each; each = each->next)
        close(each->socket);
    connections = NULL;
}

static bool send_parts(int socket, int32_t kind, struct iovec *parts, int count)
{
    struct iovec all[MOST_PARTS + 1];
    Header header = {0, kind};
    for (int i = 0; i < count; i++) {
        all[i + 1] = parts[i];
        header.size += (uint32_t)parts[i].iov_len;
    }
    all[0] = (struct iovec){&header, sizeof header};
    struct msghdr message = {.msg_iov = all, .msg_iovlen = (size_t)count + 1};
    while (message.msg_iovlen) {
        ssize_t sent = sendmsg(socket, &message, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return false;
        while (message.msg_iovlen && (size_t)sent >= message.msg_iov->iov_len) {
            sent -= (ssize_t)message.msg_iov->iov_len;
            message.msg_iov++;
            message.msg_iovlen--;
        }
        if (message.msg_iovlen) {
            message.msg_iov->iov_base = (char *)message.msg_iov->iov_base + sent;
            message.msg_iov->iov_len -= (size_t)sent;
        }
    }
    return true;
}

static bool receive(int socket, void *to, size_t size)
{
    for (size_t got = 0; got < size;) {
        ssize_t count = recv(socket, (char *)to + got, size - got, 0);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return false;
        got += (size_t)count;
    }
    return true;
}

static bool receive_message(Connection *from, int32_t *kind)
{
    Header header;
    if (!receive(from->socket, &header, sizeof header))
        return false;
    if (header.size + 1 > from->capacity) {
        char *grown = realloc(from->body, (size_t)header.size + 1);
        if (!grown)
            return false;
        from->body = grown;
        from->capacity = (size_t)header.size + 1;
    }
    from->size = header.size;
    *kind = header.kind;
    if (!receive(from->socket, from->body, header.size))
        return false;
    from->body[header.size] = 0;
    return true;
}

/* Answer a request of the server. */
static bool answer(Connection *to, int32_t kind)
{
    uint64_t numbers[3] = {0};
    uint32_t activity[2] = {0};
    char site[SITE_BYTES];
    struct iovec none = {numbers, 0}, one = {numbers, sizeof numbers[0]}, pair = {activity, sizeof activity};
    if (to->size >= sizeof numbers)
        memcpy(numbers, to->body, sizeof numbers);
    switch (kind) {
    case STALLED:
        ptxlab_stalled();
        return send_parts(to->socket, 0, &none, 1);
    case ACTIVITY:
        ptxlab_activity(&activity[0], &activity[1]);
        return send_parts(to->socket, 0, &pair, 1);
    case HEAP_ALLOCATE:
        numbers[0] = ptxlab_heap_allocate((int)numbers[0], numbers[1], numbers[2]);
        return send_parts(to->socket, 0, &one, 1);
    case ESTIMATED:
        ptxlab_estimated(numbers[0]);
        return send_parts(to->socket, 0, &none, 1);
    case HEAP_FREE:
        ptxlab_heap_free(numbers[0]);
        return send_parts(to->socket, 0, &none, 1);
    case PRINT:
        fwrite(to->body, 1, to->size, stdout);
        return send_parts(to->socket, 0, &none, 1);
    case ORDER_IS_WANTED:
        numbers[0] = (uint64_t)ptxlab_order_is_wanted();
        return send_parts(to->socket, 0, &one, 1);
    case PLACE:
        return send_parts(to->socket, 0, &(struct iovec){site, native_place_text(numbers[0], site)}, 1);
    case ACCESSED:
        ptxlab_accessed((const AccessRange *)(const void *)to->body, (uint32_t)(to->size / sizeof(AccessRange)));
        return send_parts(to->socket, 0, &none, 1);
    default:
        return false;
    }
}

CUresult request(enum Kind kind, struct iovec *parts, int count, Connection **answered)
{
    Connection *to = connection();
    int32_t result;
    if (!to || !send_parts(to->socket, kind, parts, count))
        return server_is_lost();
    do {
        if (!receive_message(to, &result))
            return server_is_lost();
    } while (result >= FROM_SERVER && answer(to, result));
    if (result >= FROM_SERVER)
        return server_is_lost();
    if (answered)
        *answered = to;
    return (CUresult)result;
}

/* Send the file that holds the memory of the devices. */
static bool send_file(int socket, int file)
{
    Header header = {0, HELLO};
    struct iovec part = {&header, sizeof header};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof file)] = {0};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    *rights = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof file), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(rights), &file, sizeof file);
    return sendmsg(socket, &message, MSG_NOSIGNAL) == (ssize_t)sizeof header;
}

Connection *connect_to_server(const char *name, int file)
{
    int32_t result;
    if (file < 0 || strlen(name) + 1 >= sizeof server.sun_path)
        return NULL;
    server.sun_family = AF_UNIX;
    memcpy(server.sun_path + 1, name, strlen(name));
    server_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
    Connection *made = connection();
    return made && send_file(made->socket, file) && receive_message(made, &result) && !result ? made : NULL;
}
