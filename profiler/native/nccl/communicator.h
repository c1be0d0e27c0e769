/* A communicator as one of its ranks sees it, and its channels. */
#ifndef TIRESIAS_NCCL_COMMUNICATOR_H
#define TIRESIAS_NCCL_COMMUNICATOR_H

#include "../recorder.h"

struct communicator;

/* NULL where there is no memory. `group` and `rank` may come later; ranks and nodes are 0 where they are not known. */
struct communicator *communicator_new(struct group group, uint32_t rank);

/* For the versions whose events carry the communicator and the rank. */
void communicator_is(struct communicator *communicator, uint64_t hash, uint32_t rank);

void communicator_free(struct communicator *communicator);

void communicator_collective(struct communicator *communicator, enum collective function, uint64_t bytes);

/* `operation` is OP_SEND or OP_RECV. */
void communicator_transfer(struct communicator *communicator, enum operation operation, uint32_t peer, uint64_t bytes);

#endif
