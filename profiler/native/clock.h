/* The clock of the records: the processor's counter where it runs at one rate everywhere, else CLOCK_MONOTONIC in ns.
 * Reading the counter takes a fraction of what clock_gettime takes, and a record is taken at every post. */
#ifndef TIRESIAS_CLOCK_H
#define TIRESIAS_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

struct instant {
    uint64_t ticks, monotonic;
};

extern bool clock_counts; /* the processor's counter is in use */

/* Choose the clock and take the first of the two instants that its rate is computed from. Once, before any record. */
void clock_start(void);

/* One moment on both clocks. */
struct instant clock_instant(void);

/* Ticks per second, the better the longer the process runs (0: ticks are ns). Takes 0.2 ms at most. */
uint64_t clock_rate(void);

uint64_t clock_gettime_ns(clockid_t clock);

static inline uint64_t clock_ticks(void) {
#if defined(__x86_64__)
    return __rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return clock_gettime_ns(CLOCK_MONOTONIC);
#endif
}

static inline uint64_t clock_now(void) {
    return clock_counts ? clock_ticks() : clock_gettime_ns(CLOCK_MONOTONIC);
}

#endif
