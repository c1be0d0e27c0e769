/* Plays NCCL to a profiler plugin: loads it, asks for the newest version up to the one given, and reports the calls of a
 * small training in the order and under the conditions in which NCCL does.
 *
 *     nccl PLUGIN VERSION HASH RANK RANKS MILLISECONDS ITERATIONS CALL...
 *
 * CALL is FUNCTION:TYPE:COUNT, one that all ranks make in every iteration (ar, ag, rs, bc, rd, xx for a function that
 * no plugin defines), or send:TYPE:COUNT:PEER, recv:TYPE:COUNT:PEER. The rest of an iteration takes MILLISECONDS. A leading
 * "once:" has a call made before the first iteration only. With FORK in the environment a child makes the calls of one
 * iteration more, and then the parent does. Prints the handles it was given beyond those it may use.
 * PLUGIN may be STATIC_PLUGIN, as with NCCL: then it is in this program. */
#include "nccl_events.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const struct {
    const char *shorthand, *word;
    uint8_t number;
} functions[] = {{"ar", "AllReduce", 4}, {"ag", "AllGather", 2}, {"rs", "ReduceScatter", 3}, {"bc", "Broadcast", 0},
                 {"rd", "Reduce", 1},    {"xx", "Mystery", 8},   {"send", "Send", 6},        {"recv", "Recv", 7}};

/* By ncclDataType_t; for ncclUint8 NCCL has no word. */
static const char *const types[] = {"ncclInt8",    "Unknown",     "ncclInt32",    "ncclUint32",
                                    "ncclInt64",   "ncclUint64",  "ncclFloat16",  "ncclFloat32",
                                    "ncclFloat64", "ncclBfloat16", "ncclFloat8e4m3", "ncclFloat8e5m2"};

struct call {
    int function, type, peer;
    size_t count;
    bool once;
};

static struct plugin *plugin;
static void *context;
static uint64_t hash;
static int version, mask, rank, ranks, surprises;

static struct call parse(const char *text) {
    struct call call = {.once = strncmp(text, "once:", 5) == 0};
    char function[8];
    if (sscanf(text + 5 * call.once, "%7[a-z]:%d:%zu:%d", function, &call.type, &call.count, &call.peer) < 3)
        exit(2);
    while (strcmp(functions[call.function].shorthand, function) != 0)
        call.function++;
    return call;
}

static bool is_p2p(const struct call *call) {
    return functions[call->function].number == 6 || functions[call->function].number == 7;
}

static void load(const char *path) {
    void *library = dlopen(strcmp(path, "STATIC_PLUGIN") ? path : NULL, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    for (; version && !plugin; version -= !plugin) {
        char name[32];
        snprintf(name, sizeof name, "ncclProfiler_v%d", version);
        plugin = dlsym(library, name);
    }
}

static void init(void) {
    int nodes = ranks, failed;
    if (version < 4)
        failed = ((init1 *)plugin->init)(&context, &mask);
    else if (version == 4)
        failed = ((init4 *)plugin->init)(&context, &mask, "world", hash, nodes, ranks, rank, NULL);
    else
        failed = ((init5 *)plugin->init)(&context, hash, &mask, "world", nodes, ranks, rank, NULL);
    if (failed)
        exit(3);
}

#define NAMED(descriptor)                                                                                              \
    if (type == COLL)                                                                                                  \
        descriptor.coll.func = functions[call->function].word, descriptor.coll.count = call->count,                    \
        descriptor.coll.datatype = types[call->type], descriptor.coll.sequence = 7;                                    \
    if (type == P2P)                                                                                                   \
        descriptor.p2p.func = functions[call->function].word, descriptor.p2p.count = call->count,                      \
        descriptor.p2p.datatype = types[call->type], descriptor.p2p.peer = call->peer;

static void start1(void **handle, int type, const struct call *call) {
    struct descriptor1 event = {.type = (uint8_t)type, .rank = rank};
    if (type == COLL)
        event.coll.hash = hash, event.coll.func = functions[call->function].number, event.coll.count = call->count,
        event.coll.datatype = (uint8_t)call->type;
    if (type == P2P)
        event.p2p.hash = hash, event.p2p.func = functions[call->function].number, event.p2p.count = call->count,
        event.p2p.datatype = (uint8_t)call->type, event.p2p.peer = call->peer;
    plugin->start(context, handle, &event);
}

static void start2(void **handle, int type, const struct call *call) {
    struct descriptor2 event = {.type = (uint8_t)type, .rank = rank};
    NAMED(event)
    if (type == COLL)
        event.coll.hash = hash;
    if (type == P2P)
        event.p2p.hash = hash;
    plugin->start(context, handle, &event);
}

/* NCCL 2.28 and later do not clear the descriptor of a v4 plugin. */
static void start4(void **handle, int type, const struct call *call) {
    struct descriptor4 event;
    memset(&event, 0xAB, sizeof event);
    event.type = (uint8_t)type;
    NAMED(event)
    plugin->start(context, handle, &event);
}

static void start5(void **handle, int type, const struct call *call) {
    struct descriptor5 event = {.type = (uint64_t)type, .rank = rank};
    NAMED(event)
    plugin->start(context, handle, &event);
}

static void *start(int type, const struct call *call) {
    void *handle = &handle;
    static void (*const of[])(void **, int, const struct call *) = {start1, start2, start2, start4, start5, start5};
    of[version - 1](&handle, type, call);
    if (type != GROUP && handle) {
        plugin->state(handle, 0, NULL);
        surprises++;
    }
    return handle;
}

static void stop(void *handle) {
    if (handle)
        plugin->stop(handle);
}

/* From v5 on calls are reported when they are made, too, to plugins that enable any event below them. */
static void make(const struct call *call) {
    int type = is_p2p(call) ? P2P : COLL;
    if (version >= 5 && mask & type) {
        stop(start(GROUP_API, call));
        stop(start(is_p2p(call) ? P2P_API : COLL_API, call));
    }
    void *group = mask & (GROUP | COLL | P2P) ? start(GROUP, call) : NULL;
    if (mask & type && (group || version >= 5))
        stop(start(type, call));
    stop(group);
}

static void make_all(const struct call *calls, int count, bool once) {
    for (int each = 0; each < count; each++)
        if (calls[each].once == once)
            make(&calls[each]);
}

static void fork_and_make_all(const struct call *calls, int count) {
    pid_t child = fork();
    if (child)
        waitpid(child, NULL, 0);
    make_all(calls, count, false);
    if (!child)
        _exit(0);
}

int main(int count, char **arguments) {
    if (count < 9)
        return 2;
    version = atoi(arguments[2]);
    hash = strtoull(arguments[3], NULL, 0);
    rank = atoi(arguments[4]);
    ranks = atoi(arguments[5]);
    struct timespec pause = {.tv_nsec = atol(arguments[6]) * 1000000};
    int iterations = atoi(arguments[7]), number = count - 8;
    struct call calls[number];
    for (int each = 0; each < number; each++)
        calls[each] = parse(arguments[8 + each]);
    load(arguments[1]);
    init();
    make_all(calls, number, true);
    for (int iteration = 0; iteration < iterations; iteration++) {
        nanosleep(&pause, NULL);
        make_all(calls, number, false);
    }
    if (getenv("FORK"))
        fork_and_make_all(calls, number);
    plugin->finalize(context);
    printf("%d\n", surprises);
    return 0;
}
