/* Two queue pairs of one process that are connected with each other; what is posted to the first, by ibv_post_send and by
 * the ibv_wr_* functions, is done and printed: operation, flags, bytes. */
#define _GNU_SOURCE
#include "queue_pair.h"

enum { SEND = 1, WRITE = 3, READ, ATOMIC };
enum { IMMEDIATE = 4, DEPTH = 64, BYTES = 200000 };

static struct ibv_mr *local, *remote;
static int posted;

static void expect(int operation, int flags, int bytes) {
    printf("%d %d %d\n", operation, flags, bytes);
    posted++;
}

static void post_receive(struct ibv_qp *qp) {
    struct ibv_sge part = {.addr = (uintptr_t)remote->addr, .length = BYTES, .lkey = remote->lkey};
    struct ibv_recv_wr *bad, request = {.sg_list = &part, .num_sge = 1};
    must(ibv_post_recv(qp, &request, &bad) == 0, "post_recv");
}

static void classic(struct ibv_qp *qp) {
    uintptr_t here = (uintptr_t)local->addr;
    struct ibv_sge parts[2] = {{here, 70000, local->lkey}, {here + 70000, 123, local->lkey}}, word = {here, 8, local->lkey};
    struct ibv_send_wr *bad, requests[4] = {
        {.opcode = IBV_WR_RDMA_WRITE, .sg_list = parts, .num_sge = 2},
        {.opcode = IBV_WR_SEND, .sg_list = parts + 1, .num_sge = 1},
        {.opcode = IBV_WR_RDMA_READ, .sg_list = parts, .num_sge = 1},
        {.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .sg_list = &word, .num_sge = 1},
    };
    for (int each = 0; each < 4; each++) {
        requests[each].next = each < 3 ? &requests[each + 1] : NULL;
        requests[each].wr.rdma.remote_addr = (uintptr_t)remote->addr;
        requests[each].wr.rdma.rkey = remote->rkey;
    }
    requests[3].wr.atomic.remote_addr = (uintptr_t)remote->addr;
    requests[3].wr.atomic.rkey = remote->rkey;
    must(ibv_post_send(qp, requests, &bad) == 0, "post_send");
    expect(WRITE, 0, 70123), expect(SEND, 0, 123), expect(READ, 0, 70000), expect(ATOMIC, 0, 8);
}

/* Neither lists of parts nor inline data, which soft-RoCE does not carry out when they come this way. */
static void extended(struct ibv_qp *qp) {
    uintptr_t here = (uintptr_t)local->addr, there = (uintptr_t)remote->addr;
    struct ibv_qp_ex *wide = ibv_qp_to_qp_ex(qp);
    must(wide != NULL, "extended");
    ibv_wr_start(wide);
    ibv_wr_rdma_write(wide, remote->rkey, there), ibv_wr_set_sge(wide, local->lkey, here, BYTES);
    ibv_wr_rdma_write_imm(wide, remote->rkey, there, 7), ibv_wr_set_sge(wide, local->lkey, here, 3033);
    ibv_wr_send(wide), ibv_wr_set_sge(wide, local->lkey, here, 12);
    ibv_wr_rdma_read(wide, remote->rkey, there), ibv_wr_set_sge(wide, local->lkey, here, 4000);
    ibv_wr_atomic_fetch_add(wide, remote->rkey, there, 1), ibv_wr_set_sge(wide, local->lkey, here, 8);
    must(ibv_wr_complete(wide) == 0, "complete");
    expect(WRITE, 0, BYTES), expect(WRITE, IMMEDIATE, 3033), expect(SEND, 0, 12), expect(READ, 0, 4000);
    expect(ATOMIC, 0, 8);
}

int main(void) {
    struct device device = open_device(2 * DEPTH);
    struct ibv_qp *first = new_queue_pair(&device, DEPTH), *second = new_queue_pair(&device, DEPTH);
    local = registered(&device, BYTES), remote = registered(&device, BYTES);
    connect_to(first, &device.gid, second->qp_num);
    connect_to(second, &device.gid, first->qp_num);
    int receives = 3; /* two sends and a write with immediate data */
    for (int each = 0; each < receives; each++)
        post_receive(second);
    classic(first);
    extended(first);
    for (int each = 0; each < posted + receives; each++)
        completed(&device);
}
