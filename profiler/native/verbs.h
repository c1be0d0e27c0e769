/* Recording what a program posts to its queue pairs. */
#ifndef TIRESIAS_VERBS_H
#define TIRESIAS_VERBS_H

#include <infiniband/verbs.h>

/* Has the context's posts go through us; once a context. */
void verbs_watch_posts(struct ibv_context *context);

/* Has the wr_* functions of this queue pair go through us; once a queue pair. */
void verbs_watch_extended(struct ibv_qp_ex *qp);

#endif
