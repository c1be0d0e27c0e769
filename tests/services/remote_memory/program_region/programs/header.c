/* header FILE: the functions of tiresias_remem.h, in a program that is linked with the library. Prints the statistics. */
#define _GNU_SOURCE
#include "checked.h"
#include "tiresias_remem.h"

#include <errno.h>

enum { MIB = 1 << 20 };

int main(int count, char **words) {
    char text[4096];
    if (count != 2 || !tiresias_remem_open(words[1]))
        return 3;
    char *one = tiresias_remem_alloc(5 * MIB), *two = tiresias_remem_alloc(100);
    if (!one || !two || one[5 * MIB - 1] || tiresias_remem_usable_size(two) != PAGE || !tiresias_remem_contains(two))
        wrong("two blocks");
    memset(one, 1, 5 * MIB);
    memset(two, 2, 100);
    two = tiresias_remem_realloc(two, 3 * MIB);
    one = tiresias_remem_realloc(one, MIB);
    if (two[0] != 2 || two[99] != 2 || two[PAGE] || one[MIB - 1] != 1)
        wrong("a block of another size has other bytes");
    tiresias_remem_free(one);
    tiresias_remem_free(NULL);
    if (tiresias_remem_alloc((size_t)1 << 40) || errno != ENOMEM || tiresias_remem_contains(text))
        wrong("a block beyond the region");
    one = tiresias_remem_alloc(5 * MIB);
    for (int at = 0; at < 5 * MIB; at++)
        if (one[at])
            wrong("byte %d of a reused block is %d", at, one[at]);
    if (!tiresias_remem_statistics(text, sizeof text) || tiresias_remem_statistics(text, 2))
        wrong("statistics");
    printf("%s\n", text);
    return 0;
}
