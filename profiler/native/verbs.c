/* Calls of libibverbs that make and connect what data is posted to. They are in both libraries: in the preloaded one
 * for programs that are linked with libibverbs, which it finds only where the program has loaded it; in the other one
 * under libibverbs' own versions for programs that look them up with dlsym. */
#include "verbs.h"

#include "datagrams.h"
#include "queue_pairs.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

/* Loaded already: the caller has it. */
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

/* (gid, number) join the two ends of a connection, or (lid, number) where packets do not leave the subnet. */
static struct end remote_end(const struct ibv_ah_attr *path, uint32_t number) {
    struct end end = {.family = FAMILY_INFINIBAND, .qp = number, .lid = path->dlid};
    if (path->is_global)
        memcpy(end.address, &path->grh.dgid, sizeof end.address);
    return end;
}

static struct end local_end(struct ibv_context *context, const struct ibv_ah_attr *path, uint32_t number) {
    DECLARE_REAL(query_gid, ibv_query_gid, "IBVERBS_1.1");
    int (*query_port)(struct ibv_context *, uint8_t, struct ibv_port_attr *);
    *(void **)&query_port = real("ibv_query_port", "IBVERBS_1.1");
    struct end end = {.family = FAMILY_INFINIBAND, .qp = number};
    struct ibv_port_attr port = {0};
    union ibv_gid gid;
    if (query_port && query_port(context, path->port_num, &port) == 0)
        end.lid = port.lid;
    if (path->is_global && query_gid && query_gid(context, path->port_num, path->grh.sgid_index, &gid) == 0)
        memcpy(end.address, &gid, sizeof end.address);
    return end;
}

static void connected(struct ibv_qp *qp, const struct ibv_qp_attr *attributes) {
    struct queue_pair *pair = queue_pair_get(qp);
    if (!pair)
        return;
    struct end local = local_end(qp->context, &attributes->ah_attr, qp->qp_num);
    struct end remote = remote_end(&attributes->ah_attr, attributes->dest_qp_num);
    queue_pair_connect(pair, &local, &remote);
}

EXPORT int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attributes, int mask) {
    DECLARE_REAL(modify, ibv_modify_qp, "IBVERBS_1.1");
    int failed = modify ? modify(qp, attributes, mask) : ENOSYS, kept = errno;
    if (!failed && tiresias_recording() && mask & IBV_QP_AV && mask & IBV_QP_DEST_QPN)
        connected(qp, attributes);
    errno = kept;
    return failed;
}

/* Forgotten first: the memory may be another queue pair's as soon as it is given back. One that is still needed lives
 * on, though. */
EXPORT int ibv_destroy_qp(struct ibv_qp *qp) {
    DECLARE_REAL(destroy, ibv_destroy_qp, "IBVERBS_1.1");
    struct queue_pair was;
    bool known = queue_pair_forget(qp, &was);
    int failed = destroy ? destroy(qp) : ENOSYS;
    if (failed && known)
        queue_pair_remember(qp, &was);
    return failed;
}

EXPORT struct ibv_ah *ibv_create_ah(struct ibv_pd *domain, struct ibv_ah_attr *path) {
    DECLARE_REAL(create, ibv_create_ah, "IBVERBS_1.1");
    struct ibv_ah *address = create ? create(domain, path) : NULL;
    int kept = errno;
    if (address && tiresias_recording()) {
        struct end local = local_end(domain->context, path, 0), remote = remote_end(path, 0);
        datagram_address(address, &local, &remote);
    }
    errno = kept;
    return address;
}

EXPORT int ibv_destroy_ah(struct ibv_ah *address) {
    DECLARE_REAL(destroy, ibv_destroy_ah, "IBVERBS_1.1");
    datagram_address_forget(address);
    return destroy ? destroy(address) : ENOSYS;
}
