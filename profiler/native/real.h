/* The functions of the C library that the recorder's functions precede. */
#ifndef TIRESIAS_REAL_H
#define TIRESIAS_REAL_H

#include "recorder.h"

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

struct real {
    ssize_t (*send)(int, const void *, size_t, int);
    ssize_t (*sendto)(int, const void *, size_t, int, const struct sockaddr *, socklen_t);
    ssize_t (*sendmsg)(int, const struct msghdr *, int);
    int (*sendmmsg)(int, struct mmsghdr *, unsigned, int);
    ssize_t (*write)(int, const void *, size_t);
    ssize_t (*writev)(int, const struct iovec *, int);
    ssize_t (*sendfile)(int, int, off_t *, size_t);
    ssize_t (*splice)(int, off_t *, int, off_t *, size_t, unsigned);
    ssize_t (*recv)(int, void *, size_t, int);
    ssize_t (*recvfrom)(int, void *, size_t, int, struct sockaddr *, socklen_t *);
    ssize_t (*recvmsg)(int, struct msghdr *, int);
    int (*recvmmsg)(int, struct mmsghdr *, unsigned, int, struct timespec *);
    ssize_t (*read)(int, void *, size_t);
    ssize_t (*readv)(int, const struct iovec *, int);
    ssize_t (*recv_chk)(int, void *, size_t, size_t, int);
    ssize_t (*recvfrom_chk)(int, void *, size_t, size_t, int, struct sockaddr *, socklen_t *);
    ssize_t (*read_chk)(int, void *, size_t, size_t);
    int (*socket)(int, int, int);
    int (*accept)(int, struct sockaddr *, socklen_t *);
    int (*accept4)(int, struct sockaddr *, socklen_t *, int);
    int (*connect)(int, const struct sockaddr *, socklen_t);
    int (*close)(int);
    int (*close_range)(unsigned, unsigned, int);
    void (*closefrom)(int);
    int (*fclose)(void *);
    int (*dup)(int);
    int (*dup2)(int, int);
    int (*dup3)(int, int, int);
    int (*fcntl)(int, int, void *);
    void *(*dlopen)(const char *, int);
};

extern struct real real_table;

/* Finds them all. Another library's constructor may call a recorded function before the constructor of this library
 * has run, hence at first use too. */
void real_find(void);

#define REAL(name) ((real_table.name ? (void)0 : real_find()), real_table.name)

#endif
