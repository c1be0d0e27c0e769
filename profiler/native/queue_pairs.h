/* What is known of verbs' queue pairs: their ends, their channels, and the provider's functions that were replaced. */
#ifndef TIRESIAS_QUEUE_PAIRS_H
#define TIRESIAS_QUEUE_PAIRS_H

#include "recorder.h"

#include <infiniband/verbs.h>

struct message {
    enum operation operation;
    unsigned flags;
    uint64_t bytes;
    struct ibv_ah *address; /* of a datagram, and the queue pair that it is for; else NULL */
    uint32_t peer;
};

struct queue_pair {
    uint32_t number; /* not the queue pair's own: that one was destroyed, unseen, and another is in its place */
    enum channel_kind kind;
    _Atomic uint64_t channel; /* generation in the upper half, index below */
    struct end local, remote;
    struct ibv_qp_ex provider; /* only its wr_* functions, as far as they were replaced */
    struct message begun;      /* by wr_* */
    unsigned missing;          /* what of it is not set yet */
};

/* NULL where it is not known. */
struct queue_pair *queue_pair_find(struct ibv_qp *qp);

/* Found or made; NULL where the table is full. */
struct queue_pair *queue_pair_get(struct ibv_qp *qp);

/* Its ends are known now. It has a channel from here on, as one that is only written to posts nothing itself. */
void queue_pair_connect(struct queue_pair *pair, const struct end *local, const struct end *remote);

/* False where it was not known; else what was known of it. */
bool queue_pair_forget(struct ibv_qp *qp, struct queue_pair *was);

void queue_pair_remember(struct ibv_qp *qp, const struct queue_pair *was);

/* A record of its channel, or of the one to that peer. They are opened at the first. */
void queue_pair_record(struct queue_pair *pair, const struct message *message);

#endif
