/* malloc and its like: large blocks are in the region while pages are free, all others are the C library's. */
#include "real.h"
#include "region.h"

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* For what dlsym allocates before the other functions are found. Never freed. */
static _Alignas(16) char early[64 << 10];
static atomic_size_t early_used;

static void *early_block(size_t size) {
    size_t at = atomic_fetch_add(&early_used, (size + 31) / 16 * 16);
    if (at > sizeof early || size > sizeof early - at - 16)
        return NULL;
    memcpy(early + at, &size, sizeof size);
    return early + at + 16;
}

static bool is_early(const void *block) {
    return (size_t)((const char *)block - early) < sizeof early;
}

static void *large(size_t size, size_t alignment) {
    return size >= region_least() ? region_take(size, alignment) : NULL;
}

static void *other(size_t size) {
    void *(*next)(size_t) = REAL(malloc);
    return next ? next(size) : early_block(size);
}

EXPORT void *malloc(size_t size) {
    void *found = large(size, 1);
    return found ? found : other(size);
}

EXPORT void *calloc(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    void *found = large(bytes, 1);
    if (found)
        return found;
    void *(*next)(size_t, size_t) = REAL(calloc);
    return next ? next(count, size) : early_block(bytes);
}

EXPORT void free(void *block) {
    if (region_is_block(block))
        region_give(block, region_length(block));
    else if (block && !is_early(block))
        REAL(free)(block);
}

static size_t usable(void *block) {
    size_t early_size;
    if (region_is_block(block))
        return region_length(block);
    if (!is_early(block))
        return REAL(malloc_usable_size)(block);
    memcpy(&early_size, (char *)block - 16, sizeof early_size);
    return early_size;
}

static void *moved(void *block, size_t old, void *to, size_t size) {
    if (to) {
        memcpy(to, block, old < size ? old : size);
        free(block);
    }
    return to;
}

static void *realloc_in_region(void *block, size_t size) {
    size_t old = region_length(block);
    if (size >= region_least() && region_resize(block, old, size))
        return block;
    return moved(block, old, malloc(size), size);
}

EXPORT void *realloc(void *block, size_t size) {
    if (!block)
        return malloc(size);
    if (region_is_block(block) && size)
        return realloc_in_region(block, size);
    if (region_is_block(block)) {
        free(block);
        return NULL;
    }
    void *larger = size >= region_least() && usable(block) < size ? large(size, 1) : NULL;
    if (larger || is_early(block))
        return moved(block, usable(block), larger ? larger : other(size), size);
    return REAL(realloc)(block, size);
}

static bool is_power_of_two(size_t number) {
    return number && !(number & (number - 1));
}

EXPORT int posix_memalign(void **block, size_t alignment, size_t size) {
    bool valid = is_power_of_two(alignment) && alignment % sizeof(void *) == 0;
    void *found = valid ? large(size, alignment) : NULL;
    if (!found)
        return REAL(posix_memalign)(block, alignment, size);
    *block = found;
    return 0;
}

EXPORT void *aligned_alloc(size_t alignment, size_t size) {
    void *found = is_power_of_two(alignment) ? large(size, alignment) : NULL;
    return found ? found : REAL(aligned_alloc)(alignment, size);
}

EXPORT void *memalign(size_t alignment, size_t size) {
    void *found = is_power_of_two(alignment) ? large(size, alignment) : NULL;
    return found ? found : REAL(memalign)(alignment, size);
}

EXPORT size_t malloc_usable_size(void *block) {
    return block ? usable(block) : 0;
}
