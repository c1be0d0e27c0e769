/* How many processes of one launch may have a region at the same time: each takes a place, which ends with it. */
#ifndef TIRESIAS_PLACES_H
#define TIRESIAS_PLACES_H

#include <stdbool.h>

/* Take a place. Returns false where all are taken; without a launch there is no bound. */
bool places_take(int *place);
void places_leave(int *place);

#endif
