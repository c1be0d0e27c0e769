/* Preloaded into a test: at the n-th call that touches a file, the process dies or the call fails.
 *
 * fault_arm(n, action, lasting, log) counts from there on; n = 0 only counts. action: KILL, TORN (a write writes its first half,
 * then the process dies), or an errno that the call gets; lasting: and every later one too. log: a descriptor that gets a line
 * "call path" for each, or -1. Standard input, output and error are left alone. fault_count() returns the number of calls.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { KILL = -1, TORN = -2 };

static atomic_long calls;
static long at;
static int action, lasting, armed, journal = -1;

void fault_arm(long n, int what, int on, int log)
{
    at = n, action = what, lasting = on, journal = log, armed = 1;
    atomic_store(&calls, 0);
}

long fault_count(void)
{
    armed = 0;
    return atomic_load(&calls);
}

static void die(void)
{
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

static void note(const char *call, int fd, const char *path)
{
    char link[64], name[4096] = "";
    if (fd >= 0) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t size = readlink(link, name, sizeof name - 1);
        name[size > 0 ? size : 0] = 0;
    }
    dprintf(journal, "%s %s%s%s\n", call, path && path[0] == '/' ? "" : name, path && fd >= 0 ? "/" : "", path ? path : "");
}

/* What the call gets: 0 to go on, an errno, or TORN. */
static int fault(const char *call, int fd, const char *path)
{
    if (!armed || (!path && fd <= 2) || fd == journal)
        return 0;
    if (journal >= 0)
        note(call, fd, path);
    long n = atomic_fetch_add(&calls, 1) + 1;
    if (!at || (lasting ? n < at : n != at))
        return 0;
    if (action == KILL || (action == TORN && strcmp(call, "write")))
        die();
    return action;
}

#define REAL(name, ...) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))(__VA_ARGS__)
#define FAIL_OR(call, fd, path, real) \
    int error = fault(call, fd, path); \
    return error ? (errno = error, -1) : real

static ssize_t torn(int fd, const void *data, size_t size)
{
    REAL(write, fd, data, size / 2);
    die();
    return -1;
}

ssize_t write(int fd, const void *data, size_t size)
{
    int error = fault("write", fd, NULL);
    if (error == TORN)
        return torn(fd, data, size);
    return error ? (errno = error, -1) : REAL(write, fd, data, size);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t where) { FAIL_OR("pwrite", fd, NULL, REAL(pwrite64, fd, data, size, where)); }
ssize_t pread64(int fd, void *data, size_t size, off64_t where) { FAIL_OR("pread", fd, NULL, REAL(pread64, fd, data, size, where)); }
ssize_t preadv64(int fd, const struct iovec *parts, int number, off64_t where) { FAIL_OR("pread", fd, NULL, REAL(preadv64, fd, parts, number, where)); }
ssize_t preadv64v2(int fd, const struct iovec *parts, int number, off64_t where, int flags) { FAIL_OR("pread", fd, NULL, REAL(preadv64v2, fd, parts, number, where, flags)); }
ssize_t read(int fd, void *data, size_t size) { FAIL_OR("read", fd, NULL, REAL(read, fd, data, size)); }
int fstat64(int fd, struct stat64 *found) { FAIL_OR("stat", fd, NULL, REAL(fstat64, fd, found)); }
int stat64(const char *path, struct stat64 *found) { FAIL_OR("stat", -1, path, REAL(stat64, path, found)); }
int lstat64(const char *path, struct stat64 *found) { FAIL_OR("stat", -1, path, REAL(lstat64, path, found)); }
int ftruncate64(int fd, off64_t size) { FAIL_OR("ftruncate", fd, NULL, REAL(ftruncate64, fd, size)); }
int fsync(int fd) { FAIL_OR("fsync", fd, NULL, REAL(fsync, fd)); }
int fdatasync(int fd) { FAIL_OR("fdatasync", fd, NULL, REAL(fdatasync, fd)); }
int mkdir(const char *path, mode_t mode) { FAIL_OR("mkdir", -1, path, REAL(mkdir, path, mode)); }
int rmdir(const char *path) { FAIL_OR("rmdir", -1, path, REAL(rmdir, path)); }
int unlink(const char *path) { FAIL_OR("unlink", -1, path, REAL(unlink, path)); }
int unlinkat(int fd, const char *path, int flags) { FAIL_OR("unlink", fd, path, REAL(unlinkat, fd, path, flags)); }
DIR *opendir(const char *path)
{
    int error = fault("opendir", -1, path);
    return error ? (errno = error, NULL) : REAL(opendir, path);
}

int rename(const char *from, const char *to) { FAIL_OR("rename", -1, from, REAL(rename, from, to)); }

int renameat(int from, const char *old, int to, const char *new) { FAIL_OR("rename", from, old, REAL(renameat, from, old, to, new)); }

/* The descriptor is gone whatever close answers. */
int close(int fd)
{
    int error = fault("close", fd, NULL), result = REAL(close, fd);
    return error ? (errno = error, -1) : result;
}

#define OPEN(name, at_fd, parameters, ...) \
    int name parameters \
    { \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = va_arg(rest, mode_t); \
        va_end(rest); \
        FAIL_OR(flags & (O_CREAT | O_WRONLY | O_RDWR) ? "create" : "open", at_fd, path, REAL(name, __VA_ARGS__, mode)); \
    }

OPEN(open, -1, (const char *path, int flags, ...), path, flags)
OPEN(open64, -1, (const char *path, int flags, ...), path, flags)
OPEN(openat, fd, (int fd, const char *path, int flags, ...), fd, path, flags)
OPEN(openat64, fd, (int fd, const char *path, int flags, ...), fd, path, flags)
