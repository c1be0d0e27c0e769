/* dlopen of libibverbs, as NCCL does it, gives the library that records verbs. It lies beside this one, needs
 * libibverbs, and has all its symbols through that dependency, so that dlsym and dlvsym find on it what they would
 * have found.
 *
 * The real dlopen is called last, in tail position: it searches the RUNPATH of the library that it returns to. */
#include "real.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static const char wanted[] = "libibverbs.so", instead[] = "libtiresias_verbs.so";

static bool is_libibverbs(const char *file) {
    const char *slash = file ? strrchr(file, '/') : NULL;
    const char *name = slash ? slash + 1 : file;
    return name && strncmp(name, wanted, strlen(wanted)) == 0;
}

static bool path_of_other(char *path, size_t size) {
    Dl_info us;
    if (!dladdr(wanted, &us) || strlen(us.dli_fname) + sizeof instead > size)
        return false;
    strcpy(path, us.dli_fname);
    char *slash = strrchr(path, '/');
    strcpy(slash ? slash + 1 : path, instead);
    return true;
}

/* The program's own libibverbs is loaded first, wherever it is: the other library's dependency is then settled.
 * Neither is let go. */
static const char *redirected(const char *file) {
    static char path[PATH_MAX];
    int kept = errno;
    bool loaded = path_of_other(path, sizeof path) && REAL(dlopen)(file, RTLD_LAZY) && REAL(dlopen)(path, RTLD_LAZY);
    errno = kept;
    return loaded ? path : file;
}

EXPORT void *dlopen(const char *file, int mode) {
    if (tiresias_recording() && is_libibverbs(file) && !(mode & RTLD_NOLOAD))
        file = redirected(file);
    return REAL(dlopen)(file, mode);
}
