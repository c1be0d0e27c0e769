/* What NCCL hands to its profiler plugins: the parts of it that are looked at. Facts of the interface, by version:
 *
 *     v1   NCCL 2.23        functions and data types are numbers; an event names its communicator
 *     v2   2.24, 2.25       functions and data types are words
 *     v3   2.26             like v2 as far as it is looked at
 *     v4   2.27             the communicator is passed once, to init; its events begin where those of v2 continue
 *     v5   2.28             the type of an event takes eight bytes; init's arguments in another order
 *     v6   2.29 and later   like v5 as far as it is looked at
 *
 * NCCL asks a plugin for the newest version that it supports. tests/profiler/native/test_nccl.py compares all offsets with
 * NVIDIA's headers. */
#ifndef TIRESIAS_NCCL_ABI_H
#define TIRESIAS_NCCL_ABI_H

#include <stddef.h>
#include <stdint.h>

enum { SUCCESS = 0 }; /* ncclResult_t */

enum event_type { EVENT_GROUP = 1 << 0, EVENT_COLLECTIVE = 1 << 1, EVENT_POINT_TO_POINT = 1 << 2 };

struct numbered_collective {
    uint64_t sequence;
    uint8_t function;
    const void *from;
    void *to;
    size_t count;
    int root;
    uint8_t datatype;
};

struct numbered_transfer {
    uint8_t function;
    void *buffer;
    uint8_t datatype;
    size_t count;
    int peer;
};

struct named_collective {
    uint64_t sequence;
    const char *function;
    const void *from;
    void *to;
    size_t count;
    int root;
    const char *datatype;
};

struct named_transfer {
    const char *function;
    void *buffer;
    const char *datatype;
    size_t count;
    int peer;
};

union numbered_call {
    struct numbered_collective collective;
    struct numbered_transfer transfer;
};

union named_call {
    struct named_collective collective;
    struct named_transfer transfer;
};

struct event_v1 {
    uint8_t type;
    void *parent;
    int rank;
    const char *name;
    uint64_t hash;
    union numbered_call call;
};

struct event_v2 {
    uint8_t type;
    void *parent;
    int rank;
    const char *name;
    uint64_t hash;
    union named_call call;
};

struct event_v4 {
    uint8_t type;
    void *parent;
    int rank;
    union named_call call;
};

struct event_v5 {
    uint64_t type;
    void *parent;
    int rank;
    union named_call call;
};

/* The table that a plugin exports as ncclProfiler_v1, ncclProfiler_v2 and so on. */
struct profiler {
    const char *name;
    union {
        int (*v1)(void **context, int *mask);
        int (*v4)(void **context, int *mask, const char *name, uint64_t hash, int nodes, int ranks, int rank, void *log);
        int (*v5)(void **context, uint64_t hash, int *mask, const char *name, int nodes, int ranks, int rank, void *log);
    } init;
    union {
        int (*v1)(void *context, void **handle, const struct event_v1 *event);
        int (*v2)(void *context, void **handle, const struct event_v2 *event);
        int (*v4)(void *context, void **handle, const struct event_v4 *event);
        int (*v5)(void *context, void **handle, const struct event_v5 *event);
    } start_event;
    int (*stop_event)(void *handle);
    int (*record_event_state)(void *handle, int state, void *arguments);
    int (*finalize)(void *context);
};

#endif
