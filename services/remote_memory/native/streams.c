/* fread and fwrite, whose system calls for large requests are inside of the C library. */
#include "bounce.h"
#include "real.h"
#include "region.h"

#include <stdint.h>

#undef fread_unlocked
#undef fwrite_unlocked

static ssize_t one_fread(void *stream, void *memory, size_t bytes, size_t done) {
    (void)done;
    return (ssize_t)REAL(fread)(memory, 1, bytes, stream);
}

static ssize_t one_fwrite(void *stream, void *memory, size_t bytes, size_t done) {
    (void)done;
    return (ssize_t)REAL(fwrite)(memory, 1, bytes, stream);
}

/* The bytes of a request; 0 where it is not one for the region. */
static size_t requested(const void *memory, size_t size, size_t count) {
    size_t bytes;
    return !__builtin_mul_overflow(size, count, &bytes) && region_meets(memory, bytes) ? bytes : 0;
}

static size_t elements(ssize_t bytes, size_t size) {
    return bytes > 0 ? (size_t)bytes / size : 0;
}

EXPORT size_t fread(void *to, size_t size, size_t count, FILE *stream) {
    size_t bytes = requested(to, size, count);
    if (!bytes)
        return REAL(fread)(to, size, count, stream);
    flockfile(stream);
    ssize_t done = bounce_in(one_fread, stream, to, bytes, true);
    funlockfile(stream);
    return elements(done, size);
}

EXPORT size_t fwrite(const void *from, size_t size, size_t count, FILE *stream) {
    size_t bytes = requested(from, size, count);
    if (!bytes)
        return REAL(fwrite)(from, size, count, stream);
    flockfile(stream);
    ssize_t done = bounce_out(one_fwrite, stream, from, bytes);
    funlockfile(stream);
    return elements(done, size);
}

EXPORT size_t fread_unlocked(void *to, size_t size, size_t count, FILE *stream) {
    return fread(to, size, count, stream);
}

EXPORT size_t fwrite_unlocked(const void *from, size_t size, size_t count, FILE *stream) {
    return fwrite(from, size, count, stream);
}

/* Programs compiled with _FORTIFY_SOURCE call these. */
EXPORT size_t __fread_chk(void *to, size_t limit, size_t size, size_t count, FILE *stream) {
    size_t bytes;
    if (__builtin_mul_overflow(size, count, &bytes) || bytes > limit)
        __builtin_trap();
    return fread(to, size, count, stream);
}

EXPORT size_t __fread_unlocked_chk(void *to, size_t limit, size_t size, size_t count, FILE *stream) {
    return __fread_chk(to, limit, size, count, stream);
}
