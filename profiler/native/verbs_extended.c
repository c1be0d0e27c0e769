/* The ibv_wr_* calls: inline functions of verbs.h that call through pointers in the queue pair. One begins a request
 * (ibv_wr_rdma_write), the next gives it its data (ibv_wr_set_sge), and for a datagram another one, before or after,
 * gives its receiver (ibv_wr_set_ud_addr): the request is recorded once it is complete. */
#include "queue_pairs.h"
#include "verbs.h"

enum { DATA = 1, ADDRESS = 2 };

/* Only queue pairs whose functions were replaced come here, and those are in the table until they are destroyed. */
static struct queue_pair *begin(struct ibv_qp_ex *qp, enum operation operation, unsigned flags) {
    struct queue_pair *pair = queue_pair_find(&qp->qp_base);
    pair->begun = (struct message){.operation = operation, .flags = flags};
    pair->missing = pair->kind == CHANNEL_UD && pair->provider.wr_set_ud_addr ? DATA | ADDRESS : DATA;
    return pair;
}

static void send_begun(struct ibv_qp_ex *qp) {
    begin(qp, OP_SEND, 0)->provider.wr_send(qp);
}

static void send_imm_begun(struct ibv_qp_ex *qp, __be32 immediate) {
    begin(qp, OP_SEND, FLAG_IMMEDIATE)->provider.wr_send_imm(qp, immediate);
}

static void send_inv_begun(struct ibv_qp_ex *qp, uint32_t key) {
    begin(qp, OP_SEND, 0)->provider.wr_send_inv(qp, key);
}

static void write_begun(struct ibv_qp_ex *qp, uint32_t key, uint64_t address) {
    begin(qp, OP_WRITE, 0)->provider.wr_rdma_write(qp, key, address);
}

static void write_imm_begun(struct ibv_qp_ex *qp, uint32_t key, uint64_t address, __be32 immediate) {
    begin(qp, OP_WRITE, FLAG_IMMEDIATE)->provider.wr_rdma_write_imm(qp, key, address, immediate);
}

static void read_begun(struct ibv_qp_ex *qp, uint32_t key, uint64_t address) {
    begin(qp, OP_READ, 0)->provider.wr_rdma_read(qp, key, address);
}

static void swap_begun(struct ibv_qp_ex *qp, uint32_t key, uint64_t address, uint64_t compare, uint64_t swap) {
    begin(qp, OP_ATOMIC, 0)->provider.wr_atomic_cmp_swp(qp, key, address, compare, swap);
}

static void add_begun(struct ibv_qp_ex *qp, uint32_t key, uint64_t address, uint64_t add) {
    begin(qp, OP_ATOMIC, 0)->provider.wr_atomic_fetch_add(qp, key, address, add);
}

static void got(struct queue_pair *pair, unsigned what) {
    bool last = pair->missing == what;
    pair->missing &= ~what;
    if (last && tiresias_recording())
        queue_pair_record(pair, &pair->begun);
}

static struct queue_pair *given(struct ibv_qp_ex *qp, unsigned flags, uint64_t bytes) {
    struct queue_pair *pair = queue_pair_find(&qp->qp_base);
    pair->begun.flags |= flags;
    pair->begun.bytes = bytes;
    got(pair, DATA);
    return pair;
}

static void address_given(struct ibv_qp_ex *qp, struct ibv_ah *address, uint32_t peer, uint32_t key) {
    struct queue_pair *pair = queue_pair_find(&qp->qp_base);
    pair->begun.address = address;
    pair->begun.peer = peer;
    got(pair, ADDRESS);
    pair->provider.wr_set_ud_addr(qp, address, peer, key);
}

static void sge_given(struct ibv_qp_ex *qp, uint32_t key, uint64_t address, uint32_t length) {
    given(qp, 0, length)->provider.wr_set_sge(qp, key, address, length);
}

static void sge_list_given(struct ibv_qp_ex *qp, size_t count, const struct ibv_sge *parts) {
    uint64_t bytes = 0;
    for (size_t part = 0; part < count; part++)
        bytes += parts[part].length;
    given(qp, 0, bytes)->provider.wr_set_sge_list(qp, count, parts);
}

static void inline_given(struct ibv_qp_ex *qp, void *data, size_t length) {
    given(qp, FLAG_INLINE, length)->provider.wr_set_inline_data(qp, data, length);
}

static void inline_list_given(struct ibv_qp_ex *qp, size_t count, const struct ibv_data_buf *parts) {
    uint64_t bytes = 0;
    for (size_t part = 0; part < count; part++)
        bytes += parts[part].length;
    given(qp, FLAG_INLINE, bytes)->provider.wr_set_inline_data_list(qp, count, parts);
}

#define REPLACE(name, recording) (pair->provider.name = qp->name, qp->name = qp->name ? (recording) : NULL)

/* The provider sets what the program asked for when it made the queue pair; the rest is NULL. */
void verbs_watch_extended(struct ibv_qp_ex *qp) {
    struct queue_pair *pair = queue_pair_get(&qp->qp_base);
    if (!pair || pair->provider.wr_set_sge)
        return;
    REPLACE(wr_send, send_begun), REPLACE(wr_send_imm, send_imm_begun), REPLACE(wr_send_inv, send_inv_begun);
    REPLACE(wr_rdma_write, write_begun), REPLACE(wr_rdma_write_imm, write_imm_begun), REPLACE(wr_rdma_read, read_begun);
    REPLACE(wr_atomic_cmp_swp, swap_begun), REPLACE(wr_atomic_fetch_add, add_begun);
    REPLACE(wr_set_inline_data, inline_given), REPLACE(wr_set_inline_data_list, inline_list_given);
    REPLACE(wr_set_ud_addr, address_given);
    REPLACE(wr_set_sge_list, sge_list_given), REPLACE(wr_set_sge, sge_given);
}
