/* What is known of verbs' queue pairs: their ends, their channels, and the provider's functions that were replaced. */
#ifndef TIRESIAS_QUEUE_PAIRS_H
#define TIRESIAS_QUEUE_PAIRS_H

#include "recorder.h"

#include <infiniband/verbs.h>

struct queue_pair {
    _Atomic(struct ibv_qp *) qp;
    _Atomic uint32_t number; /* not the queue pair's own: that one was destroyed, unseen, and another is in its place */
    _Atomic uint64_t channel; /* generation in the upper half, index below */
    struct end local, remote;
    struct ibv_qp_ex provider; /* only its wr_* functions, as far as they were replaced */
    enum operation operation;  /* begun by wr_*, its data not set yet */
    unsigned flags;
};

/* NULL where it is not known. */
struct queue_pair *queue_pair_find(struct ibv_qp *qp);

/* Found or made; NULL where the table has no room. */
struct queue_pair *queue_pair_get(struct ibv_qp *qp);

void queue_pair_forget(struct ibv_qp *qp);

/* A record of its channel, which is opened at the first. */
void queue_pair_record(struct queue_pair *pair, enum operation operation, unsigned flags, uint64_t bytes);

#endif
