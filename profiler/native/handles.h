/* A table from keys (addresses of the program's own objects, or packed numbers) to places 0..HANDLES-1 of arrays. Open
 * addressing without locks: a lookup never waits. */
#ifndef TIRESIAS_HANDLES_H
#define TIRESIAS_HANDLES_H

#include <stdatomic.h>
#include <stdint.h>

#define HANDLES 4096
#define NO_HANDLE UINT32_MAX

/* Zero is empty. */
struct handles {
    _Atomic uint64_t keys[HANDLES];
};

/* NO_HANDLE where it is not known. */
uint32_t handles_find(struct handles *handles, uint64_t key);

/* A place for the key, not found before it is published; NO_HANDLE where the table is full. */
uint32_t handles_take(struct handles *handles, uint64_t key);

void handles_publish(struct handles *handles, uint32_t place, uint64_t key);

void handles_forget(struct handles *handles, uint32_t place);

#endif
