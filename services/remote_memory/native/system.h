/* System calls that no other library's function may precede, and lines for the user. */
#ifndef TIRESIAS_SYSTEM_H
#define TIRESIAS_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Anonymous memory of zeros, or NULL. */
void *system_memory(size_t bytes);
void *system_map(void *address, size_t bytes, int protection, int flags, int descriptor);
void system_unmap(void *address, size_t bytes);

/* A file in memory of that size, or -1. */
int system_memory_file(size_t bytes);

/* The same descriptor at a high number, where programs rarely choose one; it ends at exec. */
int system_moved_up(int descriptor);

/* The inode of a descriptor; 0 where it is closed. Programs that close all their descriptors reuse the numbers. */
ino_t system_file_of(int descriptor);

/* A line on standard error: "tiresias: remote memory: PROGRAM (PID): ..." */
__attribute__((format(printf, 1, 2))) void system_report(const char *format, ...);

#endif
