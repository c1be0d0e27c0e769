/* Compiles where our descriptions of NCCL's profiler interface, the plugin's and the player's, agree with NVIDIA's. */
#include <stdbool.h>

#include "err.h"
#include "profiler.h"

#include "nccl/abi.h"
#include "nccl_events.h"

#define SAME(theirs, their_field, ours, our_field)                                                                     \
    _Static_assert(offsetof(theirs, their_field) == offsetof(struct ours, our_field) &&                                \
                       sizeof((theirs){0}.their_field) == sizeof((struct ours){0}.our_field),                          \
                   #theirs "." #their_field)

#define EVENT(theirs, event, descriptor)                                                                               \
    SAME(theirs, type, event, type);                                                                                   \
    SAME(theirs, parentObj, event, parent);                                                                            \
    SAME(theirs, rank, event, rank);                                                                                   \
    SAME(theirs, coll.seqNumber, event, call.collective.sequence);                                                     \
    SAME(theirs, coll.func, event, call.collective.function);                                                          \
    SAME(theirs, coll.count, event, call.collective.count);                                                            \
    SAME(theirs, coll.root, event, call.collective.root);                                                              \
    SAME(theirs, coll.datatype, event, call.collective.datatype);                                                      \
    SAME(theirs, p2p.func, event, call.transfer.function);                                                             \
    SAME(theirs, p2p.count, event, call.transfer.count);                                                               \
    SAME(theirs, p2p.datatype, event, call.transfer.datatype);                                                         \
    SAME(theirs, p2p.peer, event, call.transfer.peer);                                                                 \
    SAME(theirs, type, descriptor, type);                                                                              \
    SAME(theirs, rank, descriptor, rank);                                                                              \
    SAME(theirs, coll.func, descriptor, coll.func);                                                                    \
    SAME(theirs, coll.count, descriptor, coll.count);                                                                  \
    SAME(theirs, coll.datatype, descriptor, coll.datatype);                                                            \
    SAME(theirs, p2p.func, descriptor, p2p.func);                                                                      \
    SAME(theirs, p2p.count, descriptor, p2p.count);                                                                    \
    SAME(theirs, p2p.datatype, descriptor, p2p.datatype);                                                              \
    SAME(theirs, p2p.peer, descriptor, p2p.peer)

#define TABLE(theirs)                                                                                                  \
    SAME(theirs, name, profiler, name);                                                                                \
    SAME(theirs, init, profiler, init);                                                                                \
    SAME(theirs, startEvent, profiler, start_event);                                                                   \
    SAME(theirs, stopEvent, profiler, stop_event);                                                                     \
    SAME(theirs, recordEventState, profiler, record_event_state);                                                      \
    SAME(theirs, finalize, profiler, finalize);                                                                        \
    _Static_assert(sizeof(theirs) == sizeof(struct profiler) && sizeof(theirs) == sizeof(struct plugin), #theirs)

EVENT(ncclProfilerEventDescr_v1_t, event_v1, descriptor1);
EVENT(ncclProfilerEventDescr_v2_t, event_v2, descriptor2);
EVENT(ncclProfilerEventDescr_v3_t, event_v2, descriptor2);
EVENT(ncclProfilerEventDescr_v4_t, event_v4, descriptor4);
EVENT(ncclProfilerEventDescr_v5_t, event_v5, descriptor5);
EVENT(ncclProfilerEventDescr_v6_t, event_v5, descriptor5);
SAME(ncclProfilerEventDescr_v1_t, coll.commHash, event_v1, hash);
SAME(ncclProfilerEventDescr_v1_t, p2p.commHash, event_v1, hash);
SAME(ncclProfilerEventDescr_v2_t, coll.commHash, event_v2, hash);
SAME(ncclProfilerEventDescr_v3_t, p2p.commHash, event_v2, hash);
TABLE(ncclProfiler_v1_t);
TABLE(ncclProfiler_v4_t);
TABLE(ncclProfiler_v6_t);
_Static_assert((int)EVENT_GROUP == ncclProfileGroup && (int)EVENT_COLLECTIVE == ncclProfileColl &&
                   (int)EVENT_POINT_TO_POINT == ncclProfileP2p,
               "types of events");

/* The arguments of init, which offsets say nothing of. */
int main(void) {
    ncclResult_t (*init1)(void **, int *) = ((ncclProfiler_v3_t *)0)->init;
    ncclResult_t (*init4)(void **, int *, const char *, uint64_t, int, int, int, ncclDebugLogger_t) =
        ((ncclProfiler_v4_t *)0)->init;
    ncclResult_t (*init5)(void **, uint64_t, int *, const char *, int, int, int, ncclDebugLogger_t) =
        ((ncclProfiler_v6_t *)0)->init;
    return !init1 + !init4 + !init5;
}
