/* Ranges of memory whose parts in the region are replaced by other memory. */
#ifndef TIRESIAS_VECTORS_H
#define TIRESIAS_VECTORS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

enum { VECTOR_MOST = 16 << 20 }; /* bytes of the region in a call */

struct vector {
    struct iovec *parts;
    int count;
    char *memory;
};

/* Whether one of the ranges is in the region, and how many of their bytes are, at most VECTOR_MOST. */
bool vector_meets(const struct iovec *parts, size_t count);
size_t vector_bytes(const struct iovec *parts, size_t count);

/* The ranges with other memory; false with errno. End it in both cases. */
bool vector_begin(struct vector *vector, const struct iovec *parts, size_t count);

/* From the program's ranges, and the first `done` bytes back to them. */
void vector_load(struct vector *vector, const struct iovec *parts);
void vector_store(struct vector *vector, const struct iovec *parts, ssize_t done);

/* Frees the memory; returns `done`, with errno as it was. */
ssize_t vector_end(struct vector *vector, ssize_t done);

#endif
