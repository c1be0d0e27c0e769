#include "bounce.h"
#include "real.h"

#include <errno.h>
#include <string.h>

enum { CHUNK = 1 << 20, PAGE = 4096 };

void *bounce_new(size_t bytes) {
    void *found = NULL;
    errno = REAL(posix_memalign)(&found, PAGE, bytes ? bytes : 1);
    return errno ? NULL : found;
}

void bounce_free(void *memory) {
    int kept = errno;
    REAL(free)(memory);
    errno = kept;
}

static size_t least(size_t one, size_t other) {
    return one < other ? one : other;
}

ssize_t bounce_in(bounce_call *one, void *call, char *to, size_t bytes, bool whole) {
    size_t done = 0, part = least(bytes, CHUNK);
    char *memory = bounce_new(part);
    ssize_t got = memory ? 0 : -1;
    while (memory && (got = one(call, memory, part, done)) > 0) {
        memcpy(to + done, memory, least((size_t)got, part)); /* a truncated datagram is longer */
        done += (size_t)got;
        if (!whole || (size_t)got != part || done == bytes)
            break;
        part = least(bytes - done, CHUNK);
    }
    bounce_free(memory);
    return done ? (ssize_t)done : got;
}

ssize_t bounce_out(bounce_call *one, void *call, const char *from, size_t bytes) {
    size_t done = 0, part = least(bytes, CHUNK);
    char *memory = bounce_new(part);
    ssize_t got = -1;
    while (memory) {
        memcpy(memory, from + done, part);
        if ((got = one(call, memory, part, done)) <= 0)
            break;
        done += (size_t)got;
        if ((size_t)got != part || done == bytes)
            break;
        part = least(bytes - done, CHUNK);
    }
    bounce_free(memory);
    return done ? (ssize_t)done : got;
}
