/* Where in the program a thread is: for Python the line of the innermost frame that is not of a package which calls the driver. */
#include "internal.h"

enum { CODES = 4096, LINE_BITS = 24 };

typedef struct Code {
    void *object;
    uint64_t number;
} Code;

/* By the address of code objects, which the core keeps; the interpreter's lock is held. */
static Code codes[CODES];

static uint64_t number_of(void *object)
{
    uint64_t at = ((uint64_t)object >> 4) * 0x9E3779B97F4A7C15u >> 52;
    for (int i = 0; i < 8; i++) {
        Code *code = &codes[(at + (uint64_t)i) % CODES];
        if (code->object == object)
            return code->number;
        if (!code->object) {
            *code = (Code){object, driver.core.number_code(object)};
            return code->number;
        }
    }
    return driver.core.number_code(object);
}

static uint64_t place_in_python(void)
{
    const Core *core = &driver.core;
    int state = core->lock_interpreter();
    uint64_t found = 0;
    void *frame = core->frame_of_thread(core->thread_state());
    while (frame) {
        void *code = core->code_of_frame(frame);
        uint64_t number = number_of(code);
        core->drop_object(code);
        if (number)
            found = number << LINE_BITS | (uint64_t)core->line_of_frame(frame);
        void *before = number ? NULL : core->frame_before(frame);
        core->drop_object(frame);
        frame = before;
    }
    core->unlock_interpreter(state);
    return found;
}

uint64_t place_here(void)
{
    if (driver.core.place)
        return driver.core.place();
    return driver.core.lock_interpreter && driver.core.frame_of_thread ? place_in_python() : 0;
}
