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

/* Where the program makes the call of this thread, as lines "offset file"; into SITE_BYTES bytes, the size without the zero at the end. */
#define SITE_BYTES 4096
size_t call_site(char *text);
/* The same as a number, and the text of a number. */
uint64_t native_place(void);
size_t native_place_text(uint64_t place, char *text);

#endif
