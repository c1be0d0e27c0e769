/* The record file: a header, a table of channels, then rings of records. Little endian;
 * profiler/recordings/recording.py reads it.
 *
 *     0        struct file_header
 *     4096     struct channel [channels_capacity]
 *     ...      struct ring    [rings_capacity], each followed by its records
 *
 * The file is written through a shared mapping and never closed in any special way, so it is complete up to the last
 * instruction of a process that was killed. Hence the rules for a reader:
 *  - a channel counts when its kind is set, a ring when its thread is, a record when its operation is: each comes last;
 *  - `written` counts reserved records and may exceed the ring's size; what is beyond was dropped. */
#ifndef TIRESIAS_FORMAT_H
#define TIRESIAS_FORMAT_H

#include <stdatomic.h>
#include <stdint.h>

enum { VERSION = 1, RECORDS_PER_RING = 1024, FAMILY_INFINIBAND = 0x4942, FAMILY_COMMUNICATOR = 0x4E43 };

enum file_flag { FILE_CHANNELS_FULL = 1, FILE_STOPPED = 2 };

enum channel_kind { CHANNEL_TCP = 1, CHANNEL_QP, CHANNEL_UD, CHANNEL_COLLECTIVE };

enum channel_flag { CHANNEL_GRPC = 1 }; /* its sends are messages of gRPC, not calls */

enum operation { OP_SEND = 1, OP_RECV, OP_WRITE, OP_READ, OP_ATOMIC, OP_POST_RECV, OP_COMPLETION, OP_COLLECTIVE };

enum record_flag { FLAG_ERROR = 1, FLAG_INLINE = 2, FLAG_IMMEDIATE = 4, FLAG_MORE = 8 };

/* A channel of kind CHANNEL_COLLECTIVE is one function of one communicator, as one of its ranks calls it, or what this
 * rank sends to and receives from another. Its ends are of FAMILY_COMMUNICATOR and have in `address` a struct group.
 *     local end:  qp is the rank that records, port is 0
 *     remote end: port is the function and qp ALL_RANKS, or port is POINT_TO_POINT and qp the other rank
 * Records: OP_COLLECTIVE, or OP_SEND and OP_RECV; `asked` is what the rank gives to the call (for a gather of all: its
 * own part; for a scattered reduction: the part it gets), `done` is 0, the time is that of the call. */
enum collective { POINT_TO_POINT, ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, REDUCE, ALL_TO_ALL, OTHER };
#define ALL_RANKS UINT32_MAX

struct group {
    uint64_t hash;         /* the communicator's name among all ranks */
    uint32_t ranks, nodes; /* 0: not known */
};

struct file_header {
    char magic[8]; /* "TIRENET" and a zero */
    uint32_t version, header_size, record_size, channel_size;
    uint32_t channels_capacity, rings_capacity, records_per_ring;
    _Atomic uint32_t flags;
    uint64_t pid, start_ticks;
    uint64_t realtime, ticks;         /* CLOCK_REALTIME ns and the record clock when the file was made */
    _Atomic uint64_t ticks_per_second; /* refined as the process goes on; 0: ticks are ns of CLOCK_MONOTONIC */
    uint64_t monotonic;
    _Atomic uint32_t channels_used, rings_used;
    _Atomic uint64_t dropped; /* by threads that never got a ring */
    char hostname[64], program[256];
    char reserved[3672];
};

struct end {
    uint16_t family, port; /* host byte order */
    uint32_t qp;
    uint8_t address[16];
    uint16_t lid;
    uint8_t reserved[18];
};

struct channel {
    _Atomic uint32_t kind;
    uint32_t number; /* file descriptor or queue pair */
    int64_t opened;
    _Atomic int64_t closed; /* 0: open */
    uint64_t flags;
    struct end local, remote;
    uint8_t reserved[8];
};

struct record {
    uint64_t time;
    uint32_t channel;
    _Atomic uint16_t operation;
    uint16_t flags;
    uint64_t asked, done;
};

struct ring {
    _Atomic uint64_t written;
    _Atomic uint32_t thread, in_use;
    uint8_t reserved[48];
    struct record records[RECORDS_PER_RING];
};

_Static_assert(sizeof(struct file_header) == 4096, "file header");
_Static_assert(sizeof(struct end) == 44, "end");
_Static_assert(sizeof(struct channel) == 128, "channel");
_Static_assert(sizeof(struct record) == 32, "record");
_Static_assert(sizeof(struct ring) == 64 + 32 * RECORDS_PER_RING, "ring");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the file is little endian");

#endif
