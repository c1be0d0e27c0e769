/* The process that resolves the page faults of the region, and the socket to it. */
#ifndef TIRESIAS_HANDLER_H
#define TIRESIAS_HANDLER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct handler {
    int control; /* its socket */
    int alive;   /* a pipe that the process holds open: SIGBUS comes when that ends */
    ino_t file;  /* of the socket */
};

/* Start it with a configuration. Returns whether it runs; whether it works, its first line reports. */
bool handler_start(struct handler *handler, const char *file);

/* Send bytes, and descriptors where `count` is not 0. */
bool handler_send(struct handler *handler, const void *bytes, size_t size, const int *descriptors, size_t count);

/* Receive a line, without its end. Returns whether it came whole. */
bool handler_line(struct handler *handler, char *line, size_t size);

/* From now on SIGBUS ends this process when the handler has ended. */
bool handler_watch(struct handler *handler);

/* Close this process's ends, where they are still what they were. */
void handler_close(struct handler *handler);

#endif
