/* Calls that move bytes through a socket. Each calls the C library's first and returns what that returned, with its
 * errno.
 *
 * Not seen: io_uring, raw system calls (Go), and what the C library writes for stdio streams that were opened on a
 * socket. */
#include "real.h"
#include "sockets.h"

#include <fcntl.h>
#include <stddef.h>
#include <sys/sendfile.h>

static unsigned more(int flags) {
    return flags & MSG_MORE ? FLAG_MORE : 0;
}

static size_t total(const struct iovec *parts, size_t count) {
    size_t bytes = 0;
    for (size_t part = 0; part < count; part++)
        bytes += parts[part].iov_len;
    return bytes;
}

static size_t length(const struct msghdr *message) {
    return total(message->msg_iov, message->msg_iovlen);
}

static void sent(int fd, const void *buffer, size_t asked, int flags, ssize_t done) {
    const struct iovec part = {.iov_base = (void *)(uintptr_t)buffer, .iov_len = asked};
    socket_sent(fd, more(flags), buffer ? &part : NULL, 1, asked, done);
}

static void sent_parts(int fd, const struct iovec *parts, size_t count, int flags, ssize_t done) {
    socket_sent(fd, more(flags), parts, count, total(parts, count), done);
}

static void sent_message(int fd, const struct msghdr *message, int flags, ssize_t done) {
    sent_parts(fd, message->msg_iov, message->msg_iovlen, flags, done);
}

/* MSG_PEEK and MSG_ERRQUEUE move nothing. */
static void received(int fd, size_t asked, int flags, ssize_t done) {
    if (!(flags & (MSG_PEEK | MSG_ERRQUEUE)))
        socket_moved(fd, OP_RECV, 0, asked, done);
}

EXPORT ssize_t send(int fd, const void *buffer, size_t size, int flags) {
    ssize_t done = REAL(send)(fd, buffer, size, flags);
    sent(fd, buffer, size, flags, done);
    return done;
}

EXPORT ssize_t sendto(int fd, const void *buffer, size_t size, int flags, const struct sockaddr *to, socklen_t length) {
    ssize_t done = REAL(sendto)(fd, buffer, size, flags, to, length);
    sent(fd, buffer, size, flags, done);
    return done;
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    ssize_t done = REAL(sendmsg)(fd, message, flags);
    if (tiresias_recording())
        sent_message(fd, message, flags, done);
    return done;
}

EXPORT int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags) {
    int done = REAL(sendmmsg)(fd, messages, count, flags);
    for (int each = 0; each < done && tiresias_recording(); each++)
        sent_message(fd, &messages[each].msg_hdr, flags, messages[each].msg_len);
    return done;
}

EXPORT ssize_t write(int fd, const void *buffer, size_t size) {
    ssize_t done = REAL(write)(fd, buffer, size);
    sent(fd, buffer, size, 0, done);
    return done;
}

EXPORT ssize_t writev(int fd, const struct iovec *parts, int count) {
    ssize_t done = REAL(writev)(fd, parts, count);
    if (tiresias_recording() && count > 0)
        sent_parts(fd, parts, (size_t)count, 0, done);
    return done;
}

EXPORT ssize_t sendfile(int to, int from, off_t *offset, size_t size) {
    ssize_t done = REAL(sendfile)(to, from, offset, size);
    sent(to, NULL, size, 0, done);
    return done;
}

EXPORT __attribute__((alias("sendfile"))) ssize_t sendfile64(int to, int from, off_t *offset, size_t size);

EXPORT ssize_t splice(int from, off_t *from_offset, int to, off_t *to_offset, size_t size, unsigned flags) {
    ssize_t done = REAL(splice)(from, from_offset, to, to_offset, size, flags);
    sent(to, NULL, size, flags & SPLICE_F_MORE ? MSG_MORE : 0, done);
    received(from, size, 0, done);
    return done;
}

EXPORT ssize_t recv(int fd, void *buffer, size_t size, int flags) {
    ssize_t done = REAL(recv)(fd, buffer, size, flags);
    received(fd, size, flags, done);
    return done;
}

EXPORT ssize_t recvfrom(int fd, void *buffer, size_t size, int flags, struct sockaddr *from, socklen_t *length) {
    ssize_t done = REAL(recvfrom)(fd, buffer, size, flags, from, length);
    received(fd, size, flags, done);
    return done;
}

EXPORT ssize_t recvmsg(int fd, struct msghdr *message, int flags) {
    ssize_t done = REAL(recvmsg)(fd, message, flags);
    if (tiresias_recording())
        received(fd, length(message), flags, done);
    return done;
}

EXPORT int recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *timeout) {
    int done = REAL(recvmmsg)(fd, messages, count, flags, timeout);
    for (int each = 0; each < done && tiresias_recording(); each++)
        received(fd, length(&messages[each].msg_hdr), flags, messages[each].msg_len);
    return done;
}

EXPORT ssize_t read(int fd, void *buffer, size_t size) {
    ssize_t done = REAL(read)(fd, buffer, size);
    received(fd, size, 0, done);
    return done;
}

EXPORT ssize_t readv(int fd, const struct iovec *parts, int count) {
    ssize_t done = REAL(readv)(fd, parts, count);
    if (tiresias_recording() && count > 0)
        received(fd, total(parts, (size_t)count), 0, done);
    return done;
}

/* What programs call instead that were compiled with _FORTIFY_SOURCE. */

EXPORT ssize_t __recv_chk(int fd, void *buffer, size_t size, size_t capacity, int flags) {
    ssize_t done = REAL(recv_chk)(fd, buffer, size, capacity, flags);
    received(fd, size, flags, done);
    return done;
}

EXPORT ssize_t __recvfrom_chk(int fd, void *buffer, size_t size, size_t capacity, int flags, struct sockaddr *from,
                              socklen_t *length) {
    ssize_t done = REAL(recvfrom_chk)(fd, buffer, size, capacity, flags, from, length);
    received(fd, size, flags, done);
    return done;
}

EXPORT ssize_t __read_chk(int fd, void *buffer, size_t size, size_t capacity) {
    ssize_t done = REAL(read_chk)(fd, buffer, size, capacity);
    received(fd, size, 0, done);
    return done;
}
