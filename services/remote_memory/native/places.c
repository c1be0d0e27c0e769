#include "places.h"
#include "system.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static ino_t file;

/* A name that one socket at a time can have, and that no file is left of. */
static bool bound(int found, const char *launch, long number) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int size = snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "tiresias-remem-%s-%ld", launch, number);
    return bind(found, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)size)) == 0;
}

bool places_take(int *place) {
    const char *launch = getenv("TIRESIAS_REMEM_LAUNCH"), *text = getenv("TIRESIAS_REMEM_REGIONS");
    if (!launch)
        return true;
    int found = system_moved_up(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    for (long number = 0, most = text ? strtol(text, NULL, 10) : 1; found >= 0 && number < most; number++)
        if (bound(found, launch, number)) {
            *place = found;
            file = system_file_of(found);
            return true;
        }
    if (found >= 0)
        close(found);
    return false;
}

void places_leave(int *place) {
    if (*place >= 0 && system_file_of(*place) == file)
        close(*place);
    *place = -1;
}
