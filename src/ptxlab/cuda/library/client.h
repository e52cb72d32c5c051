/* The core in a server process, for programs without Python: what a program is given by `ptxlab exec ./program`. */
#ifndef PTXLAB_CLIENT_H
#define PTXLAB_CLIENT_H

#include <stdbool.h>

#include "core.h"

/* The variable that names the server's socket, in the abstract namespace. */
#define PTXLAB_SERVER "PTXLAB_SERVER"

/* Connect with the server that the environment names and attach its core. False if there is none. */
bool client_connect(void);

/* In a child of fork: the connections belong to its parent. */
void client_forget(void);

#endif
