/* One process' record file. It is made at the first channel, by the first thread that needs it. */
#ifndef TIRESIAS_SESSION_H
#define TIRESIAS_SESSION_H

#include "format.h"

#include <stdbool.h>
#include <stddef.h>

/* Lies in a page that is zeros again in a child after fork: the child has no file, and begins one of its own. */
struct session {
    _Atomic uint32_t generation; /* 0: no file; set when all the rest is */
    _Atomic uint32_t maker;      /* the thread that makes the file */
    _Atomic uint32_t early;      /* records of those who could not wait for it */
    _Atomic uint64_t next_check; /* of the stop file, on the clock of the records */
    _Atomic uint32_t channels, rings, idle_rings; /* taken so far; may run past the capacity */
    struct file_header *header;
};

extern struct session *session;
extern _Atomic bool session_enabled;

/* True when there is a file, made by this call or before. It may wait for a thread that is making it. */
bool session_begin(void);

/* Now and then: does the stop file exist? */
void session_check(struct file_header *header);

uint32_t session_thread(void);

static inline struct channel *channels_of(struct file_header *header) {
    return (struct channel *)(header + 1);
}

static inline struct ring *rings_of(struct file_header *header) {
    return (struct ring *)(channels_of(header) + header->channels_capacity);
}

#endif
