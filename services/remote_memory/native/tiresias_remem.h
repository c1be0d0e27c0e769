/* Memory of a program whose pages are on donors and on the local disk while they are not resident.
 *
 *     double *weights = tiresias_remem_alloc(bytes);        zeros
 *     ...
 *     tiresias_remem_free(weights);
 *
 * Link with -ltiresias_remem. The program is started by
 *
 *     python -m tiresias.services.remote_memory.region run FILE -- PROGRAM
 *
 * which checks the configuration FILE and puts it in the environment; a program may name FILE itself by
 * tiresias_remem_open(). There is one region in a process. It begins at the first call, and ends with the process.
 *
 * All functions may be called by several threads at a time, and by no signal handler. Blocks are whole pages: the
 * functions are for large arrays. Other processes resolve the page faults: where these are killed, SIGBUS ends the
 * program. A child process that fork() makes does not have the region: it gets SIGSEGV where it touches it, and
 * allocates nothing there. A program that a process starts by exec may have a region of its own.
 *
 * Not for memory that devices write by themselves: registered with a network card or a GPU, io_uring, libaio. */
#ifndef TIRESIAS_REMEM_H
#define TIRESIAS_REMEM_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* Begin the region. file: its configuration; NULL: that of the environment. Returns whether the process has a region;
 * where it has none, a line on standard error has the reason. */
bool tiresias_remem_open(const char *file);

/* Allocate a block, which contains zeros. Returns NULL, with errno ENOMEM, where no run of pages is free, or there is no region. */
void *tiresias_remem_alloc(size_t bytes);

/* Change the size of a block, which may move it; what is added beyond its
 * usable size contains zeros. Returns NULL, with errno ENOMEM, where
 * no run of pages is free: the block is unchanged then. NULL for `block` allocates. */
void *tiresias_remem_realloc(void *block, size_t bytes);

/* Free a block: its memory, and its pages on donors and disk, may be used again. NULL has no effect. */
void tiresias_remem_free(void *block);

/* The bytes of a block: the requested ones, rounded up to pages. */
size_t tiresias_remem_usable_size(const void *block);

/* Whether an address is in the region. */
bool tiresias_remem_contains(const void *address);

/* Write the statistics as JSON, with a final zero. Returns their length, 0 without a region or where `size` is too small. */
size_t tiresias_remem_statistics(char *text, size_t size);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
