#include "system.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { HIGH_DESCRIPTOR = 400, LINE = 512, CLOSE_AT_EXEC = 1 };

void *system_map(void *address, size_t bytes, int protection, int flags, int descriptor) {
    return (void *)syscall(SYS_mmap, address, bytes, protection, flags, descriptor, (off_t)0);
}

void *system_memory(size_t bytes) {
    void *found = system_map(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
    return found == MAP_FAILED ? NULL : found;
}

void system_unmap(void *address, size_t bytes) {
    syscall(SYS_munmap, address, bytes);
}

int system_memory_file(size_t bytes) {
    int file = (int)syscall(SYS_memfd_create, "tiresias-region", CLOSE_AT_EXEC);
    if (file >= 0 && ftruncate(file, (off_t)bytes) != 0) {
        close(file);
        return -1;
    }
    return file;
}

int system_moved_up(int descriptor) {
    int moved = descriptor < 0 ? -1 : fcntl(descriptor, F_DUPFD_CLOEXEC, HIGH_DESCRIPTOR);
    if (moved < 0)
        return descriptor;
    close(descriptor);
    return moved;
}

ino_t system_file_of(int descriptor) {
    struct stat found;
    return descriptor >= 0 && fstat(descriptor, &found) == 0 ? found.st_ino : 0;
}

void system_report(const char *format, ...) {
    char line[LINE];
    int kept = errno, head, size;
    va_list arguments;
    head = snprintf(line, sizeof line, "tiresias: remote memory: %.64s (%d): ", program_invocation_short_name, (int)getpid());
    va_start(arguments, format);
    size = head + vsnprintf(line + head, sizeof line - (size_t)head - 1, format, arguments);
    va_end(arguments);
    size = size < LINE - 2 ? size : LINE - 2;
    line[size] = '\n';
    if (write(STDERR_FILENO, line, (size_t)size + 1) < 0)
        errno = kept;
    errno = kept;
}
