/* libtiresias_nccl.so, a profiler plugin of NCCL: NCCL_PROFILER_PLUGIN=/path/to/libtiresias_nccl.so. One record for each
 * collective and for each send and receive, at the moment when it is handed to the device; nothing else is asked for,
 * so that NCCL's proxy threads are left alone. Not seen, as NCCL does not report them: calls on symmetric memory, which
 * stay among GPUs that reach each other's, and from 2.29 on broadcasts, which it joins to one.
 *
 * Groups are asked for because until v4 NCCL reports only what belongs to a group that the plugin has a handle for. */
#include "abi.h"
#include "communicator.h"
#include "words.h"

static const char group; /* the handle of all groups */

static int new_communicator(void **context, int *mask, struct group named, int rank) {
    *context = NULL;
    *mask = 0;
    if (tiresias_recording() && (*context = communicator_new(named, (uint32_t)rank)))
        *mask = EVENT_GROUP | EVENT_COLLECTIVE | EVENT_POINT_TO_POINT;
    return SUCCESS; /* whatever happened: NCCL would complain to the user */
}

static int init_v1(void **context, int *mask) {
    return new_communicator(context, mask, (struct group){0}, 0);
}

static int init_v4(void **context, int *mask, const char *name, uint64_t hash, int nodes, int ranks, int rank,
                   void *log) {
    (void)name, (void)log;
    return new_communicator(context, mask, (struct group){hash, (uint32_t)ranks, (uint32_t)nodes}, rank);
}

static int init_v5(void **context, uint64_t hash, int *mask, const char *name, int nodes, int ranks, int rank,
                   void *log) {
    return init_v4(context, mask, name, hash, nodes, ranks, rank, log);
}

/* NCCL reports events of other types too, and requires for each whether it has a handle. */
static bool is_recorded(void *context, void **handle, uint64_t type) {
    *handle = type == EVENT_GROUP ? (void *)&group : NULL;
    return context && (type == EVENT_COLLECTIVE || type == EVENT_POINT_TO_POINT) && tiresias_recording();
}

static void record_numbered(struct communicator *communicator, uint64_t type, const union numbered_call *call) {
    const struct numbered_collective *collective = &call->collective;
    const struct numbered_transfer *transfer = &call->transfer;
    if (type == EVENT_COLLECTIVE)
        communicator_collective(communicator, function_of_number(collective->function),
                                collective->count * size_of_number(collective->datatype));
    else
        communicator_transfer(communicator, direction_of_number(transfer->function), (uint32_t)transfer->peer,
                              transfer->count * size_of_number(transfer->datatype));
}

static void record_named(struct communicator *communicator, uint64_t type, const union named_call *call) {
    const struct named_collective *collective = &call->collective;
    const struct named_transfer *transfer = &call->transfer;
    if (type == EVENT_COLLECTIVE)
        communicator_collective(communicator, function_of_word(collective->function),
                                collective->count * size_of_word(collective->datatype));
    else
        communicator_transfer(communicator, direction_of_word(transfer->function), (uint32_t)transfer->peer,
                              transfer->count * size_of_word(transfer->datatype));
}

static int start_v1(void *context, void **handle, const struct event_v1 *event) {
    if (is_recorded(context, handle, event->type)) {
        communicator_is(context, event->hash, (uint32_t)event->rank);
        record_numbered(context, event->type, &event->call);
    }
    return SUCCESS;
}

static int start_v2(void *context, void **handle, const struct event_v2 *event) {
    if (is_recorded(context, handle, event->type)) {
        communicator_is(context, event->hash, (uint32_t)event->rank);
        record_named(context, event->type, &event->call);
    }
    return SUCCESS;
}

static int start_v4(void *context, void **handle, const struct event_v4 *event) {
    if (is_recorded(context, handle, event->type))
        record_named(context, event->type, &event->call);
    return SUCCESS;
}

static int start_v5(void *context, void **handle, const struct event_v5 *event) {
    if (is_recorded(context, handle, event->type))
        record_named(context, event->type, &event->call);
    return SUCCESS;
}

static int stop_event(void *handle) {
    (void)handle;
    return SUCCESS;
}

static int record_event_state(void *handle, int state, void *arguments) {
    (void)handle, (void)state, (void)arguments;
    return SUCCESS;
}

static int finalize(void *context) {
    communicator_free(context);
    return SUCCESS;
}

#define PLUGIN(version, init_version, start_version)                                                                   \
    EXPORT const struct profiler ncclProfiler_##version = {                                                            \
        .name = "tiresias",                                                                                            \
        .init.init_version = init_##init_version,                                                                      \
        .start_event.start_version = start_##start_version,                                                            \
        .stop_event = stop_event,                                                                                      \
        .record_event_state = record_event_state,                                                                      \
        .finalize = finalize,                                                                                          \
    }

PLUGIN(v1, v1, v1);
PLUGIN(v2, v1, v2);
PLUGIN(v3, v1, v2);
PLUGIN(v4, v4, v4);
PLUGIN(v5, v5, v5);
PLUGIN(v6, v5, v5);
