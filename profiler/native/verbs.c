/* Calls of libibverbs that make and connect what data is posted to. They are in both libraries: in the preloaded one
 * for programs that are linked with libibverbs, which it finds only where the program has loaded it; in the other one
 * under libibverbs' own versions for programs that look them up with dlsym. */
#include "verbs.h"

#include "queue_pairs.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

/* Loaded already, or nobody could call us. */
static void *real(const char *name, const char *version) {
    void *library = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
    void *found = library ? dlvsym(library, name, version) : NULL;
    if (!found)
        errno = ENOSYS;
    return found;
}

#define DECLARE_REAL(function, name, version)                                                                          \
    __typeof__(&name) function;                                                                                        \
    *(void **)&function = real(#name, version)

static struct ibv_context *watched(struct ibv_context *context) {
    int kept = errno;
    if (context && tiresias_recording())
        verbs_watch_posts(context);
    errno = kept;
    return context;
}

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device) {
    DECLARE_REAL(open, ibv_open_device, "IBVERBS_1.1");
    return open ? watched(open(device)) : NULL;
}

EXPORT struct ibv_context *ibv_import_device(int fd) {
    DECLARE_REAL(import, ibv_import_device, "IBVERBS_1.10");
    return import ? watched(import(fd)) : NULL;
}

EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp) {
    DECLARE_REAL(convert, ibv_qp_to_qp_ex, "IBVERBS_1.6");
    struct ibv_qp_ex *extended = convert ? convert(qp) : NULL;
    if (extended && tiresias_recording())
        verbs_watch_extended(extended);
    return extended;
}

static void find_local_end(struct queue_pair *pair, struct ibv_context *context, const struct ibv_ah_attr *path) {
    DECLARE_REAL(query_gid, ibv_query_gid, "IBVERBS_1.1");
    int (*query_port)(struct ibv_context *, uint8_t, struct ibv_port_attr *);
    *(void **)&query_port = real("ibv_query_port", "IBVERBS_1.1");
    union ibv_gid gid;
    struct ibv_port_attr port = {0};
    if (query_gid && query_gid(context, path->port_num, path->is_global ? path->grh.sgid_index : 0, &gid) == 0)
        memcpy(pair->local.address, &gid, sizeof gid);
    if (query_port && query_port(context, path->port_num, &port) == 0)
        pair->local.lid = port.lid;
}

/* A queue pair learns here who its peer is; (gid, number) join the two ends of a connection. */
static void connected(struct ibv_qp *qp, const struct ibv_qp_attr *attributes) {
    struct queue_pair *pair = queue_pair_get(qp);
    if (!pair)
        return;
    pair->remote.qp = attributes->dest_qp_num;
    pair->remote.lid = attributes->ah_attr.dlid;
    if (attributes->ah_attr.is_global)
        memcpy(pair->remote.address, &attributes->ah_attr.grh.dgid, sizeof pair->remote.address);
    find_local_end(pair, qp->context, &attributes->ah_attr);
}

EXPORT int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attributes, int mask) {
    DECLARE_REAL(modify, ibv_modify_qp, "IBVERBS_1.1");
    int failed = modify ? modify(qp, attributes, mask) : ENOSYS, kept = errno;
    if (!failed && tiresias_recording() && mask & IBV_QP_AV && mask & IBV_QP_DEST_QPN)
        connected(qp, attributes);
    errno = kept;
    return failed;
}

/* Forgotten first: the memory may be another queue pair's as soon as it is given back. */
EXPORT int ibv_destroy_qp(struct ibv_qp *qp) {
    DECLARE_REAL(destroy, ibv_destroy_qp, "IBVERBS_1.1");
    queue_pair_forget(qp);
    return destroy ? destroy(qp) : ENOSYS;
}
