#include "sockets.h"

#include "framing.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>

/* What is known of a descriptor: the generation in the upper half; below it NOT_TCP, or a channel's index + FIRST, and
 * whether the first bytes that it sent were looked at (SEEN) and begin an HTTP/2 connection (FRAMED).
 * Only pages of numbers in use take memory; numbers beyond the table, which the kernel assigns only on explicit request,
 * are not recorded. */
enum { DESCRIPTORS = 1 << 20 };
enum { UNKNOWN, NOT_TCP, FIRST, FRAMED = 1 << 29, SEEN = 1 << 30 };
static _Atomic uint64_t known[DESCRIPTORS];
static _Atomic unsigned highest; /* that is not UNKNOWN */

static uint64_t word(uint32_t generation, uint32_t state) {
    return (uint64_t)generation << 32 | state;
}

static bool is_channel(uint64_t state) {
    return (uint32_t)state >= FIRST && state >> 32 == tiresias_generation();
}

static uint32_t index_of(uint64_t state) {
    return ((uint32_t)state & ~(uint32_t)(FRAMED | SEEN)) - FIRST;
}

/* Connections between IPv4 hosts look alike, whichever kind of socket a program uses for them. */
static void set_ipv6(struct end *end, const struct sockaddr_in6 *from) {
    bool mapped = IN6_IS_ADDR_V4MAPPED(&from->sin6_addr);
    end->family = mapped ? AF_INET : AF_INET6;
    end->port = ntohs(from->sin6_port);
    memcpy(end->address, from->sin6_addr.s6_addr + (mapped ? 12 : 0), mapped ? 4 : 16);
}

static void set_ipv4(struct end *end, const struct sockaddr_in *from) {
    end->family = AF_INET;
    end->port = ntohs(from->sin_port);
    memcpy(end->address, &from->sin_addr, 4);
}

static bool set_end(struct end *end, const struct sockaddr_storage *from) {
    if (from->ss_family == AF_INET)
        set_ipv4(end, (const struct sockaddr_in *)from);
    else if (from->ss_family == AF_INET6)
        set_ipv6(end, (const struct sockaddr_in6 *)from);
    return end->family != 0;
}

static bool is_stream(int fd) {
    int type = 0;
    socklen_t size = sizeof type;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

/* The two ends of a TCP connection -> FIRST. UNKNOWN: a socket that is not connected, or not yet. */
static uint32_t look(int fd, struct end *local, struct end *remote) {
    struct sockaddr_storage here = {0}, there = {0};
    socklen_t size = sizeof here;
    if (!is_stream(fd) || getsockname(fd, (struct sockaddr *)&here, &size) != 0 || !set_end(local, &here))
        return NOT_TCP;
    size = sizeof there;
    return getpeername(fd, (struct sockaddr *)&there, &size) == 0 && set_end(remote, &there) ? FIRST : UNKNOWN;
}

static void raise_highest(unsigned fd) {
    unsigned before = highest;
    while (before < fd && !atomic_compare_exchange_weak(&highest, &before, fd))
        ;
}

/* Another thread may do the same at the same time: then the first one's channel counts. */
static uint32_t settle(int fd, uint64_t before, uint32_t channel) {
    uint64_t after = channel == NO_CHANNEL ? NOT_TCP : word(tiresias_generation(), channel + FIRST);
    raise_highest((unsigned)fd);
    if (atomic_compare_exchange_strong(&known[fd], &before, after))
        return channel;
    if (channel != NO_CHANNEL)
        tiresias_close_channel(channel);
    return is_channel(before) ? index_of(before) : NO_CHANNEL;
}

static uint32_t find_out(int fd, uint64_t before) {
    struct end local = {0}, remote = {0};
    uint32_t found = look(fd, &local, &remote);
    if (found == UNKNOWN)
        return NO_CHANNEL;
    if (found == NOT_TCP)
        return settle(fd, before, NO_CHANNEL);
    uint32_t channel = tiresias_open_channel(CHANNEL_TCP, (uint32_t)fd, &local, &remote);
    return tiresias_generation() ? settle(fd, before, channel) : NO_CHANNEL; /* no file yet: asked again next time */
}

static uint32_t channel_of(int fd) {
    uint64_t state = atomic_load_explicit(&known[fd], memory_order_acquire);
    if (state == NOT_TCP)
        return NO_CHANNEL;
    return is_channel(state) ? index_of(state) : find_out(fd, state);
}

/* Nothing moved and nothing is wrong: programs that poll would fill the file with such. */
static bool nothing_happened(ssize_t done) {
    return done < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

static void record(uint32_t channel, enum operation operation, unsigned flags, size_t asked, ssize_t done) {
    if (done < 0)
        tiresias_record(channel, operation, flags | FLAG_ERROR, asked, 0);
    else
        tiresias_record(channel, operation, flags, asked, (uint64_t)done);
}

/* The channel of a call that moved something, or failed to. */
static uint32_t moved(int fd, ssize_t done) {
    if (!tiresias_recording() || fd < 0 || fd >= DESCRIPTORS || nothing_happened(done))
        return NO_CHANNEL;
    return channel_of(fd);
}

void socket_moved(int fd, enum operation operation, unsigned flags, size_t asked, ssize_t done) {
    int kept = errno;
    uint32_t channel = moved(fd, done);
    if (channel != NO_CHANNEL)
        record(channel, operation, flags, asked, done);
    errno = kept;
}

/* Looks at the first bytes that a connection sends. */
static uint64_t look_inside(int fd, uint64_t before, struct sent sent) {
    uint64_t after = before | SEEN | (framing_begin(index_of(before), sent) ? FRAMED : 0);
    bool set = atomic_compare_exchange_strong(&known[fd], &before, after);
    if (set && after & FRAMED)
        tiresias_mark_channel(index_of(after), CHANNEL_GRPC);
    else if (after & FRAMED)
        framing_end(index_of(after));
    return known[fd];
}

/* Whether it was recorded by its messages. */
static bool framed(int fd, uint32_t channel, struct sent sent) {
    uint64_t state = known[fd];
    if (!is_channel(state) || index_of(state) != channel)
        return false;
    if (!(state & SEEN))
        state = look_inside(fd, state, sent);
    if (!(state & FRAMED))
        return false;
    if (sent.parts && framing_follow(channel, sent))
        return true;
    framing_end(channel);
    atomic_compare_exchange_strong(&known[fd], &state, state & ~(uint64_t)FRAMED);
    return false;
}

void socket_sent(int fd, unsigned flags, const struct iovec *parts, size_t count, size_t asked, ssize_t done) {
    int kept = errno;
    uint32_t channel = moved(fd, done);
    if (channel != NO_CHANNEL && !(done > 0 && framed(fd, channel, (struct sent){parts, count, (size_t)done})))
        record(channel, OP_SEND, flags, asked, done);
    errno = kept;
}

void socket_forget(int fd) {
    if (!tiresias_recording() || fd < 0 || fd >= DESCRIPTORS || known[fd] == UNKNOWN)
        return;
    uint64_t state = known[fd];
    bool open = is_channel(state);
    if (open && !tiresias_is_owner())
        return;
    known[fd] = UNKNOWN;
    if (open && state & FRAMED)
        framing_end(index_of(state));
    if (open)
        tiresias_close_channel(index_of(state));
}

void socket_forget_range(unsigned first, unsigned last) {
    for (unsigned fd = first; fd <= last && fd <= highest; fd++)
        socket_forget((int)fd);
}
