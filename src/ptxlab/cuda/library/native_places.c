/* Where a program that is not Python makes a call: the return addresses on its stack. */
#include <dlfcn.h>
#include <elf.h>
#include <execinfo.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

enum { MOST_FRAMES = 24, MOST_PLACES = 4096 };

typedef struct Frames {
    void *addresses[MOST_FRAMES];
    int count;
} Frames;

typedef struct NativePlace {
    Frames frames;
    char *text; /* what the server is told of them, once it has been made */
} NativePlace;

/* By the number of the place, from 1; each is kept once. */
static NativePlace *places[MOST_PLACES + 1];
static uint64_t place_count;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;

/* The address as the file itself counts: programs that are not position-independent are linked to their addresses. */
static size_t offset_in(const Dl_info *info, const void *address)
{
    const Elf64_Ehdr *header = info->dli_fbase;
    return (size_t)address - (header->e_type == ET_EXEC ? 0 : (size_t)info->dli_fbase);
}

/* For each frame outside of the CUDA libraries a line "offset file". */
static size_t describe(const Frames *frames, char *text)
{
    Dl_info own, info;
    size_t used = 0;
    dladdr((void *)(uintptr_t)&describe, &own);
    text[0] = 0;
    for (int i = 0; i < frames->count; i++) {
        void *address = frames->addresses[i];
        if (!dladdr(address, &info) || info.dli_fbase == own.dli_fbase || !info.dli_fname || strstr(info.dli_fname, "libcudart.so"))
            continue;
        int more = snprintf(text + used, SITE_BYTES - used, "%zx %s\n", offset_in(&info, address), info.dli_fname);
        if (more < 0 || used + (size_t)more >= SITE_BYTES)
            break;
        used += (size_t)more;
    }
    return used;
}

static uint64_t number_of(const Frames *frames)
{
    uint64_t found = 0, digest = 0;
    for (int i = 0; i < frames->count; i++)
        digest = (digest ^ (uint64_t)frames->addresses[i]) * 0x9E3779B97F4A7C15u;
    pthread_mutex_lock(&guard);
    for (uint64_t i = 0, at = digest >> 52; i < MOST_PLACES && !found; i++, at = (at + 1) % MOST_PLACES) {
        if (!places[at + 1] && place_count < MOST_PLACES && (places[at + 1] = calloc(1, sizeof *places[at + 1]))) {
            places[at + 1]->frames = *frames;
            place_count++;
        }
        if (!places[at + 1])
            break;
        if (!memcmp(&places[at + 1]->frames, frames, sizeof *frames))
            found = at + 1;
    }
    pthread_mutex_unlock(&guard);
    return found;
}

static Frames frames_here(void)
{
    Frames frames = {0};
    frames.count = backtrace(frames.addresses, MOST_FRAMES);
    return frames;
}

uint64_t native_place(void)
{
    Frames frames = frames_here();
    return number_of(&frames);
}

size_t native_place_text(uint64_t number, char *text)
{
    NativePlace *place = number && number <= MOST_PLACES ? places[number] : NULL;
    text[0] = 0;
    if (!place)
        return 0;
    pthread_mutex_lock(&guard);
    const char *known = place->text;
    pthread_mutex_unlock(&guard);
    if (known)
        return strlen(strcpy(text, known));
    size_t size = describe(&place->frames, text);
    pthread_mutex_lock(&guard);
    if (!place->text)
        place->text = strdup(text);
    pthread_mutex_unlock(&guard);
    return size;
}

size_t call_site(char *text)
{
    Frames frames = frames_here();
    uint64_t number = number_of(&frames);
    return number ? native_place_text(number, text) : describe(&frames, text);
}
