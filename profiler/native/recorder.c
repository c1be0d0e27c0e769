#include "recorder.h"

#include "clock.h"
#include "session.h"

#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

/* This thread's ring, and the generation that it belongs to. */
static _Thread_local struct {
    struct ring *ring;
    uint32_t generation;
} mine __attribute__((tls_model("initial-exec")));

static pthread_key_t thread_end;

bool tiresias_recording(void) {
    return atomic_load_explicit(&session_enabled, memory_order_relaxed);
}

uint32_t tiresias_generation(void) {
    return atomic_load_explicit(&session->generation, memory_order_acquire);
}

/* Entries are finished in any order; the count covers those before which there is no gap. `mark` is the first entry's,
 * set when it is whole. */
static void publish(_Atomic uint32_t *used, uint32_t capacity, const _Atomic uint32_t *mark, size_t size) {
    for (uint32_t at = *used; at < capacity; at = *used) {
        if (*(const _Atomic uint32_t *)((const char *)mark + at * size) == 0)
            return;
        atomic_compare_exchange_strong(used, &at, at + 1);
    }
}

/* An index below the capacity, or the capacity itself when all are taken. */
static uint32_t take(_Atomic uint32_t *taken, uint32_t capacity) {
    uint32_t index = *taken < capacity ? (*taken)++ : capacity;
    return index < capacity ? index : capacity;
}

static uint32_t new_index(struct file_header *header) {
    uint32_t index = take(&session->channels, header->channels_capacity);
    if (index < header->channels_capacity)
        return index;
    atomic_fetch_or(&header->flags, FILE_CHANNELS_FULL);
    return NO_CHANNEL;
}

static void fill_channel(struct channel *channel, enum channel_kind kind, uint32_t number, const struct end *local,
                         const struct end *remote) {
    channel->number = number;
    channel->opened = (int64_t)clock_now();
    channel->local = *local;
    channel->remote = *remote;
    channel->kind = kind;
}

uint32_t tiresias_open_channel(enum channel_kind kind, uint32_t number, const struct end *local,
                               const struct end *remote) {
    int kept = errno;
    uint32_t index = NO_CHANNEL;
    if (tiresias_recording() && session_begin()) {
        struct file_header *header = session->header;
        struct channel *channels = channels_of(header);
        if ((index = new_index(header)) != NO_CHANNEL) {
            fill_channel(&channels[index], kind, number, local, remote);
            publish(&header->channels_used, header->channels_capacity, &channels->kind, sizeof *channels);
        }
    }
    errno = kept;
    return index;
}

void tiresias_connect_channel(uint32_t index, const struct end *local, const struct end *remote) {
    struct channel *channel = &channels_of(session->header)[index];
    channel->local = *local;
    channel->remote = *remote;
}

bool tiresias_is_owner(void) {
    return session->header->pid == (uint64_t)syscall(SYS_getpid);
}

void tiresias_close_channel(uint32_t index) {
    channels_of(session->header)[index].closed = (int64_t)clock_now();
}

void tiresias_mark_channel(uint32_t index, enum channel_flag flag) {
    channels_of(session->header)[index].flags |= flag;
}

static bool full(struct ring *ring) {
    return atomic_load_explicit(&ring->written, memory_order_relaxed) >= RECORDS_PER_RING;
}

/* A ring whose thread has ended. Looked for only while there are such. */
static struct ring *idle_ring(struct file_header *header) {
    struct ring *last = rings_of(header) + header->rings_used;
    for (struct ring *ring = rings_of(header); session->idle_rings && ring < last; ring++) {
        uint32_t idle = 0;
        if (!full(ring) && atomic_compare_exchange_strong(&ring->in_use, &idle, 1)) {
            session->idle_rings--;
            ring->thread = session_thread();
            return ring;
        }
    }
    return NULL;
}

static struct ring *unused_ring(struct file_header *header) {
    uint32_t index = take(&session->rings, header->rings_capacity);
    if (index == header->rings_capacity)
        return NULL;
    struct ring *ring = &rings_of(header)[index];
    ring->in_use = 1;
    ring->thread = session_thread();
    publish(&header->rings_used, header->rings_capacity, &rings_of(header)->thread, sizeof *ring);
    return ring;
}

static void give_back(void *unused) {
    (void)unused;
    if (mine.ring && mine.generation == session->generation && !full(mine.ring)) {
        mine.ring->in_use = 0;
        session->idle_rings++;
    }
    mine.ring = NULL;
}

__attribute__((constructor)) static void load(void) {
    pthread_key_create(&thread_end, give_back);
}

/* Another ring for this thread. Where none is left it keeps its full one, which counts what it drops. */
static struct ring *next_ring(struct file_header *header) {
    if (mine.generation != session->generation)
        mine.ring = NULL;
    mine.generation = session->generation;
    struct ring *ring = idle_ring(header);
    if (!ring)
        ring = unused_ring(header);
    if (ring) {
        mine.ring = ring;
        pthread_setspecific(thread_end, ring); /* any value but NULL has give_back called */
    }
    return mine.ring;
}

static struct ring *my_ring(struct file_header *header) {
    if (mine.generation == tiresias_generation() && mine.ring && !full(mine.ring))
        return mine.ring;
    return next_ring(header);
}

void tiresias_record(uint32_t channel, enum operation operation, unsigned flags, uint64_t asked, uint64_t done) {
    struct file_header *header = session->header;
    if (!header)
        return; /* a signal handler forked within the caller, and this is the child */
    struct ring *ring = my_ring(header);
    if (!ring) {
        header->dropped++;
        return;
    }
    /* Reserved at one stroke: a signal handler that records takes the next one. */
    uint64_t slot = atomic_fetch_add_explicit(&ring->written, 1, memory_order_relaxed);
    if (slot >= RECORDS_PER_RING)
        return;
    struct record *record = &ring->records[slot];
    uint64_t now = clock_now();
    record->time = now;
    record->channel = channel;
    record->flags = (uint16_t)flags;
    record->asked = asked;
    record->done = done;
    atomic_store_explicit(&record->operation, (uint16_t)operation, memory_order_release);
    if (now >= atomic_load_explicit(&session->next_check, memory_order_relaxed))
        session_check(header);
}
