/* children touch | allocate | exec | has | descriptors | fixed | cancel: what children, and a program without its descriptors, have of a region.
 * Prints one line. */
#define _GNU_SOURCE
#include "checked.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

enum { SIZE = 4 << 20 };

static unsigned char *block(void) {
    unsigned char *memory = malloc(SIZE);
    memset(memory, 7, SIZE);
    return memory;
}

/* Allocations of a child are local; it may free what it has inherited, and gets SIGSEGV where it reads it. */
static void child(const char *what, unsigned char *inherited) {
    unsigned char *own = malloc(SIZE);
    memset(own, 1, SIZE);
    if (contains(own) || own[SIZE - 1] != 1)
        _exit(3);
    free(own);
    if (strcmp(what, "allocate") == 0) {
        free(inherited);
        _exit(calloc(1, SIZE) ? 0 : 4);
    }
    if (strcmp(what, "exec") == 0)
        execl("/proc/self/exe", "children", "has", NULL);
    for (int at = 0; at < 200; at++) /* no new mapping takes the place of the region */
        if (mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
            _exit(5);
    _exit(realloc(inherited, 2 * SIZE) ? 6 : 7);
}

static void in_child(const char *what) {
    int status;
    unsigned char *memory = block();
    if (!contains(memory))
        wrong("no region");
    pid_t pid = fork();
    if (pid == 0)
        child(what, memory);
    waitpid(pid, &status, 0);
    for (int at = 0; at < SIZE; at++)
        if (memory[at] != 7)
            wrong("the parent's byte %d is %d", at, memory[at]);
    if (waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD)
        wrong("the program has another child");
    printf("%s %d\n", WIFSIGNALED(status) ? "signal" : "code", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

/* Mappings over mappings of the region, and other operations on parts of it. */
static void fixed(void) {
    unsigned char *map = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!contains(map))
        wrong("no region");
    memset(map, 7, SIZE);
    if (mmap(map + PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != map + PAGE)
        wrong("a mapping over it: %s", strerror(errno));
    if (map[PAGE - 1] != 7 || map[PAGE] || map[2 * PAGE - 1] || map[2 * PAGE] != 7)
        wrong("a mapping over a page has other bytes");
    if (mmap(map, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED || errno != ENOMEM)
        wrong("a reservation over it was made");
    if (mprotect(map, SIZE, PROT_READ) != -1 || errno != ENOMEM || mprotect(map, SIZE, PROT_READ | PROT_WRITE) != 0)
        wrong("its protection was changed");
    if (madvise(map, SIZE, MADV_DOFORK) != -1 || madvise(map, SIZE, MADV_HUGEPAGE) != 0)
        wrong("advice: %s", strerror(errno));
    unsigned char *target = mmap(NULL, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mremap(map, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, target) != target || target[SIZE - 1] != 7 || contains(target))
        wrong("it did not move to another place");
    printf("done\n");
}

static atomic_bool freed;

static void *free_when_cancelled(void *memory) {
    pthread_cancel(pthread_self());
    free(memory);
    freed = true;
    pthread_testcancel();
    return NULL;
}

/* free() is no point of cancellation: it leaves no lock taken. */
static void cancel(void) {
    pthread_t thread;
    void *result;
    unsigned char *memory = block();
    if (!contains(memory) || pthread_create(&thread, NULL, free_when_cancelled, memory) != 0)
        wrong("no region, or no thread");
    pthread_join(thread, &result);
    free(block());
    if (!freed || result != PTHREAD_CANCELED)
        wrong("the thread was cancelled in free");
    printf("done\n");
}

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "";
    if (strcmp(what, "has") == 0) {
        unsigned char *memory = block();
        return memory[SIZE - 1] == 7 && contains(memory) ? 20 : 10;
    }
    if (strcmp(what, "descriptors") == 0) {
        volatile unsigned char *memory = block();
        for (int each = 3; each < 1024; each++)
            close(each);
        for (int at = 0; at < SIZE; at += PAGE) /* it must not read zeros */
            if (memory[at] != 7)
                wrong("byte %d is %d", at, memory[at]);
        for (;;)
            pause();
    }
    if (strcmp(what, "fixed") == 0)
        fixed();
    else if (strcmp(what, "cancel") == 0)
        cancel();
    else
        in_child(what);
    return 0;
}
