/* Every call that moves bytes through a socket, once or more, with the record to expect. */
#define _GNU_SOURCE
#include "pair.h"

#include <sys/sendfile.h>

static struct pair tcp;
static char data[1 << 16], buffer[1 << 16];

static void sent(size_t asked, ssize_t done) {
    expect(SEND, 0, asked, done);
}

static void received(size_t asked, ssize_t done) {
    expect(RECV, 0, asked, done);
}

/* For a size unknown at compile time a fortified program calls other functions. */
static void plain(void) {
    volatile size_t size = 100;
    sent(11, send(tcp.local, data, 11, 0));
    received(size, recv(tcp.remote, buffer, size, 0));
    sent(12, sendto(tcp.local, data, 12, 0, NULL, 0));
    received(size, recvfrom(tcp.remote, buffer, size, 0, NULL, NULL));
    sent(13, write(tcp.local, data, 13));
    received(size, read(tcp.remote, buffer, size));
    sent(0, send(tcp.local, data, 0, 0));
}

static void vectors(void) {
    struct iovec parts[3] = {{data, 5}, {data, 0}, {data, 16}}, space[2] = {{buffer, 3}, {buffer + 3, 200}};
    struct msghdr out = {.msg_iov = parts, .msg_iovlen = 3}, in = {.msg_iov = space, .msg_iovlen = 2};
    sent(21, writev(tcp.local, parts, 3));
    received(203, readv(tcp.remote, space, 2));
    sent(21, sendmsg(tcp.local, &out, 0));
    received(203, recvmsg(tcp.remote, &in, 0));
}

static void several(void) {
    struct iovec parts[2] = {{data, 31}, {data, 32}}, space = {buffer, 63};
    struct mmsghdr out[2] = {{.msg_hdr = {.msg_iov = parts, .msg_iovlen = 1}},
                             {.msg_hdr = {.msg_iov = parts + 1, .msg_iovlen = 1}}};
    struct mmsghdr in = {.msg_hdr = {.msg_iov = &space, .msg_iovlen = 1}};
    must(sendmmsg(tcp.local, out, 2, 0) == 2, "sendmmsg");
    sent(31, out[0].msg_len);
    sent(32, out[1].msg_len);
    must(recvmmsg(tcp.remote, &in, 1, 0, NULL) == 1, "recvmmsg");
    received(63, in.msg_len);
}

static void from_files(void) {
    int ends[2], file = open("/proc/self/exe", O_RDONLY);
    sent(40, sendfile(tcp.local, file, NULL, 40));
    received(40, read(tcp.remote, buffer, 40));
    must(pipe(ends) == 0 && write(ends[1], data, 41) == 41, "pipe"); /* no socket: not expected */
    sent(41, splice(ends[0], NULL, tcp.local, NULL, 41, 0));
    received(41, splice(tcp.remote, NULL, ends[1], NULL, 41, 0));
    close(file), close(ends[0]), close(ends[1]);
}

static void flags(void) {
    expect(SEND, MORE, 50, send(tcp.local, data, 50, MSG_MORE));
    sent(51, send(tcp.local, data, 51, 0));
    must(recv(tcp.remote, buffer, 101, MSG_PEEK | MSG_WAITALL) > 0, "peek"); /* moves nothing */
    received(101, recv(tcp.remote, buffer, 101, MSG_WAITALL));
    must(recv(tcp.remote, buffer, 101, MSG_DONTWAIT) < 0 && errno == EAGAIN, "EAGAIN kept");
}

/* More than fits: the call returns how much of it went, and what it asked is the message. */
static void partial(void) {
    size_t asked = 1 << 28;
    char *large = calloc(1, asked);
    fcntl(tcp.local, F_SETFL, O_NONBLOCK);
    ssize_t went = expect(SEND, 0, asked, send(tcp.local, large, asked, 0));
    must(went > 0 && (size_t)went < asked, "partial");
    ssize_t more;
    while ((more = send(tcp.local, large, asked, 0)) > 0) /* the receiver's buffer may have grown in the meantime */
        went += expect(SEND, 0, asked, more);
    must(errno == EAGAIN, "EAGAIN kept");
    for (ssize_t got = 0; got < went;)
        got += expect(RECV, 0, sizeof buffer, read(tcp.remote, buffer, sizeof buffer));
    free(large);
}

static void ends(void) {
    close(tcp.local);
    received(9, recv(tcp.remote, buffer, 9, 0));
    must(send(tcp.remote, data, 9, MSG_NOSIGNAL) == expect(SEND, 0, 9, 9), "without a receiver");
    while (send(tcp.remote, data, 10, MSG_NOSIGNAL) == 10) /* until the reset has arrived */
        expect(SEND, 0, 10, 10);
    must(errno == EPIPE || errno == ECONNRESET, "errno kept");
    expect(SEND, ERROR, 10, 0);
}

int main(void) {
    tcp = connected();
    plain(), vectors(), several(), from_files(), flags(), partial(), ends();
}
