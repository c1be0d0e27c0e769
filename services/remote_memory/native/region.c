#include "region.h"
#include "handler.h"
#include "page_map.h"
#include "places.h"
#include "system.h"
#include "userfault.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, LINE = 4096, UNTRIED = 0, HERE = 1, ABSENT = 2 };

static struct {
    atomic_int state;
    char *base; /* stays in child processes, whose frees of inherited blocks have no effect */
    _Atomic size_t bytes; /* 0 until `base` is there */
    struct page_map map;
    struct handler handler;
    int faults, place;
    ino_t faults_file;
} region = {.faults = -1, .place = -1};

/* Taken in this order. `exchange` is held while the handler answers, `allocation` for the page map alone. */
static pthread_mutex_t beginning = PTHREAD_MUTEX_INITIALIZER, exchange = PTHREAD_MUTEX_INITIALIZER,
                       allocation = PTHREAD_MUTEX_INITIALIZER;

static size_t pages_of(size_t bytes) {
    return bytes / PAGE + (bytes % PAGE != 0);
}

static size_t page_at(const void *address) {
    return (size_t)((const char *)address - region.base) / PAGE;
}

size_t region_least(void) {
    static _Atomic size_t least; /* 0: not read yet */
    if (!least) {
        const char *text = getenv("TIRESIAS_REMEM_FILE") ? getenv("TIRESIAS_REMEM_LEAST") : NULL;
        size_t found = text ? strtoull(text, NULL, 10) : 0;
        least = found ? found : SIZE_MAX;
    }
    return least;
}

/* ---- begin ---- */

/* Between two pages without access: no other mapping becomes a part of it, and no run of pages goes beyond its end. */
static char *map(int memory, size_t bytes) {
    char *reserved = system_map(NULL, bytes + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
    if (reserved == MAP_FAILED)
        return NULL;
    char *found = system_map(reserved + PAGE, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory);
    return found == MAP_FAILED || madvise(found, bytes, MADV_DONTFORK) != 0 ? NULL : found;
}

static bool make(size_t pages, int *memory) {
    const char *reason = "memory";
    size_t bytes = pages * PAGE;
    region.faults = system_moved_up(userfault_open(&reason));
    *memory = region.faults < 0 ? -1 : system_memory_file(bytes);
    char *base = *memory < 0 ? NULL : map(*memory, bytes);
    if (base && userfault_register(region.faults, base, bytes) && page_map_begin(&region.map, pages)) {
        region.base = base;
        region.bytes = bytes;
        region.faults_file = system_file_of(region.faults);
        return true;
    }
    system_report("%s: %s; it goes on without a region", reason, strerror(errno));
    return false;
}

/* Give the handler the descriptors, and wait until it resolves faults. */
static bool hand_over(int memory) {
    char line[LINE];
    int size = snprintf(line, sizeof line, "%zu\n", (size_t)(uintptr_t)region.base);
    int descriptors[] = {region.faults, memory};
    return handler_send(&region.handler, line, (size_t)size, descriptors, 2) &&
           handler_line(&region.handler, line, sizeof line) && handler_watch(&region.handler);
}

static bool set_up(const char *file) {
    char line[LINE];
    int memory = -1;
    bool done = handler_start(&region.handler, file) && handler_line(&region.handler, line, sizeof line);
    if (!done)
        system_report("the process of its pages did not start; it goes on without a region");
    else if ((done = make(strtoull(line, NULL, 10), &memory)) && !(done = hand_over(memory)))
        system_report("the process of its pages ended; it goes on without a region");
    if (memory >= 0)
        close(memory);
    return done;
}

/* After a failure the range stays reserved, and is not used. */
static void drop(void) {
    handler_close(&region.handler);
    page_map_end(&region.map);
    region.bytes = 0;
    region.base = NULL;
    if (region.faults >= 0)
        close(region.faults);
    region.faults = -1;
    places_leave(&region.place);
}

bool region_begin(const char *file) {
    if (region.state != UNTRIED)
        return region.state == HERE;
    int kept = errno, cancellation;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellation);
    pthread_mutex_lock(&beginning);
    if (region.state == UNTRIED) {
        file = file ? file : getenv("TIRESIAS_REMEM_FILE");
        bool done = file && places_take(&region.place) && set_up(file);
        if (!done)
            drop();
        region.state = done ? HERE : ABSENT;
    }
    pthread_mutex_unlock(&beginning);
    pthread_setcancelstate(cancellation, NULL);
    errno = kept;
    return region.state == HERE;
}

/* ---- where ---- */

bool region_holds(const void *address) {
    return (size_t)((const char *)address - region.base) < region.bytes;
}

bool region_meets(const void *address, size_t bytes) {
    const char *first = address;
    return region.bytes && first < region.base + region.bytes && bytes > 0 &&
           (first >= region.base || bytes > (size_t)(region.base - first));
}

bool region_contains(const void *address, size_t bytes) {
    return region_holds(address) && bytes <= region.bytes - (size_t)((const char *)address - region.base);
}

void *region_part(void *address, size_t bytes, size_t *part) {
    char *first = address, *end = first + bytes;
    char *from = first > region.base ? first : region.base;
    char *to = end < region.base + region.bytes ? end : region.base + region.bytes;
    *part = (size_t)(to - from);
    return from;
}

/* ---- the handler ---- */

/* What the handler did not answer is lost: the program must not go on with zeros. */
static void end(void) {
    system_report("the process of its pages has ended");
    kill(getpid(), SIGBUS);
}

/* A thread that is cancelled in free() would leave the lock taken. */
static bool ask(const void *bytes, size_t size, char *line, size_t line_size) {
    int cancellation;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellation);
    pthread_mutex_lock(&exchange);
    bool unchanged = system_file_of(region.handler.control) == region.handler.file;
    bool done = unchanged && handler_send(&region.handler, bytes, size, NULL, 0) && handler_line(&region.handler, line, line_size);
    pthread_mutex_unlock(&exchange);
    pthread_setcancelstate(cancellation, NULL);
    if (!done)
        end();
    return done;
}

size_t region_request(char request, char *text, size_t size) {
    char line[LINE];
    if (region.state != HERE || !ask(&request, 1, line, sizeof line) || strlen(line) >= size)
        return 0;
    strcpy(text, line);
    return strlen(line);
}

/* A request of region_messages.py. */
static bool forget(size_t first, size_t count) {
    char line[LINE], request[1 + 2 * sizeof(uint64_t)] = {'f'};
    uint64_t range[] = {first, count};
    memcpy(request + 1, range, sizeof range);
    return ask(request, sizeof request, line, sizeof line);
}

/* ---- blocks ---- */

static void *take(size_t bytes, size_t alignment, bool block) {
    if (!bytes || (region.state != HERE && !region_begin(NULL)) || bytes > region.bytes)
        return NULL;
    size_t step = alignment > PAGE ? alignment / PAGE : 1, base = (uintptr_t)region.base / PAGE;
    pthread_mutex_lock(&allocation);
    size_t page = page_map_take(&region.map, pages_of(bytes), step, (step - base % step) % step, block);
    pthread_mutex_unlock(&allocation);
    return page == NO_PAGE ? NULL : region.base + page * PAGE;
}

void *region_take(size_t bytes, size_t alignment) {
    return take(bytes, alignment, true);
}

void *region_take_mapping(size_t bytes) {
    return take(bytes, 1, false);
}

bool region_is_block(const void *address) {
    return region_holds(address) && (uintptr_t)address % PAGE == 0 && page_map_is_block(&region.map, page_at(address));
}

size_t region_length(const void *block) {
    if (!region_is_block(block))
        return 0;
    pthread_mutex_lock(&allocation);
    size_t pages = page_map_length(&region.map, page_at(block));
    pthread_mutex_unlock(&allocation);
    return pages * PAGE;
}

bool region_resize(void *block, size_t old, size_t bytes) {
    size_t had = pages_of(old), needed = pages_of(bytes), first = page_at(block);
    if (needed <= had) {
        if (needed < had)
            region_give((char *)block + needed * PAGE, (had - needed) * PAGE);
        return true;
    }
    if (region.state != HERE)
        return false;
    pthread_mutex_lock(&allocation);
    bool done = page_map_extend(&region.map, first + had, needed - had);
    pthread_mutex_unlock(&allocation);
    return done;
}

/* The pages are zeros before another thread can take them. */
void region_give(void *address, size_t bytes) {
    size_t first = page_at(address), count = pages_of(bytes);
    int kept = errno;
    if (count && region.state == HERE && forget(first, count)) {
        pthread_mutex_lock(&allocation);
        page_map_give(&region.map, first, count);
        pthread_mutex_unlock(&allocation);
    }
    errno = kept;
}

void region_clear(void *address, size_t bytes) {
    int kept = errno;
    if (bytes && region.state == HERE)
        forget(page_at(address), pages_of(bytes));
    errno = kept;
}

/* ---- fork and exit ---- */

static void before_fork(void) {
    pthread_mutex_lock(&beginning), pthread_mutex_lock(&exchange), pthread_mutex_lock(&allocation);
}

static void after_fork(void) {
    pthread_mutex_unlock(&allocation), pthread_mutex_unlock(&exchange), pthread_mutex_unlock(&beginning);
}

/* No mapping of the child may take the place of the region: what touches it gets SIGSEGV. */
static void in_child(void) {
    if (region.state == HERE) {
        system_map(region.base, region.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1);
        handler_close(&region.handler);
        if (system_file_of(region.faults) == region.faults_file)
            close(region.faults);
        places_leave(&region.place);
    }
    region.state = ABSENT;
    after_fork();
}

__attribute__((constructor)) static void begin_process(void) {
    pthread_atfork(before_fork, after_fork, in_child);
}

/* The handler writes its line before the program ends; where that ends otherwise, after it. Pages are served until then. */
__attribute__((destructor)) static void end_process(void) {
    char line[LINE];
    region_request('e', line, sizeof line);
}
