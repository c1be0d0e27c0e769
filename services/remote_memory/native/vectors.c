/* System calls that read and write several ranges: those in the region are replaced by other memory.
 *
 * At most VECTOR_MOST bytes of the region in a call, which then does a part of its work, as it may. */
#include "vectors.h"
#include "bounce.h"
#include "real.h"
#include "region.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

bool vector_meets(const struct iovec *parts, size_t count) {
    for (size_t at = 0; at < count && at < IOV_MAX; at++)
        if (region_meets(parts[at].iov_base, parts[at].iov_len))
            return true;
    return false;
}

size_t vector_bytes(const struct iovec *parts, size_t count) {
    size_t sum = 0;
    for (size_t at = 0; at < count && sum < VECTOR_MOST; at++)
        sum += region_meets(parts[at].iov_base, parts[at].iov_len) ? parts[at].iov_len : 0;
    return sum < VECTOR_MOST ? sum : VECTOR_MOST;
}

/* The ranges of the call, the last one shorter where VECTOR_MOST is reached. */
static void fill(struct vector *vector, const struct iovec *parts, size_t count, size_t limit) {
    for (size_t at = 0, used = 0; at < count; at++) {
        struct iovec part = parts[at];
        bool inside = region_meets(part.iov_base, part.iov_len), last = inside && part.iov_len > limit - used;
        if (inside) {
            part.iov_len = last ? limit - used : part.iov_len;
            part.iov_base = vector->memory + used;
            used += part.iov_len;
        }
        vector->parts[vector->count++] = part;
        if (last)
            break;
    }
}

bool vector_begin(struct vector *vector, const struct iovec *parts, size_t count) {
    *vector = (struct vector){0};
    if (count > IOV_MAX) {
        errno = EINVAL;
        return false;
    }
    size_t limit = vector_bytes(parts, count);
    vector->parts = bounce_new(count * sizeof *parts);
    vector->memory = vector->parts ? bounce_new(limit) : NULL;
    if (vector->memory)
        fill(vector, parts, count, limit);
    return vector->memory;
}

void vector_load(struct vector *vector, const struct iovec *parts) {
    for (int at = 0; at < vector->count; at++)
        if (vector->parts[at].iov_base != parts[at].iov_base)
            memcpy(vector->parts[at].iov_base, parts[at].iov_base, vector->parts[at].iov_len);
}

void vector_store(struct vector *vector, const struct iovec *parts, ssize_t done) {
    size_t left = done > 0 ? (size_t)done : 0;
    for (int at = 0; at < vector->count && left; at++) {
        size_t size = vector->parts[at].iov_len < left ? vector->parts[at].iov_len : left;
        if (vector->parts[at].iov_base != parts[at].iov_base)
            memcpy(parts[at].iov_base, vector->parts[at].iov_base, size);
        left -= size;
    }
}

ssize_t vector_end(struct vector *vector, ssize_t done) {
    bounce_free(vector->memory);
    bounce_free(vector->parts);
    return done;
}

EXPORT ssize_t readv(int file, const struct iovec *parts, int count) {
    struct vector own;
    if (count <= 0 || !vector_meets(parts, (size_t)count))
        return REAL(readv)(file, parts, count);
    ssize_t done = vector_begin(&own, parts, (size_t)count) ? REAL(readv)(file, own.parts, own.count) : -1;
    vector_store(&own, parts, done);
    return vector_end(&own, done);
}

EXPORT ssize_t preadv(int file, const struct iovec *parts, int count, off_t offset) {
    struct vector own;
    if (count <= 0 || !vector_meets(parts, (size_t)count))
        return REAL(preadv)(file, parts, count, offset);
    ssize_t done = vector_begin(&own, parts, (size_t)count) ? REAL(preadv)(file, own.parts, own.count, offset) : -1;
    vector_store(&own, parts, done);
    return vector_end(&own, done);
}

EXPORT ssize_t preadv2(int file, const struct iovec *parts, int count, off_t offset, int flags) {
    struct vector own;
    if (count <= 0 || !vector_meets(parts, (size_t)count))
        return REAL(preadv2)(file, parts, count, offset, flags);
    ssize_t done = vector_begin(&own, parts, (size_t)count) ? REAL(preadv2)(file, own.parts, own.count, offset, flags) : -1;
    vector_store(&own, parts, done);
    return vector_end(&own, done);
}

EXPORT ssize_t preadv64(int file, const struct iovec *parts, int count, off_t offset) {
    return preadv(file, parts, count, offset);
}

EXPORT ssize_t preadv64v2(int file, const struct iovec *parts, int count, off_t offset, int flags) {
    return preadv2(file, parts, count, offset, flags);
}

EXPORT ssize_t recvmsg(int file, struct msghdr *message, int flags) {
    struct vector own;
    const struct iovec *parts = message->msg_iov;
    size_t count = message->msg_iovlen;
    if (!count || !vector_meets(parts, count))
        return REAL(recvmsg)(file, message, flags);
    if (!vector_begin(&own, parts, count))
        return vector_end(&own, -1);
    message->msg_iov = own.parts, message->msg_iovlen = (size_t)own.count;
    ssize_t done = REAL(recvmsg)(file, message, flags);
    message->msg_iov = (struct iovec *)parts, message->msg_iovlen = count;
    vector_store(&own, parts, done);
    return vector_end(&own, done);
}

static bool begin_out(struct vector *vector, const struct iovec *parts, size_t count) {
    if (!vector_begin(vector, parts, count))
        return false;
    vector_load(vector, parts);
    return true;
}

EXPORT ssize_t writev(int file, const struct iovec *parts, int count) {
    struct vector own;
    if (count <= 0 || !vector_meets(parts, (size_t)count))
        return REAL(writev)(file, parts, count);
    return vector_end(&own, begin_out(&own, parts, (size_t)count) ? REAL(writev)(file, own.parts, own.count) : -1);
}

EXPORT ssize_t pwritev(int file, const struct iovec *parts, int count, off_t offset) {
    struct vector own;
    if (count <= 0 || !vector_meets(parts, (size_t)count))
        return REAL(pwritev)(file, parts, count, offset);
    return vector_end(&own, begin_out(&own, parts, (size_t)count) ? REAL(pwritev)(file, own.parts, own.count, offset) : -1);
}

EXPORT ssize_t pwritev2(int file, const struct iovec *parts, int count, off_t offset, int flags) {
    struct vector own;
    if (count <= 0 || !vector_meets(parts, (size_t)count))
        return REAL(pwritev2)(file, parts, count, offset, flags);
    return vector_end(&own, begin_out(&own, parts, (size_t)count) ? REAL(pwritev2)(file, own.parts, own.count, offset, flags) : -1);
}

EXPORT ssize_t pwritev64v2(int file, const struct iovec *parts, int count, off_t offset, int flags) {
    return pwritev2(file, parts, count, offset, flags);
}

EXPORT ssize_t pwritev64(int file, const struct iovec *parts, int count, off_t offset) {
    return pwritev(file, parts, count, offset);
}

EXPORT ssize_t sendmsg(int file, const struct msghdr *message, int flags) {
    struct vector own;
    if (!message->msg_iovlen || !vector_meets(message->msg_iov, message->msg_iovlen))
        return REAL(sendmsg)(file, message, flags);
    if (!begin_out(&own, message->msg_iov, message->msg_iovlen))
        return vector_end(&own, -1);
    struct msghdr sent = *message;
    sent.msg_iov = own.parts, sent.msg_iovlen = (size_t)own.count;
    return vector_end(&own, REAL(sendmsg)(file, &sent, flags));
}
