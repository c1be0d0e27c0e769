#include "queue_pairs.h"

#include "datagrams.h"
#include "handles.h"

#include <string.h>

static struct handles handles;
static struct queue_pair pairs[HANDLES];

static void close_channel(struct queue_pair *pair) {
    uint64_t channel = atomic_exchange(&pair->channel, 0);
    if (channel && channel >> 32 == tiresias_generation())
        tiresias_close_channel((uint32_t)channel);
}

static void leave(uint32_t place) {
    close_channel(&pairs[place]);
    handles_forget(&handles, place);
}

static uint32_t find(struct ibv_qp *qp) {
    uint32_t place = handles_find(&handles, (uintptr_t)qp);
    if (place == NO_HANDLE || pairs[place].number == qp->qp_num)
        return place;
    leave(place);
    return NO_HANDLE;
}

struct queue_pair *queue_pair_find(struct ibv_qp *qp) {
    uint32_t place = find(qp);
    return place == NO_HANDLE ? NULL : &pairs[place];
}

/* Of the queue pairs that are peculiar to a device, EFA's also name the receiver with each message. */
static bool names_receivers(const struct ibv_qp *qp) {
    return qp->qp_type == IBV_QPT_UD || qp->qp_type == IBV_QPT_DRIVER;
}

static struct queue_pair *make(struct ibv_qp *qp) {
    uint32_t place = handles_take(&handles, (uintptr_t)qp);
    if (place == NO_HANDLE)
        return NULL;
    struct queue_pair *pair = &pairs[place];
    memset(pair, 0, sizeof *pair);
    pair->number = qp->qp_num;
    pair->kind = names_receivers(qp) ? CHANNEL_UD : CHANNEL_QP;
    pair->local = pair->remote = (struct end){.family = FAMILY_INFINIBAND};
    pair->local.qp = qp->qp_num;
    handles_publish(&handles, place, (uintptr_t)qp);
    return pair;
}

struct queue_pair *queue_pair_get(struct ibv_qp *qp) {
    struct queue_pair *pair = queue_pair_find(qp);
    return pair ? pair : make(qp);
}

bool queue_pair_forget(struct ibv_qp *qp, struct queue_pair *was) {
    uint32_t place = find(qp);
    if (place == NO_HANDLE)
        return false;
    *was = pairs[place];
    leave(place);
    return true;
}

void queue_pair_remember(struct ibv_qp *qp, const struct queue_pair *was) {
    uint32_t place = handles_take(&handles, (uintptr_t)qp);
    if (place == NO_HANDLE)
        return;
    pairs[place] = *was;
    pairs[place].channel = 0;
    handles_publish(&handles, place, (uintptr_t)qp);
}

/* 0, or the channel that was opened for the file of now: in a child after fork the parent's mean nothing. */
static uint64_t open_already(struct queue_pair *pair) {
    uint64_t channel = atomic_load_explicit(&pair->channel, memory_order_acquire);
    return channel >> 32 == tiresias_generation() ? channel : 0;
}

static uint32_t channel_of(struct queue_pair *pair) {
    uint64_t channel = open_already(pair);
    if (channel)
        return (uint32_t)channel;
    uint32_t index = tiresias_open_channel(pair->kind, pair->number, &pair->local, &pair->remote);
    if (index != NO_CHANNEL)
        pair->channel = (uint64_t)tiresias_generation() << 32 | index;
    return index;
}

/* Programs post their receives before they connect. One that connects again has another peer. */
void queue_pair_connect(struct queue_pair *pair, const struct end *local, const struct end *remote) {
    if (pair->remote.qp)
        close_channel(pair);
    pair->local = *local;
    pair->remote = *remote;
    uint64_t early = open_already(pair);
    if (early)
        tiresias_connect_channel((uint32_t)early, local, remote);
    else
        channel_of(pair);
}

void queue_pair_record(struct queue_pair *pair, const struct message *message) {
    uint32_t index = NO_CHANNEL;
    if (message->address)
        index = datagram_channel(pair->number, message->address, message->peer);
    if (index == NO_CHANNEL)
        index = channel_of(pair);
    if (index != NO_CHANNEL)
        tiresias_record(index, message->operation, message->flags, message->bytes, 0);
}
