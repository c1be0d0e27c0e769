/* The functions of tiresias_remem.h. */
#include "region.h"
#include "tiresias_remem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool tiresias_remem_open(const char *file) {
    return region_begin(file);
}

void *tiresias_remem_alloc(size_t bytes) {
    void *found = region_take(bytes ? bytes : 1, 1);
    if (!found)
        errno = ENOMEM;
    return found;
}

void *tiresias_remem_realloc(void *block, size_t bytes) {
    size_t old = block ? region_length(block) : 0;
    bytes = bytes ? bytes : 1;
    if (block && region_resize(block, old, bytes))
        return block;
    void *found = tiresias_remem_alloc(bytes);
    if (found && block) {
        memcpy(found, block, old);
        region_give(block, old);
    }
    return found;
}

void tiresias_remem_free(void *block) {
    if (block)
        region_give(block, region_length(block));
}

size_t tiresias_remem_usable_size(const void *block) {
    return block ? region_length(block) : 0;
}

bool tiresias_remem_contains(const void *address) {
    return region_holds(address);
}

size_t tiresias_remem_statistics(char *text, size_t size) {
    return region_request('s', text, size);
}
