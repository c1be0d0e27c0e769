/* Only headers are looked at: 9 bytes of each frame (RFC 9113) and 5 of each message (gRPC over HTTP/2: the flag
 * that marks compression, and its length). All else is skipped. Memory is bounded: connections and, in each, streams
 * with an unfinished message. What does not fit is recorded call by call, as any other connection. */
#include "framing.h"

#include <string.h>

enum { CONNECTIONS = 256, STREAMS = 64 };
enum { FRAME_HEADER = 9, PREFIX = 5 };
enum { DATA = 0, RESET = 3, SETTINGS = 4, LAST_TYPE = 9 };
enum { PADDED = 8 };

static const char preface[24] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"; /* of a client; a server begins with its settings */

struct stream {
    uint32_t id; /* 0: free */
    uint32_t length, left;
    uint8_t prefix[PREFIX], have;
};

struct connection {
    _Atomic uint64_t owner;
    _Atomic bool busy;
    uint8_t header[FRAME_HEADER], have;
    uint8_t preface_left;
    uint32_t left; /* of the frame */
    struct stream streams[STREAMS];
};

static struct connection connections[CONNECTIONS];

static uint64_t owner_of(uint32_t channel) {
    return (uint64_t)tiresias_generation() << 32 | channel;
}

static struct connection *connection_of(uint32_t channel) {
    return &connections[channel % CONNECTIONS];
}

static size_t least(size_t one, size_t other) {
    return one < other ? one : other;
}

/* Takes up to `most` bytes, copying them if there is somewhere to. How many there were. */
static size_t take(struct sent *sent, size_t *offset, void *to, size_t most) {
    size_t taken = 0;
    while (taken < most && sent->size) {
        size_t size = least(least(sent->parts->iov_len - *offset, most - taken), sent->size);
        if (to && size)
            memcpy((char *)to + taken, (const char *)sent->parts->iov_base + *offset, size);
        taken += size;
        sent->size -= size;
        *offset += size;
        if (*offset == sent->parts->iov_len) {
            sent->parts++;
            *offset = 0;
        }
    }
    return taken;
}

static uint32_t big_endian(const uint8_t *bytes, int count) {
    uint32_t value = 0;
    for (int at = 0; at < count; at++)
        value = value << 8 | bytes[at];
    return value;
}

static bool begins_with_settings(const uint8_t *header) {
    uint32_t length = big_endian(header, 3);
    return length % 6 == 0 && length < 256 && header[3] == SETTINGS && big_endian(header + 4, 5) == 0;
}

/* Leaves it busy. Owners of another generation were the parent's, before a fork. */
static bool occupy(struct connection *connection, uint64_t owner) {
    uint64_t before = connection->owner;
    if ((before && before >> 32 == owner >> 32) || atomic_exchange(&connection->busy, true))
        return false;
    if (atomic_compare_exchange_strong(&connection->owner, &before, owner))
        return true;
    connection->busy = false;
    return false;
}

bool framing_begin(uint32_t channel, struct sent sent) {
    uint8_t start[sizeof preface] = {0};
    size_t offset = 0, size = take(&sent, &offset, start, sizeof start);
    bool client = size == sizeof preface && memcmp(start, preface, sizeof preface) == 0;
    if (!client && !(size >= FRAME_HEADER && begins_with_settings(start)))
        return false;
    struct connection *connection = connection_of(channel);
    if (!occupy(connection, owner_of(channel)))
        return false;
    connection->have = 0;
    connection->left = 0;
    connection->preface_left = client ? sizeof preface : 0;
    memset(connection->streams, 0, sizeof connection->streams);
    connection->busy = false;
    return true;
}

static struct stream *find(struct connection *connection, uint32_t id) {
    for (struct stream *stream = connection->streams; stream < connection->streams + STREAMS; stream++)
        if (stream->id == id)
            return stream;
    return NULL;
}

/* The stream of this frame; a new one where none of its messages is unfinished. */
static struct stream *stream_of(struct connection *connection) {
    uint32_t id = big_endian(connection->header + 5, 4) & INT32_MAX;
    struct stream *stream = id ? find(connection, id) : NULL;
    if (!stream && id && (stream = find(connection, 0)))
        *stream = (struct stream){.id = id};
    return stream;
}

static void end_message(struct stream *stream, uint32_t channel) {
    if (stream->length)
        tiresias_record(channel, OP_SEND, 0, stream->length, stream->length);
    stream->id = 0;
}

static bool begin_message(struct stream *stream) {
    stream->length = stream->left = big_endian(stream->prefix + 1, 4);
    return stream->prefix[0] <= 1;
}

/* Some bytes of a frame of data. */
static bool follow_data(struct connection *connection, uint32_t channel, struct sent *sent, size_t *offset) {
    struct stream *stream = stream_of(connection);
    if (!stream)
        return false;
    bool in_prefix = stream->have < PREFIX;
    size_t most = least(connection->left, in_prefix ? (size_t)(PREFIX - stream->have) : stream->left);
    size_t size = take(sent, offset, in_prefix ? stream->prefix + stream->have : NULL, most);
    connection->left -= (uint32_t)size;
    if (in_prefix)
        stream->have += (uint8_t)size;
    else
        stream->left -= (uint32_t)size;
    if (in_prefix && stream->have == PREFIX && !begin_message(stream))
        return false;
    if (stream->have == PREFIX && stream->left == 0)
        end_message(stream, channel);
    return true;
}

static bool begin_frame(struct connection *connection) {
    uint8_t type = connection->header[3], flags = connection->header[4];
    connection->left = big_endian(connection->header, 3);
    if (type == RESET) {
        struct stream *ended = stream_of(connection);
        if (ended)
            ended->id = 0;
    }
    return type <= LAST_TYPE && !(type == DATA && flags & PADDED);
}

/* A part of a header, of data, or of what is skipped. */
static bool step(struct connection *connection, uint32_t channel, struct sent *sent, size_t *offset) {
    bool fine = true;
    if (connection->preface_left) {
        connection->preface_left -= (uint8_t)take(sent, offset, NULL, connection->preface_left);
        return true;
    }
    if (connection->have < FRAME_HEADER) {
        uint8_t *rest = connection->header + connection->have;
        connection->have += (uint8_t)take(sent, offset, rest, FRAME_HEADER - connection->have);
        fine = connection->have < FRAME_HEADER || begin_frame(connection);
    } else if (connection->header[3] == DATA) {
        fine = follow_data(connection, channel, sent, offset);
    } else {
        connection->left -= (uint32_t)take(sent, offset, NULL, connection->left);
    }
    if (connection->have == FRAME_HEADER && connection->left == 0)
        connection->have = 0;
    return fine;
}

bool framing_follow(uint32_t channel, struct sent sent) {
    struct connection *connection = connection_of(channel);
    size_t offset = 0;
    bool fine = connection->owner == owner_of(channel) && !atomic_exchange(&connection->busy, true);
    if (!fine)
        return false;
    while (fine && sent.size)
        fine = step(connection, channel, &sent, &offset);
    connection->busy = false;
    return fine;
}

void framing_end(uint32_t channel) {
    uint64_t owner = owner_of(channel);
    atomic_compare_exchange_strong(&connection_of(channel)->owner, &owner, 0);
}
