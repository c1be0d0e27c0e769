#include "real.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

struct real real_table;

/* By memcpy: C has no conversion from a pointer to data to one to a function. */
static void find(void *where, const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    memcpy(where, &found, sizeof found);
}

#define FIND(name) find(&real_table.name, #name)

static void find_all(void) {
    FIND(calloc), FIND(realloc), FIND(free), FIND(posix_memalign), FIND(aligned_alloc), FIND(memalign);
    FIND(malloc_usable_size), FIND(malloc);
    FIND(mmap), FIND(munmap), FIND(mremap), FIND(madvise), FIND(mprotect);
    FIND(read), FIND(pread), FIND(readv), FIND(preadv), FIND(preadv2);
    FIND(recv), FIND(recvfrom), FIND(recvmsg), FIND(recvmmsg), FIND(getrandom);
    FIND(write), FIND(pwrite), FIND(writev), FIND(pwritev), FIND(pwritev2);
    FIND(send), FIND(sendto), FIND(sendmsg), FIND(sendmmsg);
    FIND(fread), FIND(fwrite);
}

/* dlsym may allocate: the functions are not there yet then (allocator.c). */
void real_find(void) {
    static __thread bool finding __attribute__((tls_model("initial-exec")));
    if (finding)
        return;
    finding = true;
    find_all();
    finding = false;
}
