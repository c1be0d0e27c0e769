/* A table from keys (addresses of objects that are not ours, or packed numbers) to places 0..HANDLES-1 of arrays. Open
 * addressing without locks: whoever looks up never waits. */
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

/* A place for the key, which nobody finds before it is published; NO_HANDLE where there is no room. */
uint32_t handles_take(struct handles *handles, uint64_t key);

void handles_publish(struct handles *handles, uint32_t place, uint64_t key);

void handles_forget(struct handles *handles, uint32_t place);

#endif
