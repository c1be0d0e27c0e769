/* The region of this process: it begins when it is first needed. Sizes are in bytes, and are rounded up to pages. */
#ifndef TIRESIAS_REGION_H
#define TIRESIAS_REGION_H

#include <stdbool.h>
#include <stddef.h>

/* Blocks from this size on are meant for the region; SIZE_MAX where the environment names no configuration. */
size_t region_least(void);

/* Begin the region, with the environment's configuration for NULL. Returns whether there is one. */
bool region_begin(const char *file);

/* Whether an address was in the region of this process or of its parent. */
bool region_holds(const void *address);

/* Whether a range has bytes of the region; whether all of its bytes are there. */
bool region_meets(const void *address, size_t bytes);
bool region_contains(const void *address, size_t bytes);

/* Take a block of zeros at an address that is a multiple of `alignment`, a power of two; or a mapping, of which any part
 * may be given. Returns NULL where no such run of pages is free, or without a region. Begins the region that the
 * environment names. */
void *region_take(size_t bytes, size_t alignment);
void *region_take_mapping(size_t bytes);

/* Whether a block begins there. Other allocators have their blocks in mappings. */
bool region_is_block(const void *address);

/* The bytes of the block that begins there; 0 where none does. */
size_t region_length(const void *block);

/* Change the size of a block or mapping in place. Returns false where pages that follow are taken. */
bool region_resize(void *block, size_t old, size_t bytes);

/* Give pages back. In a child process, which does not have them, without effect. */
void region_give(void *address, size_t bytes);

/* Pages that stay taken contain zeros from now on. */
void region_clear(void *address, size_t bytes);

/* The part of a range that is in the region: its first byte and the bytes. */
void *region_part(void *address, size_t bytes, size_t *part);

/* Have the handler answer a request of one letter. Returns the length of the answer, 0 where it does not fit or there is none. */
size_t region_request(char request, char *text, size_t size);

#endif
