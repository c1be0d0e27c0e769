/* The events of NCCL's profiler interface as NCCL lays them out, whole, for a program that plays NCCL. Written apart from
 * the plugin's own description: the two have to agree. */
#ifndef NCCL_EVENTS_H
#define NCCL_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GROUP = 1, COLL = 2, P2P = 4, GROUP_API = 256, COLL_API = 512, P2P_API = 1024, KERNEL_LAUNCH = 2048 };

struct descriptor1 {
    uint8_t type;
    void *parent;
    int rank;
    union {
        struct {
            const char *name;
            uint64_t hash, sequence;
            uint8_t func;
            void const *send;
            void *recv;
            size_t count;
            int root;
            uint8_t datatype;
            uint32_t op;
            size_t traffic;
            uint8_t channels, warps, algo, proto;
            int collnet, nvls;
        } coll;
        struct {
            const char *name;
            uint64_t hash;
            uint8_t func;
            void *buffer;
            uint8_t datatype;
            size_t count;
            int peer;
        } p2p;
    };
};

struct descriptor2 {
    uint8_t type;
    void *parent;
    int rank;
    union {
        struct {
            const char *name;
            uint64_t hash, sequence;
            const char *func;
            void const *send;
            void *recv;
            size_t count;
            int root;
            const char *datatype;
            size_t traffic; /* not in v3; it shifts only what follows */
            uint8_t channels, warps;
            const char *algo, *proto;
        } coll;
        struct {
            const char *name;
            uint64_t hash;
            const char *func;
            void *buffer;
            const char *datatype;
            size_t count;
            int peer;
        } p2p;
    };
};

#define CALLS                                                                                                          \
    union {                                                                                                            \
        struct {                                                                                                       \
            uint64_t sequence;                                                                                         \
            const char *func;                                                                                          \
            void const *send;                                                                                          \
            void *recv;                                                                                                \
            size_t count;                                                                                              \
            int root;                                                                                                  \
            const char *datatype;                                                                                      \
            uint8_t channels, warps;                                                                                   \
            const char *algo, *proto;                                                                                  \
            void *group;                                                                                               \
        } coll;                                                                                                        \
        struct {                                                                                                       \
            const char *func;                                                                                          \
            void *buffer;                                                                                              \
            const char *datatype;                                                                                      \
            size_t count;                                                                                              \
            int peer;                                                                                                  \
            uint8_t channels;                                                                                          \
            void *group;                                                                                               \
        } p2p;                                                                                                         \
    }

struct descriptor4 {
    uint8_t type;
    void *parent;
    int rank;
    CALLS;
};

struct descriptor5 {
    uint64_t type;
    void *parent;
    int rank;
    CALLS;
};

struct plugin {
    const char *name;
    void *init;
    int (*start)(void *context, void **handle, void *descriptor);
    int (*stop)(void *handle);
    int (*state)(void *handle, int state, void *arguments);
    int (*finalize)(void *context);
};

typedef int init1(void **context, int *mask);
typedef int init4(void **context, int *mask, const char *name, uint64_t hash, int nodes, int ranks, int rank, void *log);
typedef int init5(void **context, uint64_t hash, int *mask, const char *name, int nodes, int ranks, int rank, void *log);

#endif
