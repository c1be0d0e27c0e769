/* A descriptor's number that comes to mean something else. Prints the records to expect; what goes elsewhere than over
 * TCP is none. */
#define _GNU_SOURCE
#include "pair.h"

static void transmit(int fd, size_t size) {
    expect(SEND, 0, size, write(fd, "................................................................", size));
}

static void quietly(int fd) {
    must(write(fd, "x", 1) == 1, "write");
}

static int file(void) {
    return open("/dev/null", O_WRONLY);
}

static void become(int fd, int other) {
    must(dup2(other, fd) == fd, "dup2");
}

/* The number that is free now is given to the next one. */
static void closed_and_reused(void (*shut)(int)) {
    struct pair tcp = connected();
    int filler = file(); /* takes the number that the listener had */
    transmit(tcp.local, 1);
    shut(tcp.local);
    int next = file();
    must(next == tcp.local, "the same number");
    quietly(next);
    close(next), close(tcp.remote), close(filler);
    struct pair again = connected();
    transmit(again.local, 2);
    close(again.local), close(again.remote);
}

static void shut_stream(int fd) {
    fclose(fdopen(fd, "w"));
}

static void shut_range(int fd) {
    close_range((unsigned)fd, (unsigned)fd, 0);
}

static void shut(int fd) {
    close(fd);
}

static void copied(void) {
    struct pair tcp = connected();
    int null = file(), copy = dup(tcp.local);
    int third = fcntl(tcp.local, F_DUPFD_CLOEXEC, 50), fourth = dup3(tcp.local, 60, O_CLOEXEC);
    transmit(tcp.local, 3), transmit(copy, 4), transmit(third, 5), transmit(fourth, 6);
    become(null, tcp.local);
    transmit(null, 7);
    become(tcp.local, copy);
    become(copy, file());
    quietly(copy);
    transmit(tcp.local, 8);
    closefrom(tcp.local);
    quietly(file());
}

static void not_tcp(void) {
    int pair[2], udp = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    address.sin_port = htons(9);
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "socketpair");
    quietly(pair[0]);
    must(sendto(udp, "x", 1, 0, (struct sockaddr *)&address, sizeof address) == 1, "udp");
    closefrom(3);
}

/* Asked for before it is connected: not yet a connection, but one later. */
static void connected_later(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), local = socket(AF_INET, SOCK_STREAM, 0);
    must(send(local, "x", 1, MSG_NOSIGNAL) < 0 && (errno == EPIPE || errno == ENOTCONN), "not connected");
    must(bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 8) == 0, "listen");
    getsockname(listener, (struct sockaddr *)&address, &size);
    must(connect(local, (struct sockaddr *)&address, size) == 0, "connect");
    transmit(local, 9);
    closefrom(3);
}

int main(void) {
    closed_and_reused(shut), closed_and_reused(shut_stream), closed_and_reused(shut_range);
    copied();
    not_tcp();
    connected_later();
}
