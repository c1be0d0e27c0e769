#include "real.h"

#include <dlfcn.h>
#include <string.h>

struct real real_table;

/* By memcpy: C has no conversion from a pointer to data to one to a function. */
static void find(void *where, const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    memcpy(where, &found, sizeof found);
}

#define FIND(name) find(&real_table.name, #name)

static void find_transfers(void) {
    FIND(send), FIND(sendto), FIND(sendmsg), FIND(sendmmsg), FIND(write), FIND(writev), FIND(sendfile), FIND(splice);
    FIND(recv), FIND(recvfrom), FIND(recvmsg), FIND(recvmmsg), FIND(read), FIND(readv);
    find(&real_table.recv_chk, "__recv_chk");
    find(&real_table.recvfrom_chk, "__recvfrom_chk");
    find(&real_table.read_chk, "__read_chk");
}

static void find_descriptors(void) {
    FIND(socket), FIND(accept), FIND(accept4), FIND(connect);
    FIND(close), FIND(close_range), FIND(closefrom), FIND(fclose);
    FIND(dup), FIND(dup2), FIND(dup3), FIND(fcntl);
}

__attribute__((constructor)) void real_find(void) {
    find_transfers();
    find_descriptors();
    FIND(dlopen);
}
