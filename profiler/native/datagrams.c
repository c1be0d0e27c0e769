#include "datagrams.h"

#include "handles.h"

/* A new address handle may lie where an old one lay: each has its serial number, by which channels are known. */
static struct handles handles;
static struct address {
    uint16_t serial;
    struct end local, remote;
} addresses[HANDLES];
static _Atomic uint16_t serials;

static struct handles pairings;
static _Atomic uint64_t channels[HANDLES]; /* generation in the upper half, index below */

void datagram_address(struct ibv_ah *address, const struct end *local, const struct end *remote) {
    datagram_address_forget(address);
    uint32_t place = handles_take(&handles, (uintptr_t)address);
    if (place == NO_HANDLE)
        return;
    addresses[place] = (struct address){++serials, *local, *remote};
    handles_publish(&handles, place, (uintptr_t)address);
}

void datagram_address_forget(struct ibv_ah *address) {
    uint32_t place = handles_find(&handles, (uintptr_t)address);
    if (place != NO_HANDLE)
        handles_forget(&handles, place);
}

/* Numbers of queue pairs have 24 bits. */
static uint64_t pairing(uint32_t number, uint32_t peer, uint16_t serial) {
    return (uint64_t)(number & 0xffffff) << 40 | (uint64_t)(peer & 0xffffff) << 16 | serial;
}

static uint32_t place_for(uint64_t key) {
    uint32_t place = handles_find(&pairings, key);
    if (place == NO_HANDLE && (place = handles_take(&pairings, key)) != NO_HANDLE)
        handles_publish(&pairings, place, key);
    return place;
}

static uint32_t open_channel(uint32_t number, const struct address *address, uint32_t peer) {
    struct end local = address->local, remote = address->remote;
    local.qp = number;
    remote.qp = peer;
    return tiresias_open_channel(CHANNEL_UD, number, &local, &remote);
}

uint32_t datagram_channel(uint32_t number, struct ibv_ah *address, uint32_t peer) {
    uint32_t known = handles_find(&handles, (uintptr_t)address);
    uint32_t place = known == NO_HANDLE ? known : place_for(pairing(number, peer, addresses[known].serial));
    if (place == NO_HANDLE)
        return NO_CHANNEL;
    uint64_t channel = atomic_load_explicit(&channels[place], memory_order_acquire);
    if (channel && channel >> 32 == tiresias_generation())
        return (uint32_t)channel;
    uint32_t index = open_channel(number, &addresses[known], peer);
    if (index != NO_CHANNEL)
        channels[place] = (uint64_t)tiresias_generation() << 32 | index;
    return index;
}
