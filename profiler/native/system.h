/* System calls that bypass the C library's functions: the recorder precedes those functions, and some of them are
 * points at which a thread can be cancelled. All are safe in a signal handler. None keeps errno: callers do. */
#ifndef TIRESIAS_SYSTEM_H
#define TIRESIAS_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The beginning of a small file as a string in buffer; "" where it cannot be read. */
void system_read(const char *path, char *buffer, size_t size);

bool system_exists(const char *path);

/* Made for this user alone, where it is not there. */
void system_folder(const char *path);

/* A new file of that size, its blocks reserved, mapped; NULL, and no file, where that is impossible.
 * *taken: whether the name was in use. */
void *system_new_file(const char *path, size_t size, bool *taken);

/* A page of zeros that is zeros again in a child after fork. */
void *system_page(void);

#endif
