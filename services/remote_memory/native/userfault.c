#include "userfault.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Headers before Linux 5.19 do not have these. */
enum { FEATURES = 1 << 0 | 1 << 5 | 1 << 12, USER_MODE_ONLY = 1, DEVICE_NEW = 0xAA00 };

static const int flags = O_CLOEXEC | O_NONBLOCK;

/* A descriptor whose faults of system calls are reported too, or -1. */
static int privileged(void) {
    int device = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
    if (device < 0)
        return (int)syscall(SYS_userfaultfd, flags);
    int found = ioctl(device, DEVICE_NEW, flags);
    int kept = errno;
    close(device);
    errno = kept;
    return found;
}

bool userfault_reaches_system_calls(void) {
    static atomic_int known; /* 0: not yet; 1: they do not; 2: they do */
    if (!known) {
        int kept = errno, found = privileged();
        known = found < 0 ? 1 : 2;
        if (found >= 0)
            close(found);
        errno = kept;
    }
    return known == 2;
}

int userfault_open(const char **reason) {
    struct uffdio_api api = {.api = UFFD_API, .features = FEATURES};
    int found = privileged();
    if (found < 0 && errno == EPERM)
        found = (int)syscall(SYS_userfaultfd, flags | USER_MODE_ONLY);
    *reason = "userfaultfd: let users read /dev/userfaultfd, or set vm.unprivileged_userfaultfd=1";
    if (found < 0 || ioctl(found, UFFDIO_API, &api) == 0)
        return found;
    *reason = "userfaultfd: this kernel does not protect pages of shared memory; Linux 5.19 does";
    close(found);
    return -1;
}

bool userfault_register(int descriptor, void *address, size_t bytes) {
    struct uffdio_register range = {
        .range = {.start = (uintptr_t)address, .len = bytes},
        .mode = UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP,
    };
    return ioctl(descriptor, UFFDIO_REGISTER, &range) == 0;
}
