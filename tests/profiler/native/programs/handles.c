/* Threads that put keys into one table, find them, and take them out again: handles THREADS KEYS ROUNDS. Every key has a
 * place of its own as long as it is in. */
#define _GNU_SOURCE
#include "handles.h"
#include "pair.h"

#include <pthread.h>

static struct handles handles;
static uint64_t owners[HANDLES]; /* not atomic: a place belongs to one key at a time */
static int keys, rounds;

static uint64_t key(uint64_t thread, int number) {
    return (thread << 20 | (unsigned)number) << 6; /* like addresses: the low bits are the same */
}

static uint32_t put(uint64_t key) {
    uint32_t place = handles_take(&handles, key);
    must(place < HANDLES, "a free place");
    owners[place] = key;
    handles_publish(&handles, place, key);
    return place;
}

static void *use(void *thread) {
    uint32_t places[HANDLES];
    for (int round = 0; round < rounds; round++) {
        for (int each = 0; each < keys; each++)
            places[each] = put(key((uintptr_t)thread, each));
        for (int each = 0; each < keys; each++) {
            uint32_t place = handles_find(&handles, key((uintptr_t)thread, each));
            must(place == places[each] && owners[place] == key((uintptr_t)thread, each), "found");
            handles_forget(&handles, place);
            must(handles_find(&handles, key((uintptr_t)thread, each)) == NO_HANDLE, "forgotten");
        }
    }
    return NULL;
}

int main(int count, char **words) {
    must(count == 4, "arguments");
    int threads = atoi(words[1]);
    keys = atoi(words[2]), rounds = atoi(words[3]);
    pthread_t all[64];
    for (int each = 0; each < threads; each++)
        must(pthread_create(&all[each], NULL, use, (void *)(uintptr_t)(each + 1)) == 0, "thread");
    for (int each = 0; each < threads; each++)
        pthread_join(all[each], NULL);
}
