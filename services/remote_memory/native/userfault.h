/* Page faults of a range of memory, resolved by another process: userfaultfd(2). */
#ifndef TIRESIAS_USERFAULT_H
#define TIRESIAS_USERFAULT_H

#include <stdbool.h>
#include <stddef.h>

/* A descriptor, or -1 with errno and a reason. */
int userfault_open(const char **reason);

/* Whether system calls may wait for pages: else they fail with EFAULT where a page is not resident. */
bool userfault_reaches_system_calls(void);

bool userfault_register(int descriptor, void *address, size_t bytes);

#endif
