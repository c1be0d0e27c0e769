/* A parameter server over RDMA: each tensor is one write with immediate data, to the server and back.
 *
 *     ps server PORT WORKERS ITERATIONS SIZES
 *     ps worker MICROSECONDS ITERATIONS ADDRESS PORT SIZES [ADDRESS PORT SIZES ...]
 *
 * SIZES are the bytes of the tensors of that server: 4096,128,... A worker computes (sleeps), writes its gradients to all
 * servers, the last tensor first, and waits for the new parameters, which a server writes when it has all gradients. */
#define _GNU_SOURCE
#include "queue_pair.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST = 16, TENSORS = 1024, COMPLETIONS = 16384 };

struct model {
    int count;
    uint32_t sizes[TENSORS];
    size_t bytes;
};

/* What the two ends exchange over TCP. */
struct introduction {
    union ibv_gid gid;
    uint32_t number, key;
    uint64_t address;
};

struct connection {
    int fd;
    struct model model;
    struct ibv_qp *qp;
    struct ibv_mr *outbound, *inbound;
    struct introduction peer;
};

static struct device device;
static struct connection connections[MOST];
static int connected, arrived, left;

static struct model parse(char *text) {
    struct model model = {0};
    for (char *word = strtok(text, ","); word && model.count < TENSORS; word = strtok(NULL, ","))
        model.bytes += model.sizes[model.count++] = (uint32_t)atoi(word);
    return model;
}

/* Every write takes one of the receiver's. */
static void receive(struct connection *connection) {
    struct ibv_recv_wr *bad, request = {.wr_id = (uint64_t)(connection - connections)};
    must(ibv_post_recv(connection->qp, &request, &bad) == 0, "post_recv");
}

static void exchange(int fd, const void *local, void *remote, size_t size) {
    must(send(fd, local, size, 0) == (ssize_t)size && recv(fd, remote, size, MSG_WAITALL) == (ssize_t)size, "exchange");
}

static void meet(int fd, const struct model *model) {
    struct connection *new = &connections[connected++];
    new->fd = fd;
    new->model = *model;
    new->outbound = registered(&device, model->bytes), new->inbound = registered(&device, model->bytes);
    new->qp = new_queue_pair(&device, (uint32_t)model->count);
    struct introduction us = {device.gid, new->qp->qp_num, new->inbound->rkey, (uintptr_t)new->inbound->addr};
    exchange(fd, &us, &new->peer, sizeof us);
    for (int each = 0; each < model->count; each++)
        receive(new);
    connect_to(new->qp, &new->peer.gid, new->peer.number);
    exchange(fd, "r", &(char){0}, 1); /* both are ready */
}

/* Not before the other end has got all: the machine may be switched off when this process has ended. */
static void part(void) {
    for (int each = 0; each < connected; each++)
        exchange(connections[each].fd, "e", &(char){0}, 1);
}

static void push(struct connection *to) {
    size_t offset = to->model.bytes;
    for (int tensor = to->model.count; tensor--;) {
        offset -= to->model.sizes[tensor];
        struct ibv_sge part = {(uintptr_t)to->outbound->addr + offset, to->model.sizes[tensor], to->outbound->lkey};
        struct ibv_send_wr *bad, request = {.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .sg_list = &part, .num_sge = 1};
        request.imm_data = htonl((uint32_t)tensor);
        request.wr.rdma.remote_addr = to->peer.address + offset;
        request.wr.rdma.rkey = to->peer.key;
        must(ibv_post_send(to->qp, &request, &bad) == 0, "post_send");
    }
}

static int tensors(void) {
    int count = 0;
    for (int each = 0; each < connected; each++)
        count += connections[each].model.count;
    return count;
}

/* Until the tensors of all workers are here, or those of this worker are there; some of the next may be here already. */
static void wait_for(int *count) {
    for (; *count < tensors(); ) {
        struct ibv_wc done = completed(&device);
        if (done.opcode == IBV_WC_RECV_RDMA_WITH_IMM)
            receive(&connections[done.wr_id]), arrived++;
        else
            left++;
    }
    *count -= tensors();
}

static void push_all(void) {
    for (int each = 0; each < connected; each++)
        push(&connections[each]);
    wait_for(&left);
}

static int tcp(const char *address, const char *port, int (*attach)(int, const struct sockaddr *, socklen_t)) {
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    must(inet_aton(address, &place.sin_addr), "address");
    return attach(fd, (struct sockaddr *)&place, sizeof place) == 0 ? fd : (close(fd), -1);
}

static void serve(const char *port, int workers, int iterations, char *sizes) {
    struct model model = parse(sizes);
    int listener = tcp("0.0.0.0", port, bind);
    must(listener >= 0 && listen(listener, MOST) == 0, "listen");
    while (connected < workers)
        meet(accept(listener, NULL, NULL), &model);
    for (int iteration = 0; iteration < iterations; iteration++)
        wait_for(&arrived), push_all();
}

static int reach(const char *address, const char *port) {
    int fd;
    while ((fd = tcp(address, port, connect)) < 0)
        usleep(100000);
    return fd;
}

static void work(useconds_t compute, int iterations, char **servers) {
    for (; servers[0]; servers += 3) {
        struct model model = parse(servers[2]);
        meet(reach(servers[0], servers[1]), &model);
    }
    for (int iteration = 0; iteration < iterations; iteration++)
        usleep(compute), push_all(), wait_for(&arrived);
}

int main(int count, char **words) {
    must(count >= 6, "arguments");
    device = open_device(COMPLETIONS);
    if (strcmp(words[1], "server") == 0)
        serve(words[2], atoi(words[3]), atoi(words[4]), words[5]);
    else
        work((useconds_t)atoi(words[2]), atoi(words[3]), words + 4);
    part();
}
