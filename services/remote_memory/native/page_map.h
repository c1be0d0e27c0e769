/* Which pages of a region are taken, and where blocks begin. Outside of the region, so that no call touches its pages. */
#ifndef TIRESIAS_PAGE_MAP_H
#define TIRESIAS_PAGE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NO_PAGE SIZE_MAX

/* A run of pages is a block, which a program frees by its address, or a mapping, of which it unmaps any part. A page that
 * follows a free one, and is taken, begins a run. */
struct page_map {
    size_t pages;
    size_t lowest; /* no page before it is free */
    uint64_t *used, *starts, *blocks; /* a bit for each page: taken, begins a run, begins a block */
};

bool page_map_begin(struct page_map *map, size_t pages);
void page_map_end(struct page_map *map);

/* Take `count` pages of which the first is `phase` modulo `alignment`. Returns the first one, or NO_PAGE. */
size_t page_map_take(struct page_map *map, size_t count, size_t alignment, size_t phase, bool block);

/* Take pages that follow a run, for this run. */
bool page_map_extend(struct page_map *map, size_t first, size_t count);

void page_map_give(struct page_map *map, size_t first, size_t count);

/* Whether a block begins there. Without a lock for blocks that no other thread takes or gives. */
bool page_map_is_block(const struct page_map *map, size_t page);

/* How many pages the block has that begins there; 0 where none begins. */
size_t page_map_length(const struct page_map *map, size_t first);

#endif
