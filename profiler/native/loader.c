/* dlopen of libibverbs, as NCCL does it, gives the library that records verbs. It lies in the same folder, needs
 * libibverbs, and has all its symbols through that dependency, so that dlsym and dlvsym find on it what they would have
 * found.
 *
 * The real dlopen is called last, in tail position: it searches the RUNPATH of the library that it returns to. */
#include "real.h"
#include "system.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char original[] = "libibverbs.so", replacement[] = "libtiresias_verbs.so";

static bool is_libibverbs(const char *file) {
    const char *slash = file ? strrchr(file, '/') : NULL;
    const char *name = slash ? slash + 1 : file;
    return name && strncmp(name, original, strlen(original)) == 0;
}

/* The folders that the caller's own dlopen would search, or NULL. */
static Dl_serinfo *search_list(const void *caller) {
    Dl_info ignored;
    struct link_map *map;
    Dl_serinfo size, *list = NULL;
    if (dladdr1(caller, &ignored, (void **)&map, RTLD_DL_LINKMAP) && dlinfo(map, RTLD_DI_SERINFOSIZE, &size) == 0 &&
        (list = malloc(size.dls_size)))
        *list = size;
    if (list && dlinfo(map, RTLD_DI_SERINFO, list) == 0)
        return list;
    free(list);
    return NULL;
}

/* The system's folders come last, after the loader's cache: the real dlopen searches both by itself. */
static bool is_systems(const char *place) {
    return strncmp(place, "/lib", 4) == 0 || strncmp(place, "/usr/lib", 8) == 0;
}

/* Where the caller would find `file`: a path in `buffer`, or `file` itself. */
static const char *seen_by(const void *caller, const char *file, char *buffer, size_t size) {
    Dl_serinfo *list = strchr(file, '/') ? NULL : search_list(caller);
    const char *found = file;
    for (unsigned each = 0; list && found == file && each < list->dls_cnt; each++) {
        const char *place = list->dls_serpath[each].dls_name;
        if (is_systems(place))
            break;
        if (snprintf(buffer, size, "%s/%s", place, file) < (int)size && system_exists(buffer))
            found = buffer;
    }
    free(list);
    return found;
}

static bool path_of_other(char *path, size_t size) {
    Dl_info us;
    if (!dladdr(original, &us) || strlen(us.dli_fname) + sizeof replacement > size)
        return false;
    strcpy(path, us.dli_fname);
    char *slash = strrchr(path, '/');
    strcpy(slash ? slash + 1 : path, replacement);
    return true;
}

/* The program's own libibverbs is loaded first, which settles the other library's dependency. Neither is closed. */
static const char *redirected(const char *file, const void *caller) {
    static char path[PATH_MAX];
    char buffer[PATH_MAX];
    int kept = errno;
    bool loaded = path_of_other(path, sizeof path) && system_exists(path) &&
                  REAL(dlopen)(seen_by(caller, file, buffer, sizeof buffer), RTLD_LAZY) && REAL(dlopen)(path, RTLD_LAZY);
    if (!loaded)
        dlerror(); /* the program must not see this library's error */
    errno = kept;
    return loaded ? path : file;
}

EXPORT void *dlopen(const char *file, int mode) {
    if (tiresias_recording() && is_libibverbs(file) && !(mode & RTLD_NOLOAD))
        file = redirected(file, __builtin_return_address(0));
    return REAL(dlopen)(file, mode);
}
