/* Calls as they are (through the preloaded recorder, if there is one) and bare ones, in turns.
 *
 *     profiler send|write|post|clock ROUNDS CALLS      a line per round: ns of the call, ns of the bare one
 *     profiler stream MEGABYTES 0                      seconds by the clock, seconds of processor time of both ends
 *
 * send: nothing, over TCP. write: to /dev/null. post: to a queue pair of a libibverbs that does nothing; only if
 * compiled with POSTS. clock: the one of the records. */
#include "../profiler/native/clock.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef POSTS
#include <infiniband/verbs.h>
#endif

enum { CHUNK = 1 << 16 };

typedef ssize_t call(int, const void *, size_t);

static ssize_t (*plain_send)(int, const void *, size_t, int);
static ssize_t (*plain_write)(int, const void *, size_t);

/* Nothing to send: the kernel's own share, and its noise, stays small. */
static ssize_t hooked_send(int fd, const void *data, size_t size) {
    return send(fd, data, size, 0);
}

static ssize_t bare_send(int fd, const void *data, size_t size) {
    return plain_send(fd, data, size, 0);
}

static ssize_t hooked_write(int fd, const void *data, size_t size) {
    return write(fd, data, size);
}

static ssize_t bare_write(int fd, const void *data, size_t size) {
    return plain_write(fd, data, size);
}

static ssize_t read_clock(int fd, const void *data, size_t size) {
    (void)fd, (void)data;
    return (ssize_t)(clock_now() + size);
}

static ssize_t nothing(int fd, const void *data, size_t size) {
    (void)fd, (void)data;
    return (ssize_t)size;
}

#ifdef POSTS
static struct ibv_qp *queue_pairs[2];

static ssize_t post(int which, const void *data, size_t size) {
    struct ibv_sge part = {.addr = (uintptr_t)data, .length = (uint32_t)size};
    struct ibv_send_wr *bad, request = {.opcode = IBV_WR_RDMA_WRITE, .sg_list = &part, .num_sge = 1};
    return ibv_post_send(queue_pairs[which], &request, &bad);
}

static ssize_t hooked_post(int fd, const void *data, size_t size) {
    (void)fd;
    return post(0, data, size);
}

static ssize_t bare_post(int fd, const void *data, size_t size) {
    (void)fd;
    return post(1, data, size);
}

static void open_queue_pairs(void) {
    void *library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD);
    struct ibv_context *(*bare)(struct ibv_device *);
    *(void **)&bare = dlsym(library, "ibv_open_device");
    struct ibv_qp_init_attr attributes = {.qp_type = IBV_QPT_RC};
    queue_pairs[0] = ibv_create_qp((struct ibv_pd *)ibv_open_device(NULL), &attributes);
    queue_pairs[1] = ibv_create_qp((struct ibv_pd *)bare(NULL), &attributes);
}
#endif

static double ns_per_call(call *function, int fd, int calls) {
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (int each = 0; each < calls; each++)
        function(fd, "", 0);
    clock_gettime(CLOCK_MONOTONIC, &to);
    return ((to.tv_sec - from.tv_sec) * 1e9 + (to.tv_nsec - from.tv_nsec)) / calls;
}

static int connection(int *remote_end) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), local_end = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 1))
        exit(1);
    getsockname(listener, (struct sockaddr *)&address, &size);
    if (connect(local_end, (struct sockaddr *)&address, size))
        exit(1);
    *remote_end = accept(listener, NULL, NULL);
    return local_end;
}

static void serve(int fd) {
    static char buffer[CHUNK];
    while (recv(fd, buffer, sizeof buffer, 0) > 0)
        ;
    _exit(0);
}

static double processor_seconds(int subject) {
    struct rusage used;
    getrusage(subject, &used);
    return used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

/* That many megabytes to a process that reads them. */
static void stream(int megabytes) {
    static char data[CHUNK];
    struct timespec from, to;
    int remote_end, local_end = connection(&remote_end);
    pid_t reader = fork();
    if (reader == 0) {
        close(local_end);
        serve(remote_end);
    }
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (int chunk = 0; chunk < megabytes * (1 << 20) / CHUNK; chunk++)
        if (send(local_end, data, CHUNK, 0) != CHUNK)
            exit(1);
    close(local_end);
    waitpid(reader, NULL, 0);
    clock_gettime(CLOCK_MONOTONIC, &to);
    double used = processor_seconds(RUSAGE_SELF) + processor_seconds(RUSAGE_CHILDREN);
    printf("%.6f %.6f\n", (to.tv_sec - from.tv_sec) + (to.tv_nsec - from.tv_nsec) / 1e9, used);
}

static void choose(const char *what, call **hooked, call **bare, int *fd) {
    int remote_end;
    *hooked = hooked_write, *bare = bare_write, *fd = -1;
    if (strcmp(what, "send") == 0)
        *hooked = hooked_send, *bare = bare_send, *fd = connection(&remote_end);
    else if (strcmp(what, "clock") == 0)
        clock_start(), *hooked = read_clock, *bare = nothing;
    else
        *fd = open("/dev/null", O_WRONLY);
#ifdef POSTS
    open_queue_pairs();
    *hooked = hooked_post, *bare = bare_post;
#endif
}

int main(int count, char **arguments) {
    if (count != 4)
        return 2;
    call *hooked, *bare;
    int fd, rounds = atoi(arguments[2]), calls = atoi(arguments[3]);
    void *library = dlopen("libc.so.6", RTLD_NOW);
    *(void **)&plain_send = dlsym(library, "send");
    *(void **)&plain_write = dlsym(library, "write");
    if (strcmp(arguments[1], "stream") == 0) {
        stream(rounds);
        return 0;
    }
    choose(arguments[1], &hooked, &bare, &fd);
    for (int round = 0; round < rounds; round++) {
        double recorded = ns_per_call(hooked, fd, calls);
        printf("%.2f %.2f\n", recorded, ns_per_call(bare, fd, calls));
    }
}
