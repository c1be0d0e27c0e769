#include "communicator.h"

#include <stdlib.h>
#include <string.h>

enum { PEERS = 4096 /* that are distinguished where the number of ranks is unknown: as many as channels, by default */ };

/* A channel's word: its file's generation in the upper half, its index below; 0 before its first record. Two threads may
 * open the same one at the same time: then there are two with the same ends, which readers take for one. */
struct communicator {
    struct group group;
    uint32_t rank, peers;
    _Atomic uint64_t functions[OTHER + 1];
    _Atomic uint64_t channels[]; /* of each peer */
};

struct communicator *communicator_new(struct group group, uint32_t rank) {
    uint32_t peers = group.ranks ? group.ranks : PEERS;
    struct communicator *made = calloc(1, sizeof *made + peers * sizeof made->channels[0]);
    if (made) {
        made->group = group;
        made->rank = rank;
        made->peers = peers;
    }
    return made;
}

void communicator_is(struct communicator *communicator, uint64_t hash, uint32_t rank) {
    communicator->group.hash = hash;
    communicator->rank = rank;
}

static void leave(_Atomic uint64_t *words, uint32_t count) {
    for (uint32_t each = 0; each < count; each++)
        if (words[each] && words[each] >> 32 == tiresias_generation())
            tiresias_close_channel((uint32_t)words[each]);
}

void communicator_free(struct communicator *communicator) {
    if (!communicator)
        return;
    leave(communicator->functions, OTHER + 1);
    leave(communicator->channels, communicator->peers);
    free(communicator);
}

static struct end end_of(const struct communicator *communicator, uint32_t rank, enum collective function) {
    struct end end = {.family = FAMILY_COMMUNICATOR, .port = (uint16_t)function, .qp = rank};
    memcpy(end.address, &communicator->group, sizeof end.address);
    return end;
}

/* Opened at the first record, and again in a child after fork. */
static uint32_t channel_of(struct communicator *communicator, _Atomic uint64_t *word, uint32_t rank,
                           enum collective function) {
    uint64_t known = atomic_load_explicit(word, memory_order_acquire);
    if (known && known >> 32 == tiresias_generation())
        return (uint32_t)known;
    struct end local = end_of(communicator, communicator->rank, POINT_TO_POINT);
    struct end remote = end_of(communicator, rank, function);
    uint32_t index = tiresias_open_channel(CHANNEL_COLLECTIVE, (uint32_t)function, &local, &remote);
    if (index != NO_CHANNEL)
        *word = (uint64_t)tiresias_generation() << 32 | index;
    return index;
}

void communicator_collective(struct communicator *communicator, enum collective function, uint64_t bytes) {
    uint32_t channel = channel_of(communicator, &communicator->functions[function], ALL_RANKS, function);
    if (channel != NO_CHANNEL)
        tiresias_record(channel, OP_COLLECTIVE, 0, bytes, 0);
}

void communicator_transfer(struct communicator *communicator, enum operation operation, uint32_t peer,
                           uint64_t bytes) {
    if (peer >= communicator->peers || peer == communicator->rank)
        return; /* what goes to oneself is copied */
    uint32_t channel = channel_of(communicator, &communicator->channels[peer], peer, POINT_TO_POINT);
    if (channel != NO_CHANNEL)
        tiresias_record(channel, operation, 0, bytes, 0);
}

_Static_assert(sizeof(struct group) == sizeof((struct end){0}.address), "a group fits an end");
