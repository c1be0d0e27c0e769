/* What the programs share. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096 };

#define wrong(...) (fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), _exit(1))

static inline size_t pages(size_t bytes) {
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

/* Whether memory is in the region; false without the preloaded library. */
static inline bool contains(const void *memory) {
    static bool (*found)(const void *);
    if (!found) {
        void *symbol = dlsym(RTLD_DEFAULT, "tiresias_remem_contains");
        if (!symbol)
            return false;
        memcpy(&found, &symbol, sizeof found);
    }
    return found(memory);
}
