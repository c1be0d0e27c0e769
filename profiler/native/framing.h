/* Messages of gRPC in what a connection sends. HTTP/2 cuts messages into frames and mixes those of several streams, so
 * that the sizes of calls do not reveal the sizes of tensors. */
#ifndef TIRESIAS_FRAMING_H
#define TIRESIAS_FRAMING_H

#include "recorder.h"

#include <stddef.h>
#include <sys/uio.h>

/* What a call sent: the first `size` bytes of its buffers. */
struct sent {
    const struct iovec *parts;
    size_t count, size;
};

/* The first bytes that the connection of `channel` sends: do they begin an HTTP/2 connection that can be followed? */
bool framing_begin(uint32_t channel, struct sent sent);

/* Records each message that ends in these bytes, whole. False: they are not what gRPC sends, or two threads sent at the
 * same time; the connection cannot be followed any longer. */
bool framing_follow(uint32_t channel, struct sent sent);

/* It is closed, or no longer followed: another may have its place. */
void framing_end(uint32_t channel);

#endif
