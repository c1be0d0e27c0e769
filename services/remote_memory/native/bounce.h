/* Memory outside of the region, through which system calls read and write it.
 *
 * Without a privilege the kernel reports no faults of system calls: these fail with EFAULT where a page is not resident.
 * And a device that writes a page by itself (O_DIRECT) must not write one that leaves in the meantime. */
#ifndef TIRESIAS_BOUNCE_H
#define TIRESIAS_BOUNCE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Page-aligned memory of the C library, or NULL with errno. */
void *bounce_new(size_t bytes);
void bounce_free(void *memory);

/* One call with other memory. done: the bytes of the calls before. */
typedef ssize_t bounce_call(void *call, void *memory, size_t bytes, size_t done);

/* Fill `to` by calls; by more than one where `whole`. Returns what one call would return. */
ssize_t bounce_in(bounce_call *one, void *call, char *to, size_t bytes, bool whole);

/* Pass `from` to calls, until one takes less than it gets. */
ssize_t bounce_out(bounce_call *one, void *call, const char *from, size_t bytes);

#endif
