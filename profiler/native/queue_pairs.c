#include "queue_pairs.h"

#include <string.h>

enum { SLOTS = 4096, PROBES = 64 };

/* Open addressing without locks. A slot's key is NULL (never used), BUSY while it is filled, a queue pair, or GONE. */
static struct queue_pair table[SLOTS];
static struct ibv_qp busy, gone;
#define BUSY (&busy)
#define GONE (&gone)

static struct queue_pair *slot(const struct ibv_qp *qp, unsigned probe) {
    uint32_t hash = (uint32_t)((uintptr_t)qp >> 4) * 0x9E3779B1u;
    return &table[((hash >> 16) + probe) % SLOTS];
}

static void leave(struct queue_pair *pair) {
    uint64_t channel = atomic_exchange(&pair->channel, 0);
    if (channel && channel >> 32 == tiresias_generation())
        tiresias_close_channel((uint32_t)channel);
    pair->qp = GONE;
}

struct queue_pair *queue_pair_find(struct ibv_qp *qp) {
    struct ibv_qp *key = BUSY;
    for (unsigned probe = 0; key && probe < PROBES; probe++) {
        struct queue_pair *pair = slot(qp, probe);
        key = atomic_load_explicit(&pair->qp, memory_order_acquire);
        if (key == qp && pair->number == qp->qp_num)
            return pair;
        if (key == qp)
            leave(pair);
    }
    return NULL;
}

static bool take(struct queue_pair *pair) {
    struct ibv_qp *key = pair->qp;
    return (!key || key == GONE) && atomic_compare_exchange_strong(&pair->qp, &key, BUSY);
}

struct queue_pair *queue_pair_get(struct ibv_qp *qp) {
    struct queue_pair *pair = queue_pair_find(qp);
    for (unsigned probe = 0; !pair && probe < PROBES; probe++) {
        if (!take(slot(qp, probe)))
            continue;
        pair = slot(qp, probe);
        pair->number = qp->qp_num;
        pair->local = pair->remote = (struct end){.family = FAMILY_INFINIBAND};
        pair->local.qp = qp->qp_num;
        pair->channel = 0;
        memset(&pair->provider, 0, sizeof pair->provider);
        atomic_store_explicit(&pair->qp, qp, memory_order_release);
    }
    return pair;
}

void queue_pair_forget(struct ibv_qp *qp) {
    struct queue_pair *pair = queue_pair_find(qp);
    if (pair)
        leave(pair);
}

/* Opened at the first record, and again in a child after fork. */
static uint32_t open_channel(struct queue_pair *pair) {
    struct ibv_qp *qp = pair->qp;
    enum channel_kind kind = qp->qp_type == IBV_QPT_UD ? CHANNEL_UD : CHANNEL_QP;
    uint32_t index = tiresias_open_channel(kind, pair->number, &pair->local, &pair->remote);
    if (index != NO_CHANNEL)
        pair->channel = (uint64_t)tiresias_generation() << 32 | index;
    return index;
}

void queue_pair_record(struct queue_pair *pair, enum operation operation, unsigned flags, uint64_t bytes) {
    uint64_t channel = atomic_load_explicit(&pair->channel, memory_order_acquire);
    uint32_t index = (uint32_t)channel;
    if (!channel || channel >> 32 != tiresias_generation())
        index = open_channel(pair);
    if (index != NO_CHANNEL)
        tiresias_record(index, operation, flags, bytes, 0);
}
