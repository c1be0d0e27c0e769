/* The recorder alone, from many threads and a child: for runs under sanitizers. Every record's size is its number; all
 * are recorded once. Arguments: threads, records of a thread, lives (how often threads end and begin again). */
#include "recorder.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static long records;
static const struct end here = {.family = 2, .port = 1}, there = {.family = 2, .port = 2};

static uint32_t opened(uint32_t number) {
    return tiresias_open_channel(CHANNEL_TCP, number, &here, &there);
}

static void *recorder(void *first) {
    long from = (long)first;
    uint32_t channel = opened((uint32_t)from), other = opened((uint32_t)from);
    for (long number = from; channel != NO_CHANNEL && number < from + records; number++)
        tiresias_record(channel, OP_SEND, 0, (uint64_t)number, 0);
    if (other != NO_CHANNEL)
        tiresias_close_channel(other);
    return NULL;
}

static void live(long threads, long first) {
    pthread_t thread[threads];
    for (long each = 0; each < threads; each++)
        pthread_create(&thread[each], NULL, recorder, (void *)(first + each * records));
    for (long each = 0; each < threads; each++)
        pthread_join(thread[each], NULL);
}

int main(int count, char **arguments) {
    if (count != 4)
        return 2;
    long threads = atol(arguments[1]), lives = atol(arguments[3]);
    records = atol(arguments[2]);
    for (long life = 0; life < lives; life++)
        live(threads, life * threads * records);
    pid_t child = fork();
    if (child == 0) {
        recorder(NULL);
        return tiresias_generation() != 2;
    }
    int status;
    return waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
}
