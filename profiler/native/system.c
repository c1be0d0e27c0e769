#include "system.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 65536 /* no processor's is larger */, STEP = 1 << 20, TRIES = 100 };

static void *page = MAP_FAILED;

void system_read(const char *path, char *buffer, size_t size) {
    long fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    long got = fd < 0 ? 0 : syscall(SYS_read, fd, buffer, size - 1);
    buffer[got < 0 ? 0 : got] = '\0';
    if (fd >= 0)
        syscall(SYS_close, fd);
}

bool system_exists(const char *path) {
    return syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0;
}

void system_folder(const char *path) {
    syscall(SYS_mkdirat, AT_FDCWD, path, 0700);
}

static bool write_zeros(long fd, size_t at, size_t size) {
    static const char zeros[STEP];
    return syscall(SYS_pwrite64, fd, zeros, size, at) == (long)size;
}

/* Many kernels let a signal interrupt it on tmpfs, and undo it: hence small steps, and several tries. */
static bool reserve_step(long fd, size_t at, size_t size) {
    long failed = -1;
    for (int try = 0; failed && try < TRIES; try++) {
        failed = syscall(SYS_fallocate, fd, 0, (long)at, (long)size);
        if (failed && errno == EOPNOTSUPP)
            return write_zeros(fd, at, size);
        if (failed && errno != EINTR)
            return false;
    }
    return !failed;
}

/* Every block is there before the mapping is used: a full disk would be SIGBUS, a limit on file sizes SIGXFSZ. */
static bool reserve(long fd, size_t size) {
    struct rlimit limit;
    bool fits = getrlimit(RLIMIT_FSIZE, &limit) == 0 && size <= limit.rlim_cur;
    for (size_t at = 0; fits && at < size; at += STEP)
        fits = reserve_step(fd, at, size - at < STEP ? size - at : STEP);
    return fits;
}

void *system_new_file(const char *path, size_t size, bool *taken) {
    long fd = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    *taken = fd < 0 && errno == EEXIST;
    if (fd < 0)
        return NULL;
    void *map = reserve(fd, size) ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, (int)fd, 0) : MAP_FAILED;
    if (map == MAP_FAILED)
        syscall(SYS_unlinkat, AT_FDCWD, path, 0);
    syscall(SYS_close, fd);
    return map == MAP_FAILED ? NULL : map;
}

static void wipe(void) {
    memset(page, 0, PAGE);
}

/* The kernel wipes it even for children that pthread_atfork does not see; before Linux 4.14 it does not. */
void *system_page(void) {
    page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED || (madvise(page, PAGE, MADV_WIPEONFORK) != 0 && pthread_atfork(NULL, NULL, wipe) != 0))
        return NULL;
    return page;
}
