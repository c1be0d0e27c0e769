#include "session.h"

#include "clock.h"
#include "system.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { NAMES = 10, CHANNELS_SHARE = 32 /* one byte in so many is for channels */, CHECKS_PER_SECOND = 10 };
static const size_t DEFAULT_BYTES = 16 << 20, MOST_BYTES = 64 << 20;
static const uint64_t MAKER_TIMEOUT_NS = 2000000000;

struct session *session;
_Atomic bool session_enabled;
static char folder[PATH_MAX - 512], stop_file[PATH_MAX];
static size_t bytes;
static _Atomic uint32_t generations;

uint32_t session_thread(void) {
    return (uint32_t)syscall(SYS_gettid);
}

static size_t asked_bytes(void) {
    const char *text = secure_getenv("TIRESIAS_PROFILE_BYTES");
    unsigned long long asked = text ? strtoull(text, NULL, 10) : DEFAULT_BYTES;
    return asked < MOST_BYTES ? (size_t)asked : MOST_BYTES;
}

static bool settings(void) {
    const char *enabled = secure_getenv("TIRESIAS_PROFILE"), *where = secure_getenv("TIRESIAS_PROFILE_DIR");
    if ((enabled && strcmp(enabled, "0") == 0) || !where || where[0] != '/' || strlen(where) >= sizeof folder)
        return false;
    strcpy(folder, where);
    snprintf(stop_file, sizeof stop_file, "%s/stop", folder);
    bytes = asked_bytes();
    return true;
}

__attribute__((constructor)) static void load(void) {
    int kept = errno;
    if (settings() && (session = system_page())) {
        clock_start();
        session_enabled = true;
    }
    errno = kept;
}

/* Field 22 of /proc/self/stat; the program's name before it may hold blanks and brackets. */
static uint64_t start_ticks(void) {
    char stat[1024];
    system_read("/proc/self/stat", stat, sizeof stat);
    char *at = strrchr(stat, ')');
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at, NULL, 10) : 0;
}

static uint32_t channels_capacity(void) {
    return (uint32_t)(bytes / CHANNELS_SHARE / sizeof(struct channel));
}

static uint32_t rings_capacity(void) {
    size_t before = sizeof(struct file_header) + channels_capacity() * sizeof(struct channel);
    return before < bytes ? (uint32_t)((bytes - before) / sizeof(struct ring)) : 0;
}

static void describe_process(struct file_header *header) {
    struct utsname host;
    header->pid = (uint64_t)syscall(SYS_getpid);
    header->start_ticks = start_ticks();
    if (uname(&host) == 0)
        memccpy(header->hostname, host.nodename, 0, sizeof header->hostname - 1);
    memccpy(header->program, program_invocation_name, 0, sizeof header->program - 1);
}

static void describe_file(struct file_header *header) {
    struct instant now = clock_instant();
    memcpy(header->magic, "TIRENET", 8);
    header->version = VERSION;
    header->header_size = sizeof *header;
    header->record_size = sizeof(struct record);
    header->channel_size = sizeof(struct channel);
    header->channels_capacity = channels_capacity();
    header->rings_capacity = rings_capacity();
    header->records_per_ring = RECORDS_PER_RING;
    header->realtime = clock_gettime_ns(CLOCK_REALTIME);
    header->ticks = now.ticks;
    header->monotonic = now.monotonic;
    header->ticks_per_second = clock_rate();
}

/* <hostname>.<pid>.<start ticks>.net. Another image of this process (exec keeps pid and start) may have taken it: then
 * .1.net and so on. */
static void *new_file(const struct file_header *header) {
    static char path[PATH_MAX];
    char host[sizeof header->hostname], number[4] = "";
    memcpy(host, header->hostname, sizeof host);
    for (char *slash; (slash = strchr(host, '/'));)
        *slash = '_';
    void *map = NULL;
    bool taken = true;
    for (int image = 0; taken && image < NAMES; image++) {
        if (image)
            snprintf(number, sizeof number, ".%d", image);
        snprintf(path, sizeof path, "%s/%s.%llu.%llu%s.net", folder, host, (unsigned long long)header->pid,
                 (unsigned long long)header->start_ticks, number);
        map = system_new_file(path, bytes, &taken);
    }
    return map;
}

static void plan_check(const struct file_header *header) {
    uint64_t second = header->ticks_per_second ? header->ticks_per_second : 1000000000;
    session->next_check = clock_now() + second / CHECKS_PER_SECOND;
}

/* Adds the early records to those dropped: each once, whether it came before or after the file was published. */
static void count_early(void) {
    session->header->dropped += atomic_exchange(&session->early, 0);
}

/* What is large is static, as there is one maker: it may run on the small stack of a signal handler. */
static bool make(void) {
    static struct file_header header;
    if (rings_capacity() == 0 || system_exists(stop_file))
        return false;
    memset(&header, 0, sizeof header);
    describe_process(&header);
    describe_file(&header);
    system_folder(folder); /* on this node it may not be there yet */
    session->header = new_file(&header);
    if (!session->header)
        return false;
    memcpy(session->header, &header, sizeof header);
    plan_check(session->header);
    session->generation = ++generations;
    count_early();
    return true;
}

/* A signal handler that interrupts the maker must not wait for it, and no thread for ever: these few records are
 * dropped. */
static bool wait_for_maker(void) {
    uint64_t timeout = session->maker == session_thread() ? 0 : MAKER_TIMEOUT_NS;
    uint64_t deadline = clock_gettime_ns(CLOCK_MONOTONIC) + timeout;
    while (!session->generation && session_enabled && clock_gettime_ns(CLOCK_MONOTONIC) < deadline)
        sched_yield();
    if (session->generation)
        return true;
    session->early++;
    if (session->generation)
        count_early(); /* the maker may have counted before */
    return false;
}

bool session_begin(void) {
    uint32_t unclaimed = 0;
    if (session->generation)
        return true;
    if (!atomic_compare_exchange_strong(&session->maker, &unclaimed, session_thread()))
        return wait_for_maker();
    if (!make())
        session_enabled = false;
    return session_enabled;
}

void session_check(struct file_header *header) {
    int kept = errno;
    header->ticks_per_second = clock_rate();
    plan_check(header);
    if (system_exists(stop_file)) {
        session_enabled = false;
        atomic_fetch_or(&header->flags, FILE_STOPPED);
    }
    errno = kept;
}
