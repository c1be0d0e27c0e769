/* page_map STEPS SEED: random operations on a page map against an array with a number for each page. Prints "same". */
#include "checked.h"
#include "page_map.h"

enum { PAGES = 700, NONE = 0 };

static int owner[PAGES], first_of[PAGES * 100], is_block[PAGES * 100]; /* numbers of runs; what a run is */

static bool free_run(size_t first, size_t count) {
    if (first + count > PAGES)
        return false;
    for (size_t at = first; at < first + count; at++)
        if (owner[at] != NONE)
            return false;
    return true;
}

/* The first run of free pages at that alignment. */
static size_t expected(size_t count, size_t alignment, size_t phase) {
    for (size_t first = phase; first < PAGES; first += alignment)
        if (free_run(first, count))
            return first;
    return NO_PAGE;
}

static size_t length(size_t first) {
    size_t at = first;
    if (owner[first] == NONE || !is_block[owner[first]] || first_of[owner[first]] != (int)first)
        return 0;
    while (at < PAGES && owner[at] == owner[first])
        at++;
    return at - first;
}

static void check(const struct page_map *map) {
    for (size_t at = 0; at < PAGES; at++)
        if (page_map_length(map, at) != length(at))
            wrong("page %zu: %zu pages, expected %zu", at, page_map_length(map, at), length(at));
}

static void take(struct page_map *map, int number) {
    size_t count = 1 + (size_t)rand() % 90, alignment = (size_t)1 << rand() % 6, phase = (size_t)rand() % alignment;
    bool block = rand() % 2;
    size_t due = expected(count, alignment, phase), got = page_map_take(map, count, alignment, phase, block);
    if (got != due)
        wrong("%zu pages at %zu, expected %zu", count, got, due);
    for (size_t at = got; got != NO_PAGE && at < got + count; at++)
        owner[at] = number;
    first_of[number] = (int)got, is_block[number] = block;
}

static void extend(struct page_map *map) {
    size_t at = (size_t)rand() % PAGES, end = at, count = 1 + (size_t)rand() % 20;
    while (end < PAGES && owner[at] != NONE && owner[end] == owner[at])
        end++;
    if (owner[at] == NONE)
        return;
    bool due = free_run(end, count);
    if (page_map_extend(map, end, count) != due)
        wrong("%zu pages after %zu", count, end);
    for (size_t each = end; due && each < end + count; each++)
        owner[each] = owner[at];
}

/* A whole run, or a part of a mapping; the rest of that may be two runs then, which begin no block. */
static void give(struct page_map *map) {
    size_t first = (size_t)rand() % PAGES, count = 1;
    int number = owner[first];
    if (number == NONE)
        return;
    if (is_block[number])
        while (first > 0 && owner[first - 1] == number)
            first--;
    while (first + count < PAGES && owner[first + count] == number && (is_block[number] || rand() % 8))
        count++;
    page_map_give(map, first, count);
    for (size_t at = first; at < first + count; at++)
        owner[at] = NONE;
}

int main(int count, char **words) {
    struct page_map map;
    if (count != 3 || !page_map_begin(&map, PAGES))
        return 2;
    srand((unsigned)atoi(words[2]));
    for (int step = 1; step <= atoi(words[1]) && step < PAGES * 100; step++) {
        int what = rand() % 5;
        if (what < 2)
            take(&map, step);
        else if (what == 2)
            extend(&map);
        else
            give(&map);
        check(&map);
    }
    page_map_end(&map);
    printf("same\n");
    return 0;
}
