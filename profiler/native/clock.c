#include "clock.h"

#include "system.h"

#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/prctl.h>
#endif

enum { READINGS = 3, SHORTEST_NS = 200000 };

bool clock_counts;
static struct instant origin;

uint64_t clock_gettime_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#if defined(__x86_64__)
/* Invariant, trusted by the kernel (which watches that all processors agree), and not forbidden to this process. */
static bool counter_is_steady(void) {
    unsigned a, b, c, d;
    if (!__get_cpuid(0x80000007, &a, &b, &c, &d) || !(d & 1u << 8))
        return false;
    char source[16] = "";
    system_read("/sys/devices/system/clocksource/clocksource0/current_clocksource", source, sizeof source);
    int allowed = 0;
    return strncmp(source, "tsc", 3) == 0 && prctl(PR_GET_TSC, &allowed) == 0 && allowed == PR_TSC_ENABLE;
}
#elif defined(__aarch64__)
static bool counter_is_steady(void) {
    return true;
}
#else
static bool counter_is_steady(void) {
    return false;
}
#endif

/* The tightest of some readings: one that was interrupted between its two clocks would spoil the rate. */
struct instant clock_instant(void) {
    struct instant best = {0, 0};
    uint64_t tightest = UINT64_MAX;
    for (int reading = 0; reading < READINGS; reading++) {
        uint64_t before = clock_now(), monotonic = clock_gettime_ns(CLOCK_MONOTONIC), after = clock_now();
        if (after - before < tightest) {
            tightest = after - before;
            best = (struct instant){before + tightest / 2, monotonic};
        }
    }
    return best;
}

void clock_start(void) {
    clock_counts = counter_is_steady();
    origin = clock_instant();
}

uint64_t clock_rate(void) {
    if (!clock_counts)
        return 0;
#if defined(__aarch64__)
    uint64_t frequency;
    __asm__ volatile("mrs %0, cntfrq_el0" : "=r"(frequency));
    return frequency;
#else
    while (clock_gettime_ns(CLOCK_MONOTONIC) - origin.monotonic < SHORTEST_NS)
        ;
    struct instant now = clock_instant();
    return (uint64_t)((double)(now.ticks - origin.ticks) * 1e9 / (double)(now.monotonic - origin.monotonic));
#endif
}
