#include "sockets.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>

/* What is known of a descriptor: the generation in the upper half; below it NOT_TCP, or a channel's index + FIRST.
 * Only pages of numbers in use take memory; numbers beyond the table, which the kernel does not hand out unless it is
 * told to, are not recorded. */
enum { DESCRIPTORS = 1 << 20 };
enum { UNKNOWN, NOT_TCP, FIRST };
static _Atomic uint64_t known[DESCRIPTORS];
static _Atomic unsigned highest; /* that is not UNKNOWN */

static uint64_t word(uint32_t generation, uint32_t state) {
    return (uint64_t)generation << 32 | state;
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
    return (uint32_t)before >= FIRST && before >> 32 == tiresias_generation() ? (uint32_t)before - FIRST : NO_CHANNEL;
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
    if ((uint32_t)state >= FIRST && state >> 32 == tiresias_generation())
        return (uint32_t)state - FIRST;
    return find_out(fd, state);
}

/* Nothing moved and nothing is wrong: programs that poll would fill the file with such. */
static bool nothing_happened(ssize_t done) {
    return done < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

void socket_moved(int fd, enum operation operation, unsigned flags, size_t asked, ssize_t done) {
    if (!tiresias_recording() || fd < 0 || fd >= DESCRIPTORS || nothing_happened(done))
        return;
    int kept = errno;
    uint32_t channel = channel_of(fd);
    if (channel != NO_CHANNEL && done < 0)
        tiresias_record(channel, operation, flags | FLAG_ERROR, asked, 0);
    else if (channel != NO_CHANNEL)
        tiresias_record(channel, operation, flags, asked, (uint64_t)done);
    errno = kept;
}

void socket_forget(int fd) {
    if (!tiresias_recording() || fd < 0 || fd >= DESCRIPTORS || known[fd] == UNKNOWN)
        return;
    uint64_t state = known[fd];
    bool open = (uint32_t)state >= FIRST && state >> 32 == tiresias_generation();
    if (open && !tiresias_is_owner())
        return;
    known[fd] = UNKNOWN;
    if (open)
        tiresias_close_channel((uint32_t)state - FIRST);
}

void socket_forget_range(unsigned first, unsigned last) {
    for (unsigned fd = first; fd <= last && fd <= highest; fd++)
        socket_forget((int)fd);
}
