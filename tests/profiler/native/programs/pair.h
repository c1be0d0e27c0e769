/* What the programs of these tests share: a connected pair of TCP sockets, and the output of the records
 * to expect. */
#ifndef PAIR_H
#define PAIR_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SEND = 1, RECV = 2 };
enum { ERROR = 1, MORE = 8 };

struct pair {
    int local, remote;
};

static inline void must(int holds, const char *what) {
    if (!holds) {
        perror(what);
        exit(3);
    }
}

static inline struct pair connected(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), local = socket(AF_INET, SOCK_STREAM, 0);
    must(bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 8) == 0, "listen");
    must(getsockname(listener, (struct sockaddr *)&address, &size) == 0, "getsockname");
    must(connect(local, (struct sockaddr *)&address, size) == 0, "connect");
    struct pair pair = {local, accept(listener, NULL, NULL)};
    must(pair.remote >= 0 && close(listener) == 0, "accept");
    return pair;
}

/* One line an expected record: operation, flags, bytes asked, bytes done. */
static inline ssize_t expect(int operation, int flags, size_t asked, ssize_t done) {
    printf("%d %d %zu %zd\n", operation, flags, asked, done);
    fflush(stdout);
    return done;
}

#endif
