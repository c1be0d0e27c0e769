/* Datagrams to several peers through the fake libibverbs, and what a recorder should see: each line ends with the first
 * byte of the peer's address and its queue pair. */
#define _GNU_SOURCE
#include "pair.h"

#include <infiniband/verbs.h>
#include <stdio.h>

static void expect_to(int flags, int bytes, int byte, int peer) {
    printf("%d %d %d 0 %d %d\n", SEND, flags, bytes, byte, peer);
}

static struct ibv_ah *address(struct ibv_context *context, int byte) {
    struct ibv_ah_attr path = {.dlid = 9, .port_num = 1, .is_global = 1};
    memset(&path.grh.dgid, byte, sizeof path.grh.dgid);
    return ibv_create_ah((struct ibv_pd *)context, &path);
}

static void classic(struct ibv_qp *qp, struct ibv_ah *to, uint32_t peer, uint32_t bytes) {
    struct ibv_sge part = {.length = bytes};
    struct ibv_send_wr *bad, request = {.opcode = IBV_WR_SEND, .sg_list = &part, .num_sge = 1};
    request.wr.ud.ah = to;
    request.wr.ud.remote_qpn = peer;
    must(ibv_post_send(qp, &request, &bad) == 0, "post");
}

/* The address may be set before the data or after it. */
static void extended(struct ibv_qp *qp, struct ibv_ah *to, uint32_t peer) {
    struct ibv_qp_ex *wide = ibv_qp_to_qp_ex(qp);
    char data[12];
    ibv_wr_start(wide);
    ibv_wr_send(wide), ibv_wr_set_ud_addr(wide, to, peer, 1), ibv_wr_set_sge(wide, 0, 0, 500);
    ibv_wr_send(wide), ibv_wr_set_inline_data(wide, data, 12), ibv_wr_set_ud_addr(wide, to, peer, 1);
    must(ibv_wr_complete(wide) == 0, "complete");
}

int main(int count, char **types) {
    must(count == 2, "a type");
    struct ibv_context *context = ibv_open_device(NULL);
    struct ibv_qp_init_attr attributes = {.qp_type = strcmp(types[1], "ud") == 0 ? IBV_QPT_UD : IBV_QPT_DRIVER};
    struct ibv_qp *qp = ibv_create_qp((struct ibv_pd *)context, &attributes);
    struct ibv_recv_wr *bad, request = {0};
    must(ibv_post_recv(qp, &request, &bad) == 0, "post_recv"); /* of no connection */
    struct ibv_ah *to = address(context, 0xaa);
    classic(qp, to, 601, 1000), expect_to(0, 1000, 0xaa, 601);
    classic(qp, to, 602, 1001), expect_to(0, 1001, 0xaa, 602);
    extended(qp, to, 601), expect_to(0, 500, 0xaa, 601), expect_to(2, 12, 0xaa, 601);
    must(ibv_destroy_ah(to) == 0, "destroy");
    to = address(context, 0xbb); /* in the same memory */
    classic(qp, to, 601, 1002), expect_to(0, 1002, 0xbb, 601);
    classic(qp, (struct ibv_ah *)&attributes, 603, 1003), expect_to(0, 1003, 0, 0); /* one that was never seen */
}
