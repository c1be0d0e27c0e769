/* The recorder: what the hooks call. Nothing here fails loudly, takes a lock, allocates from the heap or changes
 * errno, and all of it may run in a signal handler. Both libraries contain it; where both are loaded, the dynamic
 * linker gives the second one the functions of the first, so that a process has one file. */
#ifndef TIRESIAS_RECORDER_H
#define TIRESIAS_RECORDER_H

#include "format.h"

#include <stdbool.h>

#define EXPORT __attribute__((visibility("default")))
#define NO_CHANNEL UINT32_MAX

/* False: switched off, ended, or it could not be begun. Then there is nothing to look up either. */
EXPORT bool tiresias_recording(void);

/* Which file channels belong to; 0: there is none yet. A child after fork begins with 0: channels of its parent mean
 * nothing to it. */
EXPORT uint32_t tiresias_generation(void);

/* A new channel between these ends, in a file that is made now if need be. NO_CHANNEL where the table is full. */
EXPORT uint32_t tiresias_open_channel(enum channel_kind kind, uint32_t number, const struct end *local,
                                      const struct end *remote);

/* The ends of a channel that was opened before they were known. */
EXPORT void tiresias_connect_channel(uint32_t channel, const struct end *local, const struct end *remote);

/* False in a child of vfork: it has descriptors of its own, but its memory is its parent's. Asks the kernel. Only
 * where there is a file. */
EXPORT bool tiresias_is_owner(void);

EXPORT void tiresias_close_channel(uint32_t channel);

EXPORT void tiresias_mark_channel(uint32_t channel, enum channel_flag flag);

EXPORT void tiresias_record(uint32_t channel, enum operation operation, unsigned flags, uint64_t asked, uint64_t done);

#endif
