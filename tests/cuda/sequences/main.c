/* Runs sequences, each in a process of its own, and prints one line of JSON for each.
 *
 *   sequences [--jobs N] [--list] [PREFIX]
 *
 * The library form has run_sequence, which runs one in the calling process. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sequences.h"

enum { MOST = 4096, MOST_PARAMETERS = 4, MOST_JOBS = 64 };
static struct Sequence {
    char name[96];
    Body body;
    long parameters[MOST_PARAMETERS];
} sequences[MOST];
static int sequence_count;
static FILE *out;
static int step_count;
static void *driver;

static int missing(void) { return -1; }

Function function(const char *symbol) {
    Function found = (Function)dlsym(driver, symbol);
    return found ? found : (Function)missing;
}

static void begin_step(void) { fputs(step_count++ ? ", \"" : "\"", out); }

int call_step(const char *symbol, int result) {
    begin_step();
    fprintf(out, "%s=%d\"", symbol, result);
    return result;
}

int setup_step(const char *symbol, int result) {
    if (result) {
        begin_step();
        fprintf(out, "setup %s=%d\"", symbol, result);
    }
    return result;
}

void value(const char *name, long long number) {
    begin_step();
    fprintf(out, "%s: %lld\"", name, number);
}

void text(const char *name, const char *content) {
    begin_step();
    fprintf(out, "%s: ", name);
    for (; *content; content++) {
        if (*content == '"' || *content == '\\' || (unsigned char)*content < 32)
            fprintf(out, "\\u%04x", (unsigned char)*content);
        else
            fputc(*content, out);
    }
    fputc('"', out);
}

void add(const char *name, Body body, int count, ...) {
    if (sequence_count == MOST)
        abort();
    struct Sequence *sequence = &sequences[sequence_count++];
    int length = snprintf(sequence->name, sizeof sequence->name, "%s", name);
    va_list arguments;
    va_start(arguments, count);
    for (int i = 0; i < count; i++) {
        sequence->parameters[i] = va_arg(arguments, long);
        length += snprintf(sequence->name + length, sizeof sequence->name - length, "%c%ld", i ? ',' : '/', sequence->parameters[i]);
    }
    va_end(arguments);
    sequence->body = body;
}

void add_named(const char *name, Body body, long parameter) {
    add(name, body, 0);
    sequences[sequence_count - 1].parameters[0] = parameter;
}

static void add_all(void) {
    if (sequence_count)
        return;
    add_calls();
    add_devices();
    add_contexts();
    add_memory();
    add_copies();
    add_streams();
    add_modules();
    add_launches();
    add_occupancy();
    add_pools();
    add_virtual_memory();
    add_graphs();
    add_faults();
}

int run_sequence(const char *name, const char *library, int descriptor) {
    add_all();
    driver = dlopen(library, RTLD_NOW);
    for (int i = 0; i < sequence_count; i++)
        if (strcmp(sequences[i].name, name) == 0) {
            out = fdopen(descriptor, "w");
            if (!driver || !out)
                return 2;
            step_count = 0;
            fprintf(out, "{\"name\": \"%s\", \"steps\": [", name);
            sequences[i].body(sequences[i].parameters);
            fputs("]}\n", out);
            fflush(out);
            return 0;
        }
    return 1;
}

/* Copies what a process has written; a process that died leaves the step "signal=N". */
static void finish(int descriptor, int status, const char *name) {
    char piece[4096];
    size_t written = 0;
    ssize_t got;
    lseek(descriptor, 0, SEEK_SET);
    while ((got = read(descriptor, piece, sizeof piece)) > 0)
        written += fwrite(piece, 1, (size_t)got, stdout);
    if (!written)
        printf("{\"name\": \"%s\", \"steps\": [\"signal=%d\"]}\n", name, WIFSIGNALED(status) ? WTERMSIG(status) : -1);
    close(descriptor);
}

int main(int argc, char **argv) {
    int jobs = 1, list = 0;
    const char *prefix = "";
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--jobs") == 0 && i + 1 < argc)
            jobs = atoi(argv[++i]);
        else if (strcmp(argv[i], "--list") == 0)
            list = 1;
        else
            prefix = argv[i];
    }
    if (jobs < 1 || jobs > MOST_JOBS)
        jobs = 1;
    add_all();
    pid_t processes[MOST_JOBS] = {0};
    int files[MOST_JOBS], indices[MOST_JOBS], running = 0;
    for (int next = 0; next < sequence_count || running;) {
        if (next < sequence_count && (list || strncmp(sequences[next].name, prefix, strlen(prefix)) != 0)) {
            if (list)
                puts(sequences[next].name);
            next++;
            continue;
        }
        if (next < sequence_count && running < jobs) {
            int slot = 0;
            while (processes[slot])
                slot++;
            FILE *file = tmpfile();
            files[slot] = dup(fileno(file));
            fclose(file);
            indices[slot] = next;
            fflush(stdout);
            processes[slot] = fork();
            if (processes[slot] == 0) {
                alarm(60);
                _exit(run_sequence(sequences[next].name, "libcuda.so.1", files[slot]));
            }
            running++;
            next++;
            continue;
        }
        int status;
        pid_t ended = wait(&status);
        for (int slot = 0; slot < jobs; slot++)
            if (processes[slot] == ended) {
                finish(files[slot], status, sequences[indices[slot]].name);
                processes[slot] = 0;
                running--;
            }
    }
    return 0;
}
