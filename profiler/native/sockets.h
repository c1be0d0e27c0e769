/* Which file descriptors are TCP connections, and their channels. */
#ifndef TIRESIAS_SOCKETS_H
#define TIRESIAS_SOCKETS_H

#include "recorder.h"

#include <sys/types.h>
#include <sys/uio.h>

/* A call moved `done` of `asked` bytes (-1: the reason is in errno) through fd. Recorded if fd is a TCP connection. Keeps
 * errno. */
void socket_moved(int fd, enum operation operation, unsigned flags, size_t asked, ssize_t done);

/* The same of OP_SEND, with the buffers that were sent from; NULL if they are out of reach. Connections that carry gRPC
 * are recorded by its messages, not by calls. */
void socket_sent(int fd, unsigned flags, const struct iovec *parts, size_t count, size_t asked, ssize_t done);

/* fd is about to be closed, or is a new one: what was known of that number is void. Keeps errno. */
void socket_forget(int fd);

/* The same for all descriptors from first to last. */
void socket_forget_range(unsigned first, unsigned last);

#endif
