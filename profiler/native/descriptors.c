/* Calls after which a descriptor's number means something else. A channel is looked up at its first transfer, so all
 * they do is forget. A number is forgotten before it is closed: as soon as it is, another thread may be given it. */
#include "real.h"
#include "sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#ifndef CLOSE_RANGE_CLOEXEC /* before glibc 2.34 */
#define CLOSE_RANGE_CLOEXEC (1U << 2)
#endif

static int newborn(int fd) {
    socket_forget(fd);
    return fd;
}

EXPORT int socket(int family, int type, int protocol) {
    return newborn(REAL(socket)(family, type, protocol));
}

EXPORT int accept(int fd, struct sockaddr *address, socklen_t *length) {
    return newborn(REAL(accept)(fd, address, length));
}

EXPORT int accept4(int fd, struct sockaddr *address, socklen_t *length, int flags) {
    return newborn(REAL(accept4)(fd, address, length, flags));
}

/* A socket can be connected again, elsewhere. */
EXPORT int connect(int fd, const struct sockaddr *address, socklen_t length) {
    socket_forget(fd);
    return REAL(connect)(fd, address, length);
}

EXPORT int close(int fd) {
    socket_forget(fd);
    return REAL(close)(fd);
}

EXPORT int close_range(unsigned first, unsigned last, int flags) {
    if (!REAL(close_range)) {
        errno = ENOSYS;
        return -1;
    }
    if (!((unsigned)flags & CLOSE_RANGE_CLOEXEC))
        socket_forget_range(first, last);
    return REAL(close_range)(first, last, flags);
}

EXPORT void closefrom(int first) {
    socket_forget_range(first < 0 ? 0 : (unsigned)first, UINT_MAX);
    if (REAL(closefrom))
        REAL(closefrom)(first);
}

/* The C library closes the descriptor inside, unseen. */
EXPORT int fclose(FILE *stream) {
    int kept = errno;
    socket_forget(fileno(stream));
    errno = kept;
    return REAL(fclose)(stream);
}

EXPORT int dup(int fd) {
    return newborn(REAL(dup)(fd));
}

EXPORT int dup2(int fd, int copy) {
    if (fd != copy)
        socket_forget(copy);
    return REAL(dup2)(fd, copy);
}

EXPORT int dup3(int fd, int copy, int flags) {
    if (fd != copy)
        socket_forget(copy);
    return REAL(dup3)(fd, copy, flags);
}

/* Every command's argument fits a pointer. */
EXPORT int fcntl(int fd, int command, ...) {
    va_list arguments;
    va_start(arguments, command);
    int result = REAL(fcntl)(fd, command, va_arg(arguments, void *));
    va_end(arguments);
    return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? newborn(result) : result;
}

EXPORT __attribute__((alias("fcntl"))) int fcntl64(int fd, int command, ...);
