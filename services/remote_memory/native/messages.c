/* sendmmsg and recvmmsg: one call of the kernel's, with other memory in place of the region's.
 *
 * Of several messages with more than VECTOR_MOST bytes of the region, the first ones are passed on, as a call may do. */
#include "bounce.h"
#include "real.h"
#include "region.h"
#include "vectors.h"

#include <limits.h>
#include <string.h>

struct messages {
    struct mmsghdr *own;
    struct vector *vectors; /* without parts: the message is passed on as it is */
    unsigned count;
};

static bool meet(const struct mmsghdr *messages, unsigned count) {
    for (unsigned at = 0; at < count && at < IOV_MAX; at++)
        if (vector_meets(messages[at].msg_hdr.msg_iov, messages[at].msg_hdr.msg_iovlen))
            return true;
    return false;
}

/* One message more; false where it is not passed on. */
static bool add(struct messages *to, const struct mmsghdr *message) {
    struct vector *vector = &to->vectors[to->count];
    const struct msghdr *header = &message->msg_hdr;
    to->own[to->count] = *message;
    *vector = (struct vector){0};
    if (vector_meets(header->msg_iov, header->msg_iovlen)) {
        if (!vector_begin(vector, header->msg_iov, header->msg_iovlen)) {
            vector_end(vector, 0);
            return false;
        }
        to->own[to->count].msg_hdr.msg_iov = vector->parts;
        to->own[to->count].msg_hdr.msg_iovlen = (size_t)vector->count;
    }
    to->count++;
    return true;
}

/* Returns whether there is a message to pass on; errno where not. */
static bool begin(struct messages *to, const struct mmsghdr *messages, unsigned count) {
    size_t bytes = 0;
    count = count < IOV_MAX ? count : IOV_MAX;
    *to = (struct messages){.own = bounce_new(count * sizeof *to->own), .vectors = bounce_new(count * sizeof *to->vectors)};
    for (unsigned at = 0; to->own && to->vectors && at < count; at++) {
        bytes += vector_bytes(messages[at].msg_hdr.msg_iov, messages[at].msg_hdr.msg_iovlen);
        if ((at && bytes > VECTOR_MOST) || !add(to, &messages[at]))
            break;
    }
    return to->count > 0;
}

static int end(struct messages *messages, int done) {
    for (unsigned at = 0; at < messages->count; at++)
        vector_end(&messages->vectors[at], 0);
    bounce_free(messages->vectors);
    bounce_free(messages->own);
    return done;
}

/* What the kernel has written to a header and its ranges. */
static void give_back(struct messages *messages, unsigned at, struct mmsghdr *to) {
    struct mmsghdr found = messages->own[at];
    if (messages->vectors[at].parts)
        vector_store(&messages->vectors[at], to->msg_hdr.msg_iov, found.msg_len);
    found.msg_hdr.msg_iov = to->msg_hdr.msg_iov;
    found.msg_hdr.msg_iovlen = to->msg_hdr.msg_iovlen;
    *to = found;
}

EXPORT int sendmmsg(int file, struct mmsghdr *messages, unsigned count, int flags) {
    struct messages own;
    if (!meet(messages, count))
        return REAL(sendmmsg)(file, messages, count, flags);
    if (!begin(&own, messages, count))
        return end(&own, -1);
    for (unsigned at = 0; at < own.count; at++)
        if (own.vectors[at].parts)
            vector_load(&own.vectors[at], messages[at].msg_hdr.msg_iov);
    int done = REAL(sendmmsg)(file, own.own, own.count, flags);
    for (int at = 0; at < done; at++)
        messages[at].msg_len = own.own[at].msg_len;
    return end(&own, done);
}

EXPORT int recvmmsg(int file, struct mmsghdr *messages, unsigned count, int flags, struct timespec *timeout) {
    struct messages own;
    if (!meet(messages, count))
        return REAL(recvmmsg)(file, messages, count, flags, timeout);
    if (!begin(&own, messages, count))
        return end(&own, -1);
    int done = REAL(recvmmsg)(file, own.own, own.count, flags, timeout);
    for (int at = 0; at < done; at++)
        give_back(&own, (unsigned)at, &messages[at]);
    return end(&own, done);
}
