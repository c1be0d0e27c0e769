/* Connected queue pairs on the first device. Compiled with LOOK_UP, that library is opened and its functions are looked
 * up by version, as NCCL does it; else the program is linked with libibverbs. */
#ifndef QUEUE_PAIR_H
#define QUEUE_PAIR_H

#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef LOOK_UP
static inline void *look(const char *name, const char *version) {
    static void *library;
    if (!library)
        library = dlopen(LOOK_UP, RTLD_NOW);
    void *found = library ? dlvsym(library, name, version) : NULL;
    if (!found)
        fprintf(stderr, "%s: %s\n", name, dlerror()), exit(4);
    return found;
}
#define LOOK(name, version) ((__typeof__(&name))look(#name, version))
#undef ibv_reg_mr
#define ibv_get_device_list LOOK(ibv_get_device_list, "IBVERBS_1.1")
#define ibv_open_device LOOK(ibv_open_device, "IBVERBS_1.1")
#define ibv_alloc_pd LOOK(ibv_alloc_pd, "IBVERBS_1.1")
#define ibv_reg_mr LOOK(ibv_reg_mr, "IBVERBS_1.1")
#define ibv_create_cq LOOK(ibv_create_cq, "IBVERBS_1.1")
#define ibv_modify_qp LOOK(ibv_modify_qp, "IBVERBS_1.1")
#define ibv_query_gid LOOK(ibv_query_gid, "IBVERBS_1.1")
#define ibv_qp_to_qp_ex LOOK(ibv_qp_to_qp_ex, "IBVERBS_1.6")
#endif

enum { PORT = 1, GID_INDEX = 1 /* the one of the IPv4 address */ };
enum { ANYTHING = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };

struct device {
    struct ibv_context *context;
    struct ibv_pd *domain;
    struct ibv_cq *completions;
    union ibv_gid gid;
};

static inline void must(int holds, const char *what) {
    if (!holds)
        perror(what), exit(3);
}

static inline struct device open_device(int depth) {
    struct device device;
    struct ibv_device **list = ibv_get_device_list(NULL);
    must(list && list[0] && (device.context = ibv_open_device(list[0])), "open");
    must((device.domain = ibv_alloc_pd(device.context)) != NULL, "pd");
    must((device.completions = ibv_create_cq(device.context, depth, NULL, NULL, 0)) != NULL, "cq");
    must(ibv_query_gid(device.context, PORT, GID_INDEX, &device.gid) == 0, "gid");
    return device;
}

/* Ready to receive, not yet to send: receives may be posted. Has the ibv_wr_* functions. */
static inline struct ibv_qp *new_queue_pair(struct device *device, uint32_t depth) {
    struct ibv_qp_init_attr_ex attributes = {
        .send_cq = device->completions, .recv_cq = device->completions, .pd = device->domain, .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = depth, .max_recv_wr = depth, .max_send_sge = 2, .max_recv_sge = 1},
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .sq_sig_all = 1,
        .send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                          IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
    };
    struct verbs_context *operations = verbs_get_ctx_op(device->context, create_qp_ex);
    struct ibv_qp *qp = operations ? operations->create_qp_ex(device->context, &attributes) : NULL;
    must(qp != NULL, "qp");
    struct ibv_qp_attr start = {.qp_state = IBV_QPS_INIT, .port_num = PORT, .qp_access_flags = ANYTHING};
    must(ibv_modify_qp(qp, &start, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0, "init");
    return qp;
}

static inline void connect_to(struct ibv_qp *qp, const union ibv_gid *gid, uint32_t number) {
    struct ibv_qp_attr ready = {
        .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = number, .max_dest_rd_atomic = 4, .min_rnr_timer = 1,
        .ah_attr = {.is_global = 1, .port_num = PORT, .grh = {.dgid = *gid, .sgid_index = GID_INDEX, .hop_limit = 1}},
    };
    must(ibv_modify_qp(qp, &ready, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0, "ready to receive");
    struct ibv_qp_attr send = {.qp_state = IBV_QPS_RTS, .timeout = 18, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 4};
    must(ibv_modify_qp(qp, &send, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                      IBV_QP_MAX_QP_RD_ATOMIC) == 0, "ready to send");
}

static inline struct ibv_mr *registered(struct device *device, size_t bytes) {
    void *memory = calloc(1, bytes);
    struct ibv_mr *region = memory ? ibv_reg_mr(device->domain, memory, bytes, ANYTHING) : NULL;
    must(region != NULL, "memory region");
    return region;
}

/* The next thing that is done; it must have gone well. */
static inline struct ibv_wc completed(struct device *device) {
    struct ibv_wc done;
    int count;
    while ((count = ibv_poll_cq(device->completions, 1, &done)) == 0)
        ;
    if (count != 1 || done.status != IBV_WC_SUCCESS)
        fprintf(stderr, "completion: %d, status %d\n", count, count == 1 ? (int)done.status : 0), exit(5);
    return done;
}

#endif
