/* A libibverbs without hardware: it accepts what is posted, up to a work request that is marked, and counts it. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REFUSED = 666 };

static long posted;

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad) {
    (void)qp;
    for (; wr; wr = wr->next, posted++) {
        if (wr->wr_id == REFUSED) {
            *bad = wr;
            return ENOMEM;
        }
    }
    return 0;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad) {
    (void)qp, (void)bad;
    for (; wr; wr = wr->next)
        posted++;
    return 0;
}

static struct ibv_context *opened(void) {
    struct ibv_context *context = calloc(1, sizeof *context);
    context->ops.post_send = post_send;
    context->ops.post_recv = post_recv;
    return context;
}

struct ibv_context *ibv_open_device(struct ibv_device *device) {
    (void)device;
    return opened();
}

struct ibv_context *ibv_import_device(int fd) {
    (void)fd;
    return opened();
}

static void begun(struct ibv_qp_ex *qp) {
    (void)qp;
    posted++;
}

static void begun_write(struct ibv_qp_ex *qp, uint32_t key, uint64_t address) {
    (void)qp, (void)key, (void)address;
    posted++;
}

static void set_sge(struct ibv_qp_ex *qp, uint32_t key, uint64_t address, uint32_t length) {
    (void)qp, (void)key, (void)address, (void)length;
}

static void set_sge_list(struct ibv_qp_ex *qp, size_t count, const struct ibv_sge *parts) {
    (void)qp, (void)count, (void)parts;
}

static void set_inline(struct ibv_qp_ex *qp, void *data, size_t length) {
    (void)qp, (void)data, (void)length;
}

static void set_address(struct ibv_qp_ex *qp, struct ibv_ah *address, uint32_t peer, uint32_t key) {
    (void)qp, (void)address, (void)peer, (void)key;
}

static void start(struct ibv_qp_ex *qp) {
    (void)qp;
}

static int complete(struct ibv_qp_ex *qp) {
    (void)qp;
    return 0;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attributes) {
    static uint32_t number = 100;
    struct ibv_qp_ex *qp = calloc(1, sizeof *qp);
    qp->qp_base.context = (struct ibv_context *)pd; /* the protection domain is never read */
    qp->qp_base.qp_num = ++number;
    qp->qp_base.qp_type = attributes->qp_type;
    qp->wr_send = begun, qp->wr_rdma_write = begun_write;
    qp->wr_set_ud_addr = set_address;
    qp->wr_set_sge = set_sge, qp->wr_set_sge_list = set_sge_list, qp->wr_set_inline_data = set_inline;
    qp->wr_start = start, qp->wr_complete = complete;
    return &qp->qp_base;
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp) {
    return (struct ibv_qp_ex *)qp;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attributes, int mask) {
    (void)qp, (void)attributes, (void)mask;
    return 0;
}

int ibv_destroy_qp(struct ibv_qp *qp) {
    if (qp->handle == REFUSED)
        return EBUSY;
    free(qp);
    return 0;
}

/* Always the same memory, as an allocator might well give. */
struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *path) {
    static struct ibv_ah address;
    (void)pd, (void)path;
    return &address;
}

int ibv_destroy_ah(struct ibv_ah *address) {
    (void)address;
    return 0;
}

int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid) {
    (void)context, (void)port;
    memset(gid, index + 1, sizeof *gid);
    return 0;
}

int(ibv_query_port)(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attributes) {
    (void)context, (void)port;
    ((struct ibv_port_attr *)attributes)->lid = 7;
    return 0;
}

long fake_posted(void) {
    return posted;
}
