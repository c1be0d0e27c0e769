#include "page_map.h"
#include "system.h"

#include <string.h>

enum { BITS = 64, MAPS = 3 };

static size_t words(size_t pages) {
    return (pages + BITS - 1) / BITS;
}

bool page_map_begin(struct page_map *map, size_t pages) {
    *map = (struct page_map){.pages = pages};
    map->used = system_memory(MAPS * words(pages) * sizeof *map->used);
    if (!map->used)
        return false;
    map->starts = map->used + words(pages);
    map->blocks = map->starts + words(pages);
    return true;
}

void page_map_end(struct page_map *map) {
    if (map->used)
        system_unmap(map->used, MAPS * words(map->pages) * sizeof *map->used);
    *map = (struct page_map){0};
}

static bool has(const uint64_t *bits, size_t at) {
    return __atomic_load_n(&bits[at / BITS], __ATOMIC_RELAXED) >> at % BITS & 1;
}

static void fill(uint64_t *bits, size_t first, size_t count, bool value) {
    for (size_t at = first, end = first + count; at < end;) {
        size_t in_word = BITS - at % BITS < end - at ? BITS - at % BITS : end - at;
        uint64_t mask = (in_word == BITS ? UINT64_MAX : (UINT64_C(1) << in_word) - 1) << at % BITS;
        uint64_t word = value ? bits[at / BITS] | mask : bits[at / BITS] & ~mask;
        __atomic_store_n(&bits[at / BITS], word, __ATOMIC_RELAXED);
        at += in_word;
    }
}

/* The words of a search: taken pages, free ones, or those that end a block. */
enum sought { TAKEN, FREE, BOUNDARY };

static uint64_t word_of(const struct page_map *map, size_t number, enum sought sought) {
    uint64_t used = map->used[number];
    return sought == TAKEN ? used : sought == FREE ? ~used : ~used | map->starts[number];
}

static size_t next(const struct page_map *map, size_t from, size_t end, enum sought sought) {
    while (from < end) {
        uint64_t word = word_of(map, from / BITS, sought) >> from % BITS;
        if (word) {
            from += (size_t)__builtin_ctzll(word);
            return from < end ? from : end;
        }
        from = (from / BITS + 1) * BITS;
    }
    return end;
}

static size_t aligned(size_t page, size_t alignment, size_t phase) {
    return page + (phase + alignment - page % alignment) % alignment;
}

size_t page_map_take(struct page_map *map, size_t count, size_t alignment, size_t phase, bool block) {
    size_t page = map->lowest = next(map, map->lowest, map->pages, FREE);
    for (size_t taken;; page = next(map, taken, map->pages, FREE)) {
        page = aligned(page, alignment, phase);
        if (page >= map->pages || count > map->pages - page)
            return NO_PAGE;
        taken = next(map, page, page + count, TAKEN);
        if (taken == page + count)
            break;
    }
    fill(map->used, page, count, true);
    fill(map->starts, page, 1, true);
    fill(map->blocks, page, 1, block);
    return page;
}

bool page_map_extend(struct page_map *map, size_t first, size_t count) {
    if (first > map->pages || count > map->pages - first || next(map, first, first + count, TAKEN) != first + count)
        return false;
    fill(map->used, first, count, true);
    return true;
}

void page_map_give(struct page_map *map, size_t first, size_t count) {
    size_t end = first + count;
    fill(map->used, first, count, false);
    fill(map->starts, first, count, false);
    fill(map->blocks, first, count, false);
    if (end < map->pages && has(map->used, end))
        fill(map->starts, end, 1, true);
    map->lowest = first < map->lowest ? first : map->lowest;
}

bool page_map_is_block(const struct page_map *map, size_t page) {
    return page < map->pages && has(map->blocks, page);
}

size_t page_map_length(const struct page_map *map, size_t first) {
    return !page_map_is_block(map, first) ? 0 : next(map, first + 1, map->pages, BOUNDARY) - first;
}
