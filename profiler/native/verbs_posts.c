/* ibv_post_send and ibv_post_recv: inline functions of verbs.h that call through the context's table of operations.
 * The table is the context's own memory, so replacing the entries is enough. Posts are recorded and not completions: of a
 * post the size is known. */
#include "queue_pairs.h"
#include "verbs.h"

enum { CONTEXTS = 64 };

typedef int post_send(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);
typedef int post_recv(struct ibv_qp *, struct ibv_recv_wr *, struct ibv_recv_wr **);

/* The provider's functions, by context. A few, never removed: a context that is opened again finds its old entry. */
static struct watched {
    _Atomic(struct ibv_context *) context;
    _Atomic(post_send *) send;
    _Atomic(post_recv *) recv;
} contexts[CONTEXTS];

static struct watched *provider(struct ibv_context *context) {
    struct watched *each = contexts;
    while (atomic_load_explicit(&each->context, memory_order_acquire) != context)
        each++;
    return each;
}

static uint64_t total(const struct ibv_sge *parts, int count) {
    uint64_t bytes = 0;
    for (int part = 0; part < count; part++)
        bytes += parts[part].length;
    return bytes;
}

/* 0: moves no data of the program's. */
static enum operation operation_of(enum ibv_wr_opcode opcode) {
    switch (opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_SEND_WITH_INV:
    case IBV_WR_TSO:
        return OP_SEND;
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return OP_WRITE;
    case IBV_WR_RDMA_READ:
        return OP_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return OP_ATOMIC;
    default:
        return 0;
    }
}

static unsigned flags_of(const struct ibv_send_wr *request) {
    bool immediate = request->opcode == IBV_WR_SEND_WITH_IMM || request->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    return (immediate ? FLAG_IMMEDIATE : 0) | (request->send_flags & IBV_SEND_INLINE ? FLAG_INLINE : 0);
}

static struct message sent(const struct ibv_send_wr *request, enum channel_kind kind) {
    struct message message = {.operation = operation_of(request->opcode),
                              .flags = flags_of(request),
                              .bytes = total(request->sg_list, request->num_sge)};
    if (kind == CHANNEL_UD) {
        message.address = request->wr.ud.ah;
        message.peer = request->wr.ud.remote_qpn;
    }
    return message;
}

/* Those before the one that was refused, if any, were posted. */
static void posted_sends(struct ibv_qp *qp, const struct ibv_send_wr *request, const struct ibv_send_wr *refused) {
    struct queue_pair *pair = queue_pair_get(qp);
    for (; pair && request != refused; request = request->next) {
        struct message message = sent(request, pair->kind);
        if (message.operation)
            queue_pair_record(pair, &message);
    }
}

static int send_posted(struct ibv_qp *qp, struct ibv_send_wr *first, struct ibv_send_wr **bad) {
    int failed = provider(qp->context)->send(qp, first, bad);
    if (tiresias_recording())
        posted_sends(qp, first, failed ? *bad : NULL);
    return failed;
}

/* Receive buffers for datagrams belong to no connection. */
static void posted_receives(struct ibv_qp *qp, const struct ibv_recv_wr *request, const struct ibv_recv_wr *refused) {
    struct queue_pair *pair = queue_pair_get(qp);
    for (; pair && pair->kind == CHANNEL_QP && request != refused; request = request->next)
        queue_pair_record(
            pair, &(struct message){.operation = OP_POST_RECV, .bytes = total(request->sg_list, request->num_sge)});
}

static int recv_posted(struct ibv_qp *qp, struct ibv_recv_wr *first, struct ibv_recv_wr **bad) {
    int failed = provider(qp->context)->recv(qp, first, bad);
    if (tiresias_recording())
        posted_receives(qp, first, failed ? *bad : NULL);
    return failed;
}

static struct watched *place_for(struct ibv_context *context) {
    for (struct watched *each = contexts; each < contexts + CONTEXTS; each++) {
        struct ibv_context *unused = NULL;
        if (each->context == context || atomic_compare_exchange_strong(&each->context, &unused, context))
            return each;
    }
    return NULL;
}

/* The context is new: nothing is posted before the call that opened it has returned. */
void verbs_watch_posts(struct ibv_context *context) {
    struct watched *place = place_for(context);
    if (!place || context->ops.post_send == send_posted)
        return;
    place->send = context->ops.post_send;
    place->recv = context->ops.post_recv;
    context->ops.post_send = send_posted;
    context->ops.post_recv = recv_posted;
}
