/* Feeds what gRPC may send, and what no program does, into the recorder's framing: streams mixed, frames cut anywhere, then the
 * same with bytes changed. Exits 0 when every message of the unchanged bytes was recorded (the reader checks its size).
 *
 *     framing SEED ROUNDS */
#include "framing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 16, STREAMS = 5 };

static unsigned char bytes[4 * MOST];
static size_t used;

static void put(const void *from, size_t size) {
    memcpy(bytes + used, from, size);
    used += size;
}

static void frame(unsigned type, unsigned stream, const void *payload, size_t size) {
    unsigned char header[9] = {size >> 16, size >> 8, size, type, 0, 0, 0, stream >> 8, stream};
    put(header, sizeof header);
    put(payload, size);
}

/* Each message as gRPC cuts it: frames of at most `part` bytes, those of two streams one after the other. */
static void messages(unsigned round) {
    static unsigned char text[2][5 + 4096];
    size_t size[2], at[2] = {0, 0}, part = 1 + rand() % 1500;
    used = 0;
    put("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
    frame(4, 0, "", 0);
    for (int one = 0; one < 2; one++) {
        uint32_t length = rand() % 4096;
        size[one] = 5 + length;
        memset(text[one], 0, sizeof text[one]);
        text[one][3] = length >> 8;
        text[one][4] = length;
        printf("%u ", length);
    }
    while (at[0] < size[0] || at[1] < size[1])
        for (int one = 0; one < 2; one++) {
            size_t left = size[one] - at[one], now = left < part ? left : part;
            if (now)
                frame(0, 1 + 2 * one + 4 * (round % STREAMS), text[one] + at[one], now);
            at[one] += now;
        }
}

/* In calls of any size, each of one or two buffers. */
static bool send_all(uint32_t channel) {
    size_t at = 0;
    bool follows = true;
    for (bool first = true; at < used && follows; first = false) {
        size_t size = 1 + rand() % 700, half;
        size = first ? 24 + size : size;
        size = size < used - at ? size : used - at;
        half = rand() % (size + 1);
        struct iovec parts[2] = {{bytes + at, half}, {bytes + at + half, size - half}};
        struct sent sent = {parts, 2, size};
        follows = (!first || framing_begin(channel, sent)) && framing_follow(channel, sent);
        at += size;
    }
    framing_end(channel);
    return follows;
}

int main(int count, char **words) {
    srand(count > 1 ? atoi(words[1]) : 1);
    unsigned rounds = count > 2 ? atoi(words[2]) : 100, lost = 0;
    struct end end = {.family = 2};
    uint32_t channel = tiresias_open_channel(CHANNEL_TCP, 3, &end, &end);
    uint32_t other = tiresias_open_channel(CHANNEL_TCP, 4, &end, &end);
    for (unsigned round = 0; round < rounds; round++) {
        messages(round);
        lost += !send_all(channel);
    }
    for (unsigned round = 0; round < rounds; round++) {
        messages(round);
        for (int change = rand() % 20; change >= 0; change--)
            bytes[rand() % used] = rand();
        send_all(other);
    }
    return lost != 0;
}
