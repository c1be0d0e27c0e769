#include "handles.h"

enum { PROBES = 64 };

/* What a place's key is besides keys: never used, being filled, left. No address and no packed key is so small. */
enum { FREE, BUSY, GONE };

static uint32_t place_of(uint64_t key, unsigned probe) {
    return ((uint32_t)(key * 0x9E3779B97F4A7C15u >> 40) + probe) % HANDLES;
}

uint32_t handles_find(struct handles *handles, uint64_t key) {
    for (unsigned probe = 0; probe < PROBES; probe++) {
        uint32_t place = place_of(key, probe);
        uint64_t found = atomic_load_explicit(&handles->keys[place], memory_order_acquire);
        if (found == key)
            return place;
        if (found == FREE)
            break;
    }
    return NO_HANDLE;
}

uint32_t handles_take(struct handles *handles, uint64_t key) {
    for (unsigned probe = 0; probe < PROBES; probe++) {
        uint32_t place = place_of(key, probe);
        uint64_t found = handles->keys[place];
        if ((found == FREE || found == GONE) && atomic_compare_exchange_strong(&handles->keys[place], &found, BUSY))
            return place;
    }
    return NO_HANDLE;
}

void handles_publish(struct handles *handles, uint32_t place, uint64_t key) {
    atomic_store_explicit(&handles->keys[place], key, memory_order_release);
}

void handles_forget(struct handles *handles, uint32_t place) {
    handles->keys[place] = GONE;
}
