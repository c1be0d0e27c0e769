#include "words.h"

#include <string.h>

enum { RECEIVE = 7 /* of ncclFunc_t */ };

/* By ncclFunc_t of 2.23, the only version that passes numbers. */
static const enum collective functions[] = {BROADCAST, REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_REDUCE};

/* By ncclDataType_t. */
static const uint8_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

static const struct {
    const char *word;
    enum collective function;
} named_functions[] = {
    {"AllReduce", ALL_REDUCE}, {"AllGather", ALL_GATHER}, {"ReduceScatter", REDUCE_SCATTER},
    {"Broadcast", BROADCAST},  {"Reduce", REDUCE},        {"AlltoAll", ALL_TO_ALL},
};

static const struct {
    const char *word;
    uint8_t size;
} named_sizes[] = {
    {"ncclInt32", 4},   {"ncclUint32", 4},  {"ncclInt64", 8},   {"ncclUint64", 8},
    {"ncclFloat16", 2}, {"ncclFloat32", 4}, {"ncclFloat64", 8}, {"ncclBfloat16", 2},
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum collective function_of_number(uint8_t number) {
    return number < COUNT(functions) ? functions[number] : OTHER;
}

enum collective function_of_word(const char *word) {
    for (size_t each = 0; word && each < COUNT(named_functions); each++)
        if (strcmp(word, named_functions[each].word) == 0)
            return named_functions[each].function;
    return OTHER;
}

enum operation direction_of_number(uint8_t number) {
    return number == RECEIVE ? OP_RECV : OP_SEND;
}

enum operation direction_of_word(const char *word) {
    return word && strcmp(word, "Recv") == 0 ? OP_RECV : OP_SEND;
}

size_t size_of_number(uint8_t number) {
    return number < COUNT(sizes) ? sizes[number] : 1;
}

/* All types without an entry have one byte: NCCL has no name for ncclUint8 and passes "Unknown". */
size_t size_of_word(const char *word) {
    for (size_t each = 0; word && each < COUNT(named_sizes); each++)
        if (strcmp(word, named_sizes[each].word) == 0)
            return named_sizes[each].size;
    return 1;
}
