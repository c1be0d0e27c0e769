/* The receivers of datagrams: each datagram names an address handle and a queue pair at that address. */
#ifndef TIRESIAS_DATAGRAMS_H
#define TIRESIAS_DATAGRAMS_H

#include "recorder.h"

#include <infiniband/verbs.h>

/* An address handle was made; the ends are without their queue pairs. */
void datagram_address(struct ibv_ah *address, const struct end *local, const struct end *remote);

void datagram_address_forget(struct ibv_ah *address);

/* From queue pair `number` to queue pair `peer` of that address. NO_CHANNEL where the address is not known, or the
 * table is full. */
uint32_t datagram_channel(uint32_t number, struct ibv_ah *address, uint32_t peer);

#endif
