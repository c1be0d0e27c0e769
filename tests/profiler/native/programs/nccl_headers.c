/* Compiles where this project's descriptions of NCCL's profiler interface, the plugin's and the player's, agree with NVIDIA's. */
#include <stdbool.h>

#include "err.h"
#include "profiler.h"

#include "nccl/abi.h"
#include "nccl_events.h"

#define SAME(nccl, nccl_field, own, own_field)                                                                     \
    _Static_assert(offsetof(nccl, nccl_field) == offsetof(struct own, own_field) &&                                \
                       sizeof((nccl){0}.nccl_field) == sizeof((struct own){0}.own_field),                          \
                   #nccl "." #nccl_field)

#define EVENT(nccl, event, descriptor)                                                                               \
    SAME(nccl, type, event, type);                                                                                   \
    SAME(nccl, parentObj, event, parent);                                                                            \
    SAME(nccl, rank, event, rank);                                                                                   \
    SAME(nccl, coll.seqNumber, event, call.collective.sequence);                                                     \
    SAME(nccl, coll.func, event, call.collective.function);                                                          \
    SAME(nccl, coll.count, event, call.collective.count);                                                            \
    SAME(nccl, coll.root, event, call.collective.root);                                                              \
    SAME(nccl, coll.datatype, event, call.collective.datatype);                                                      \
    SAME(nccl, p2p.func, event, call.transfer.function);                                                             \
    SAME(nccl, p2p.count, event, call.transfer.count);                                                               \
    SAME(nccl, p2p.datatype, event, call.transfer.datatype);                                                         \
    SAME(nccl, p2p.peer, event, call.transfer.peer);                                                                 \
    SAME(nccl, type, descriptor, type);                                                                              \
    SAME(nccl, rank, descriptor, rank);                                                                              \
    SAME(nccl, coll.func, descriptor, coll.func);                                                                    \
    SAME(nccl, coll.count, descriptor, coll.count);                                                                  \
    SAME(nccl, coll.datatype, descriptor, coll.datatype);                                                            \
    SAME(nccl, p2p.func, descriptor, p2p.func);                                                                      \
    SAME(nccl, p2p.count, descriptor, p2p.count);                                                                    \
    SAME(nccl, p2p.datatype, descriptor, p2p.datatype);                                                              \
    SAME(nccl, p2p.peer, descriptor, p2p.peer)

#define TABLE(nccl)                                                                                                  \
    SAME(nccl, name, profiler, name);                                                                                \
    SAME(nccl, init, profiler, init);                                                                                \
    SAME(nccl, startEvent, profiler, start_event);                                                                   \
    SAME(nccl, stopEvent, profiler, stop_event);                                                                     \
    SAME(nccl, recordEventState, profiler, record_event_state);                                                      \
    SAME(nccl, finalize, profiler, finalize);                                                                        \
    _Static_assert(sizeof(nccl) == sizeof(struct profiler) && sizeof(nccl) == sizeof(struct plugin), #nccl)

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

/* The arguments of init, which offsets do not check. */
int main(void) {
    ncclResult_t (*init1)(void **, int *) = ((ncclProfiler_v3_t *)0)->init;
    ncclResult_t (*init4)(void **, int *, const char *, uint64_t, int, int, int, ncclDebugLogger_t) =
        ((ncclProfiler_v4_t *)0)->init;
    ncclResult_t (*init5)(void **, uint64_t, int *, const char *, int, int, int, ncclDebugLogger_t) =
        ((ncclProfiler_v6_t *)0)->init;
    return !init1 + !init4 + !init5;
}
