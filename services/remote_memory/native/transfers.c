/* System calls that read and write one range of memory: where it is in the region, through other memory. */
#include "bounce.h"
#include "real.h"
#include "region.h"

#include <sys/stat.h>

struct transfer {
    int file, flags;
    off_t offset;
    struct sockaddr *address;
    socklen_t *address_size;
};

#define FULL(name) static ssize_t name(void *call, void *memory, size_t bytes, size_t done)
#define CALL struct transfer *own = call

FULL(one_read) {
    CALL;
    (void)done;
    return REAL(read)(own->file, memory, bytes);
}

FULL(one_pread) {
    CALL;
    return REAL(pread)(own->file, memory, bytes, own->offset + (off_t)done);
}

FULL(one_recvfrom) {
    CALL;
    (void)done;
    return REAL(recvfrom)(own->file, memory, bytes, own->flags, own->address, own->address_size);
}

FULL(one_getrandom) {
    CALL;
    (void)done;
    return REAL(getrandom)(memory, bytes, (unsigned)own->flags);
}

FULL(one_write) {
    CALL;
    (void)done;
    return REAL(write)(own->file, memory, bytes);
}

FULL(one_pwrite) {
    CALL;
    return REAL(pwrite)(own->file, memory, bytes, own->offset + (off_t)done);
}

FULL(one_sendto) {
    CALL;
    (void)done;
    return REAL(sendto)(own->file, memory, bytes, own->flags, own->address, own->address ? *own->address_size : 0);
}

/* A file returns what it has; a second read of a pipe or socket might wait. */
static bool is_file(int descriptor) {
    struct stat found;
    return fstat(descriptor, &found) == 0 && (S_ISREG(found.st_mode) || S_ISBLK(found.st_mode));
}

EXPORT ssize_t read(int file, void *to, size_t bytes) {
    if (!region_meets(to, bytes))
        return REAL(read)(file, to, bytes);
    return bounce_in(one_read, &(struct transfer){.file = file}, to, bytes, is_file(file));
}

EXPORT ssize_t pread(int file, void *to, size_t bytes, off_t offset) {
    if (!region_meets(to, bytes))
        return REAL(pread)(file, to, bytes, offset);
    return bounce_in(one_pread, &(struct transfer){.file = file, .offset = offset}, to, bytes, true);
}

EXPORT ssize_t pread64(int file, void *to, size_t bytes, off_t offset) {
    return pread(file, to, bytes, offset);
}

EXPORT ssize_t recvfrom(int file, void *to, size_t bytes, int flags, struct sockaddr *from, socklen_t *size) {
    if (!region_meets(to, bytes))
        return REAL(recvfrom)(file, to, bytes, flags, from, size);
    bool whole = (flags & (MSG_WAITALL | MSG_PEEK)) == MSG_WAITALL;
    struct transfer call = {.file = file, .flags = flags, .address = from, .address_size = size};
    return bounce_in(one_recvfrom, &call, to, bytes, whole);
}

EXPORT ssize_t recv(int file, void *to, size_t bytes, int flags) {
    return region_meets(to, bytes) ? recvfrom(file, to, bytes, flags, NULL, NULL) : REAL(recv)(file, to, bytes, flags);
}

EXPORT ssize_t getrandom(void *to, size_t bytes, unsigned flags) {
    if (!region_meets(to, bytes))
        return REAL(getrandom)(to, bytes, flags);
    return bounce_in(one_getrandom, &(struct transfer){.flags = (int)flags}, to, bytes, true);
}

EXPORT ssize_t write(int file, const void *from, size_t bytes) {
    if (!region_meets(from, bytes))
        return REAL(write)(file, from, bytes);
    return bounce_out(one_write, &(struct transfer){.file = file}, from, bytes);
}

EXPORT ssize_t pwrite(int file, const void *from, size_t bytes, off_t offset) {
    if (!region_meets(from, bytes))
        return REAL(pwrite)(file, from, bytes, offset);
    return bounce_out(one_pwrite, &(struct transfer){.file = file, .offset = offset}, from, bytes);
}

EXPORT ssize_t pwrite64(int file, const void *from, size_t bytes, off_t offset) {
    return pwrite(file, from, bytes, offset);
}

EXPORT ssize_t sendto(int file, const void *from, size_t bytes, int flags, const struct sockaddr *to, socklen_t size) {
    if (!region_meets(from, bytes))
        return REAL(sendto)(file, from, bytes, flags, to, size);
    struct transfer call = {.file = file, .flags = flags, .address = (struct sockaddr *)to, .address_size = &size};
    return bounce_out(one_sendto, &call, from, bytes);
}

EXPORT ssize_t send(int file, const void *from, size_t bytes, int flags) {
    return region_meets(from, bytes) ? sendto(file, from, bytes, flags, NULL, 0) : REAL(send)(file, from, bytes, flags);
}

/* Programs compiled with _FORTIFY_SOURCE call these, with the size of the memory. */
EXPORT ssize_t __read_chk(int file, void *to, size_t bytes, size_t limit) {
    return bytes > limit ? (__builtin_trap(), -1) : read(file, to, bytes);
}

EXPORT ssize_t __pread_chk(int file, void *to, size_t bytes, off_t offset, size_t limit) {
    return bytes > limit ? (__builtin_trap(), -1) : pread(file, to, bytes, offset);
}

EXPORT ssize_t __pread64_chk(int file, void *to, size_t bytes, off_t offset, size_t limit) {
    return __pread_chk(file, to, bytes, offset, limit);
}

EXPORT ssize_t __recv_chk(int file, void *to, size_t bytes, size_t limit, int flags) {
    return bytes > limit ? (__builtin_trap(), -1) : recv(file, to, bytes, flags);
}

EXPORT ssize_t __recvfrom_chk(int file, void *to, size_t bytes, size_t limit, int flags, struct sockaddr *from, socklen_t *size) {
    return bytes > limit ? (__builtin_trap(), -1) : recvfrom(file, to, bytes, flags, from, size);
}
