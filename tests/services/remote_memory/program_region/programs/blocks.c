/* blocks THREADS STEPS SEED: random operations of threads on large blocks and mappings, each byte checked against a pattern.
 * Prints "same", and how many blocks and mappings were in the region. */
#define _GNU_SOURCE
#include "checked.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>

enum { SLOTS = 12, SMALLEST = 1 << 10, LARGEST = 1 << 20 };

struct slot {
    unsigned char *memory;
    size_t size;
    unsigned seed;
    int mapped;
};

static int steps;
static atomic_int in_region[2];

static void fill(struct slot *slot, size_t from, unsigned seed) {
    slot->seed = seed;
    for (size_t at = from; at < slot->size; at++)
        slot->memory[at] = (unsigned char)(seed + at * 7 + at / PAGE);
}

static void check(const struct slot *slot, size_t size) {
    for (size_t at = 0; at < size; at++)
        if (slot->memory[at] != (unsigned char)(slot->seed + at * 7 + at / PAGE))
            wrong("byte %zu of %zu is %d", at, slot->size, slot->memory[at]);
}

static void zeros(const unsigned char *memory, size_t size) {
    for (size_t at = 0; at < size; at++)
        if (memory[at])
            wrong("byte %zu of %zu is %d and not 0", at, size, memory[at]);
}

static size_t random_size(unsigned *seed) {
    return SMALLEST + (size_t)rand_r(seed) % (LARGEST - SMALLEST);
}

static void begin_block(struct slot *slot, unsigned *seed) {
    size_t alignment = (size_t)64 << rand_r(seed) % 15;
    int kind = rand_r(seed) % 5;
    void *aligned = NULL;
    slot->size = slot->size / 8 * 8;
    if (kind == 0)
        slot->memory = malloc(slot->size);
    else if (kind == 1)
        zeros(slot->memory = calloc(slot->size / 8, 8), slot->size);
    else if (kind == 2 && posix_memalign(&aligned, alignment, slot->size) == 0)
        slot->memory = aligned;
    else if (kind == 3)
        slot->memory = aligned_alloc(alignment, slot->size = (slot->size + alignment - 1) / alignment * alignment);
    else
        slot->memory = memalign(alignment, slot->size);
    if ((kind >= 2 && (size_t)slot->memory % alignment) || malloc_usable_size(slot->memory) < slot->size)
        wrong("a block of %zu bytes at %p", slot->size, (void *)slot->memory);
}

static void begin(struct slot *slot, unsigned *seed) {
    *slot = (struct slot){.size = random_size(seed), .mapped = rand_r(seed) % 3 == 0};
    if (slot->mapped) {
        slot->memory = mmap(NULL, slot->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        zeros(slot->memory, pages(slot->size));
    } else {
        begin_block(slot, seed);
    }
    if (!slot->memory || slot->memory == MAP_FAILED)
        wrong("no memory: %s", strerror(errno));
    in_region[slot->mapped] += contains(slot->memory);
    fill(slot, 0, (unsigned)rand_r(seed));
}

static void end(struct slot *slot) {
    check(slot, slot->size);
    if (slot->mapped && munmap(slot->memory, slot->size) != 0)
        wrong("munmap: %s", strerror(errno));
    if (!slot->mapped)
        free(slot->memory);
    slot->memory = NULL;
}

static void resize(struct slot *slot, unsigned *seed) {
    size_t size = random_size(seed), kept = size < slot->size ? size : slot->size;
    void *moved = slot->mapped ? mremap(slot->memory, slot->size, size, MREMAP_MAYMOVE) : realloc(slot->memory, size);
    if (!moved || moved == MAP_FAILED)
        wrong("resize: %s", strerror(errno));
    slot->memory = moved;
    if (slot->mapped && pages(size) > pages(slot->size))
        zeros(slot->memory + pages(slot->size), pages(size) - pages(slot->size));
    slot->size = kept;
    check(slot, kept);
    slot->size = size;
    fill(slot, kept, slot->seed);
}

/* A part of a mapping becomes zeros, or is unmapped: the rest stays. */
static void cut(struct slot *slot, unsigned *seed) {
    size_t count = pages(slot->size) / PAGE, first = (size_t)rand_r(seed) % count, size = (count - first) / 2 * PAGE;
    if (madvise(slot->memory + first * PAGE, size, MADV_DONTNEED) != 0)
        wrong("madvise: %s", strerror(errno));
    zeros(slot->memory + first * PAGE, size);
    for (size_t at = first * PAGE; at < first * PAGE + size && at < slot->size; at++)
        slot->memory[at] = (unsigned char)(slot->seed + at * 7 + at / PAGE);
    check(slot, slot->size);
    if (count > 1 && munmap(slot->memory + (count - 1) * PAGE, PAGE) != 0)
        wrong("munmap: %s", strerror(errno));
    slot->size = count > 1 && slot->size > (count - 1) * PAGE ? (count - 1) * PAGE : slot->size;
    check(slot, slot->size);
}

static void *work(void *argument) {
    unsigned seed = *(unsigned *)argument;
    struct slot slots[SLOTS] = {0};
    for (int step = 0; step < steps; step++) {
        struct slot *slot = &slots[rand_r(&seed) % SLOTS];
        int what = rand_r(&seed) % 4;
        if (!slot->memory)
            begin(slot, &seed);
        else if (what == 0)
            resize(slot, &seed);
        else if (what == 1 && slot->mapped)
            cut(slot, &seed);
        else if (what == 2)
            check(slot, slot->size);
        else
            end(slot);
    }
    for (int at = 0; at < SLOTS; at++)
        if (slots[at].memory)
            end(&slots[at]);
    return NULL;
}

int main(int count, char **words) {
    pthread_t threads[64];
    unsigned seeds[64];
    if (count != 4)
        return 2;
    steps = atoi(words[2]);
    for (int at = 0; at < atoi(words[1]); at++) {
        seeds[at] = (unsigned)atoi(words[3]) + (unsigned)at;
        pthread_create(&threads[at], NULL, work, &seeds[at]);
    }
    for (int at = 0; at < atoi(words[1]); at++)
        pthread_join(threads[at], NULL);
    printf("same %d %d\n", in_region[0], in_region[1]);
    return 0;
}
