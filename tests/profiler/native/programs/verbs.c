/* Posts through the fake libibverbs, and what a recorder should see. Compiled with LOOK_UP it finds the library's
 * functions as NCCL does. */
#define _GNU_SOURCE
#include "pair.h"

#include <dlfcn.h>
#include <infiniband/verbs.h>

enum { WRITE = 3, READ, ATOMIC, POST_RECV };
enum { INLINE = 2, IMMEDIATE = 4, REFUSED = 666 };

extern long fake_posted(void);

#ifdef LOOK_UP
static void *look(const char *name, const char *version) {
    static void *library;
    if (!library)
        library = dlopen(LOOK_UP, RTLD_NOW);
    void *found = library ? dlvsym(library, name, version) : NULL;
    if (!found)
        fprintf(stderr, "%s: %s\n", name, dlerror()), exit(4);
    return found;
}
#define LOOK(name, version) ((__typeof__(&name))look(#name, version))
#define ibv_open_device LOOK(ibv_open_device, "IBVERBS_1.1")
#define ibv_import_device LOOK(ibv_import_device, "IBVERBS_1.10")
#define ibv_create_qp LOOK(ibv_create_qp, "IBVERBS_1.1")
#define ibv_modify_qp LOOK(ibv_modify_qp, "IBVERBS_1.1")
#define ibv_destroy_qp LOOK(ibv_destroy_qp, "IBVERBS_1.1")
#define ibv_qp_to_qp_ex LOOK(ibv_qp_to_qp_ex, "IBVERBS_1.6")
#define fake_posted LOOK(fake_posted, "IBVERBS_1.10")
#endif

static void connect_to(struct ibv_qp *qp, uint32_t peer) {
    struct ibv_qp_attr attributes = {.dest_qp_num = peer, .ah_attr = {.dlid = 9, .port_num = 1, .is_global = 1}};
    attributes.ah_attr.grh.sgid_index = 3;
    memset(&attributes.ah_attr.grh.dgid, 0xee, sizeof attributes.ah_attr.grh.dgid);
    must(ibv_modify_qp(qp, &attributes, IBV_QP_STATE | IBV_QP_AV | IBV_QP_DEST_QPN) == 0, "modify");
}

static void receive(struct ibv_qp *qp, struct ibv_sge *parts, int count) {
    struct ibv_recv_wr *bad, request = {.sg_list = parts, .num_sge = count};
    must(ibv_post_recv(qp, &request, &bad) == 0, "post_recv");
}

/* A receive is posted before the peer is known, as most programs do. */
static struct ibv_qp *queue_pair(struct ibv_context *context, uint32_t peer) {
    struct ibv_qp_init_attr attributes = {.qp_type = IBV_QPT_RC};
    struct ibv_qp *qp = ibv_create_qp((struct ibv_pd *)context, &attributes);
    struct ibv_sge part = {.length = 77};
    receive(qp, &part, 1);
    expect(POST_RECV, 0, 77, 0);
    connect_to(qp, peer);
    return qp;
}

static void classic(struct ibv_qp *qp) {
    struct ibv_sge parts[2] = {{.length = 4096}, {.length = 1000}};
    struct ibv_send_wr *bad, requests[5] = {
        {.opcode = IBV_WR_RDMA_WRITE, .sg_list = parts, .num_sge = 2},
        {.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .sg_list = parts, .num_sge = 0},
        {.opcode = IBV_WR_SEND, .sg_list = parts + 1, .num_sge = 1, .send_flags = IBV_SEND_INLINE},
        {.opcode = IBV_WR_RDMA_READ, .sg_list = parts, .num_sge = 1},
        {.opcode = IBV_WR_LOCAL_INV},
    };
    for (int each = 0; each < 4; each++)
        requests[each].next = &requests[each + 1];
    must(ibv_post_send(qp, requests, &bad) == 0, "post");
    expect(WRITE, 0, 5096, 0), expect(WRITE, IMMEDIATE, 0, 0), expect(SEND, INLINE, 1000, 0), expect(READ, 0, 4096, 0);
    requests[1].wr_id = REFUSED;
    must(ibv_post_send(qp, requests, &bad) != 0 && bad == &requests[1], "refused");
    expect(WRITE, 0, 5096, 0);
    receive(qp, parts, 2);
    expect(POST_RECV, 0, 5096, 0);
}

static void extended(struct ibv_qp *qp) {
    struct ibv_sge parts[2] = {{.length = 30}, {.length = 3}};
    struct ibv_qp_ex *wide = ibv_qp_to_qp_ex(qp);
    must(wide == ibv_qp_to_qp_ex(qp), "the same twice");
    ibv_wr_start(wide);
    ibv_wr_rdma_write(wide, 1, 2), ibv_wr_set_sge(wide, 0, 0, 70000);
    ibv_wr_rdma_write(wide, 1, 2), ibv_wr_set_sge_list(wide, 2, parts);
    ibv_wr_send(wide), ibv_wr_set_inline_data(wide, parts, 12);
    must(ibv_wr_complete(wide) == 0, "complete");
    expect(WRITE, 0, 70000, 0), expect(WRITE, 0, 33, 0), expect(SEND, INLINE, 12, 0);
}

int main(void) {
    struct ibv_context *one = ibv_open_device(NULL), *two = ibv_import_device(0);
    struct ibv_qp *first = queue_pair(one, 501), *second = queue_pair(two, 502);
    classic(first), extended(first);
    classic(second);
    first->handle = REFUSED;
    must(ibv_destroy_qp(first) != 0, "busy");
    extended(first);
    first->handle = 0;
    must(ibv_destroy_qp(first) == 0, "destroy");
    struct ibv_qp *third = queue_pair(one, 503);
    extended(third);
    connect_to(third, 504);
    struct ibv_qp *silent = ibv_create_qp((struct ibv_pd *)two, &(struct ibv_qp_init_attr){.qp_type = IBV_QPT_RC});
    connect_to(silent, 505);
    fprintf(stderr, "%ld\n", fake_posted());
}
