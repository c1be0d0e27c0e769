#include "handler.h"
#include "system.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

enum { CONTROL = 3, ALIVE = 4, STACK = 64 << 10, DESCRIPTORS = 2, FIRST_SIGNAL = 1 };

static const char module[] = "tiresias.services.remote_memory.region.program_handler";
static const char control_text[] = "3";

struct start {
    const char *python, *file;
    int control, alive;
    char **environment;
    char *stacks;
    bool started;
};

/* Without the libraries that this process preloads: the handler must allocate nothing in a region. */
static char **own_environment(size_t count) {
    size_t kept = 0;
    char **found = system_memory((count + 1) * sizeof *found);
    for (size_t at = 0; found && at < count; at++)
        if (strncmp(environ[at], "LD_PRELOAD=", sizeof "LD_PRELOAD=" - 1) != 0)
            found[kept++] = environ[at];
    return found;
}

/* In the new process, which has this one's memory until exec and descriptors and signal handlers of its own. */
static int become_handler(void *argument) {
    struct start *start = argument;
    char *words[] = {(char *)start->python, "-m", (char *)module, (char *)control_text, (char *)start->file, NULL};
    sigset_t none;
    for (int each = FIRST_SIGNAL; each < NSIG; each++)
        signal(each, SIG_DFL);
    setsid();
    int null = open("/dev/null", O_RDWR);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 || dup2(start->control, CONTROL) < 0 ||
        dup2(start->alive, ALIVE) < 0 || syscall(SYS_close_range, ALIVE + 1, ~0U, 0) != 0 || chdir("/") != 0)
        _exit(127);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execve(start->python, words, start->environment);
    start->started = false;
    _exit(127);
}

/* A process between the two, so that the handler is no child of the program: its wait() does not find it. */
static int start_and_end(void *argument) {
    struct start *start = argument;
    start->started = true;
    if (clone(become_handler, start->stacks + STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, start) < 0)
        start->started = false;
    _exit(0);
}

/* No signal handler may run in the processes that share this one's memory. */
static bool run(struct start *start) {
    sigset_t all, kept;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &kept);
    pid_t middle = clone(start_and_end, start->stacks + 2 * STACK, CLONE_VM | CLONE_VFORK, start);
    while (middle > 0 && waitpid(middle, NULL, __WCLONE) < 0 && errno == EINTR)
        ;
    pthread_sigmask(SIG_SETMASK, &kept, NULL);
    return middle > 0 && start->started;
}

static bool spawn(struct start *start) {
    size_t count = 0;
    const char *python = getenv("TIRESIAS_REMEM_PYTHON");
    start->python = python ? python : "/usr/bin/python3";
    while (environ[count])
        count++;
    start->environment = own_environment(count);
    start->stacks = system_memory(2 * STACK);
    bool done = start->environment && start->stacks && run(start);
    if (start->stacks)
        system_unmap(start->stacks, 2 * STACK);
    if (start->environment)
        system_unmap(start->environment, (count + 1) * sizeof *start->environment);
    return done;
}

bool handler_start(struct handler *handler, const char *file) {
    int sockets[2] = {-1, -1}, pipes[2] = {-1, -1};
    bool made = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0 && pipe2(pipes, O_CLOEXEC) == 0;
    for (int each = 0; each < 2; each++)
        sockets[each] = system_moved_up(sockets[each]), pipes[each] = system_moved_up(pipes[each]);
    *handler = (struct handler){.control = sockets[0], .alive = pipes[0], .file = system_file_of(sockets[0])};
    struct start start = {.file = file, .control = sockets[1], .alive = pipes[1]};
    bool started = made && spawn(&start);
    if (sockets[1] >= 0)
        close(sockets[1]);
    if (pipes[1] >= 0)
        close(pipes[1]);
    if (!started)
        handler_close(handler);
    return started;
}

bool handler_send(struct handler *handler, const void *bytes, size_t size, const int *descriptors, size_t count) {
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(DESCRIPTORS * sizeof(int))];
    } control = {0};
    struct iovec part = {.iov_base = (void *)bytes, .iov_len = size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (count) {
        message.msg_control = &control, message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        control.head = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        control.head.cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(&control.head), descriptors, count * sizeof(int));
    }
    ssize_t sent;
    do
        sent = sendmsg(handler->control, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)size; /* a few bytes are sent whole */
}

bool handler_line(struct handler *handler, char *line, size_t size) {
    for (size_t got = 0; got < size;) {
        ssize_t count = recv(handler->control, line + got, size - got, 0);
        if (count <= 0 && !(count < 0 && errno == EINTR))
            return false;
        got += count > 0 ? (size_t)count : 0;
        if (got && line[got - 1] == '\n') {
            line[got - 1] = '\0';
            return true;
        }
    }
    return false;
}

bool handler_watch(struct handler *handler) {
    int flags = fcntl(handler->alive, F_GETFL);
    return fcntl(handler->alive, F_SETOWN, getpid()) == 0 && fcntl(handler->alive, F_SETSIG, SIGBUS) == 0 &&
           fcntl(handler->alive, F_SETFL, flags | O_ASYNC) == 0;
}

void handler_close(struct handler *handler) {
    if (handler->file && system_file_of(handler->control) == handler->file) {
        close(handler->control);
        close(handler->alive);
    }
    handler->control = handler->alive = -1;
}
