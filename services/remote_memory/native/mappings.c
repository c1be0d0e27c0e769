/* mmap and its like: large private anonymous memory that can be read and written is in the region while pages are free.
 *
 * Programs with an allocator of their own have small objects there, which they pass to system calls of any kind. So
 * mappings are taken only where system calls wait for pages. */
#include "real.h"
#include "region.h"
#include "userfault.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

enum { PAGE = 4096, READ_WRITE = PROT_READ | PROT_WRITE, PRIVATE = MAP_PRIVATE | MAP_ANONYMOUS };

static size_t in_pages(size_t bytes) {
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

static void *refused(int error) {
    errno = error;
    return MAP_FAILED;
}

/* Memory of a kind that a region has: no stack, no huge or locked pages. */
static bool is_plain(int protection, int flags) {
    return protection == READ_WRITE && (flags & ~MAP_NORESERVE) == PRIVATE;
}

/* A new mapping over a part of the region: zeros, or an error. */
static void *map_over(void *address, size_t bytes, int protection, int flags) {
    if (!region_contains(address, bytes) || !is_plain(protection, flags & ~MAP_FIXED))
        return refused(ENOMEM);
    region_clear(address, bytes);
    return address;
}

EXPORT void *mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset) {
    if (flags & MAP_FIXED && region_meets(address, bytes))
        return map_over(address, bytes, protection, flags);
    bool eligible = !address && bytes >= region_least() && is_plain(protection, flags) && userfault_reaches_system_calls();
    void *found = eligible ? region_take_mapping(bytes) : NULL;
    return found ? found : REAL(mmap)(address, bytes, protection, flags, file, offset);
}

EXPORT void *mmap64(void *address, size_t bytes, int protection, int flags, int file, off_t offset) {
    return mmap(address, bytes, protection, flags, file, offset);
}

/* Parts before and after the region are the kernel's. */
static int unmap_with_region(char *address, size_t bytes) {
    size_t size;
    char *part = region_part(address, bytes, &size), *after = part + size;
    region_give(part, size);
    if (part > address && REAL(munmap)(address, (size_t)(part - address)) != 0)
        return -1;
    return after < address + bytes ? REAL(munmap)(after, (size_t)(address + bytes - after)) : 0;
}

EXPORT int munmap(void *address, size_t bytes) {
    if (!region_meets(address, bytes) || (size_t)address % PAGE)
        return REAL(munmap)(address, bytes);
    return unmap_with_region(address, in_pages(bytes));
}

/* New memory for a mapping that moves: at `place` if that is not NULL. */
static void *new_place(size_t bytes, void *place) {
    if (place)
        return region_meets(place, bytes) ? refused(EINVAL) : REAL(mmap)(place, bytes, READ_WRITE, PRIVATE | MAP_FIXED, -1, 0);
    return mmap(NULL, bytes, READ_WRITE, PRIVATE, -1, 0);
}

static void *remap_in_region(void *old, size_t old_bytes, size_t bytes, int flags, void *place) {
    if (flags & MREMAP_DONTUNMAP || !old_bytes || !bytes || !region_contains(old, old_bytes) || (size_t)old % PAGE)
        return refused(EINVAL);
    if (!place && region_resize(old, old_bytes, bytes))
        return old;
    if (!(flags & MREMAP_MAYMOVE))
        return refused(ENOMEM);
    void *found = new_place(bytes, place);
    if (found != MAP_FAILED) {
        memcpy(found, old, old_bytes < bytes ? old_bytes : bytes);
        region_give(old, old_bytes);
    }
    return found;
}

EXPORT void *mremap(void *old, size_t old_bytes, size_t bytes, int flags, ...) {
    void *place = NULL;
    va_list arguments;
    va_start(arguments, flags);
    if (flags & MREMAP_FIXED)
        place = va_arg(arguments, void *);
    va_end(arguments);
    if (region_meets(old, old_bytes ? old_bytes : 1))
        return remap_in_region(old, in_pages(old_bytes), in_pages(bytes), flags, place);
    if (place && region_meets(place, bytes))
        return refused(EINVAL);
    return REAL(mremap)(old, old_bytes, bytes, flags, place);
}

static int failed(int error) {
    errno = error;
    return -1;
}

/* Advice about huge pages, read-ahead and dumps is without effect. */
static int advise(void *address, size_t bytes, int advice) {
    if ((size_t)address % PAGE || advice == MADV_DOFORK || advice == MADV_WIPEONFORK || advice == MADV_REMOVE)
        return failed(EINVAL);
    if (!region_contains(address, bytes))
        return failed(ENOMEM);
    if (advice == MADV_DONTNEED || advice == MADV_FREE)
        region_clear(address, bytes);
    return 0;
}

EXPORT int madvise(void *address, size_t bytes, int advice) {
    return region_meets(address, bytes) ? advise(address, in_pages(bytes), advice) : REAL(madvise)(address, bytes, advice);
}

/* Pages of a region can be read and written: the handler copies runs of them. */
EXPORT int mprotect(void *address, size_t bytes, int protection) {
    if (!region_meets(address, bytes))
        return REAL(mprotect)(address, bytes, protection);
    return protection == READ_WRITE ? 0 : failed(ENOMEM);
}
