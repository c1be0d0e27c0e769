/* NCCL's words and numbers for functions and data types. */
#ifndef TIRESIAS_NCCL_WORDS_H
#define TIRESIAS_NCCL_WORDS_H

#include "../format.h"

#include <stddef.h>

enum collective function_of_number(uint8_t number);
enum collective function_of_word(const char *word);

/* OP_SEND or OP_RECV. */
enum operation direction_of_number(uint8_t number);
enum operation direction_of_word(const char *word);

/* Bytes of an element. */
size_t size_of_number(uint8_t number);
size_t size_of_word(const char *word);

#endif
