/* What programs do that makes life hard for a library in them: the first argument names it. Prints the records to
 * expect of this process. */
#define _GNU_SOURCE
#include "pair.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <sys/syscall.h>

enum { THREADS = 200, SENDS = 500 };

static struct pair tcp;
extern char **environ;

static void transmit(size_t size) {
    expect(SEND, 0, size, send(tcp.local, "................................", size, 0));
}

static void reaped(pid_t child) {
    int status;
    must(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0, "child");
}

static void send_in_child(void) {
    must(send(tcp.local, "..", 2, 0) == 2, "send in child");
    _exit(0);
}

static void with_fork(void) {
    transmit(1);
    pid_t child = fork();
    if (child == 0)
        send_in_child();
    reaped(child);
    transmit(3);
}

/* A fork that no handler of pthread_atfork sees. */
static void with_clone(void) {
    transmit(1);
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0)
        send_in_child();
    reaped(child);
    transmit(3);
}

/* Children in borrowed memory close and move descriptors of their own. */
static void with_vfork(void) {
    transmit(1);
    pid_t child = vfork();
    if (child == 0) {
        dup2(1, tcp.local);
        close(tcp.local);
        execl("/bin/true", "true", NULL);
        _exit(1);
    }
    reaped(child);
    transmit(3);
}

static void with_spawn(void) {
    char *arguments[] = {"true", NULL};
    posix_spawn_file_actions_t actions;
    pid_t child;
    transmit(1);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, 1, tcp.local);
    must(posix_spawn(&child, "/bin/true", &actions, NULL, arguments, environ) == 0, "posix_spawn");
    reaped(child);
    transmit(3);
}

static void with_exec(char *program) {
    transmit(1);
    char number[16];
    snprintf(number, sizeof number, "%d", tcp.local);
    execl(program, program, "inherited", number, NULL);
}

static void with_close_all(void) {
    transmit(1);
    for (int fd = 3; fd < 5000; fd++)
        close(fd);
    tcp = connected();
    transmit(3);
}

static void *sender(void *unused) {
    struct pair mine = connected();
    for (int each = 0; each < SENDS; each++)
        must(send(mine.local, "......", 6, MSG_DONTWAIT) == 6, "send");
    close(mine.local), close(mine.remote);
    return unused;
}

static void with_threads(void) {
    static pthread_t threads[THREADS];
    for (int each = 0; each < THREADS; each++)
        must(pthread_create(&threads[each], NULL, sender, NULL) == 0, "pthread_create");
    for (int each = 0; each < THREADS; each++)
        pthread_join(threads[each], NULL);
    printf("%d\n", THREADS * SENDS);
}

static void *one_send(void *unused) {
    must(send(tcp.local, "......", 6, 0) == 6, "send");
    return unused;
}

static void with_short_threads(void) {
    for (int each = 0; each < 3000; each++) {
        pthread_t thread;
        must(pthread_create(&thread, NULL, one_send, NULL) == 0, "pthread_create");
        pthread_join(thread, NULL);
    }
    printf("3000\n");
}

static volatile sig_atomic_t handled;

static void on_alarm(int signal) {
    (void)signal;
    if (send(tcp.remote, ".......", 7, MSG_DONTWAIT) == 7)
        handled++;
}

/* Until the handler has run often, in the middle of whatever. */
static void with_signals(void) {
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    timer_t timer;
    struct itimerspec often = {{0, 50000}, {0, 50000}};
    must(timer_create(CLOCK_MONOTONIC, NULL, &timer) == 0 && timer_settime(timer, 0, &often, NULL) == 0, "timer");
    long sent = 0;
    while (handled < 1000) {
        char buffer[4096];
        sent += send(tcp.local, "", 0, 0) == 0;
        if (sent % 1000 == 0)
            while (syscall(SYS_recvfrom, tcp.local, buffer, sizeof buffer, MSG_DONTWAIT, NULL, NULL) > 0)
                ; /* unseen: it makes space for the handler's next ones */
        if (sent > 300000)
            break;
    }
    timer_delete(timer);
    printf("%ld %d\n", sent, (int)handled);
}

static void with_kill(void) {
    transmit(1), transmit(2), transmit(3);
    raise(SIGKILL);
}

/* Arguments: how many sends; a file to make after the first half, if any, with time for it to be seen. */
static void with_many(long count, char *stop) {
    for (long each = 0; each < count; each++) {
        if (stop && each == count / 2) {
            close(open(stop, O_CREAT | O_WRONLY, 0600));
            usleep(200000);
        }
        must(send(tcp.local, "", 0, 0) == 0, "send");
    }
}

int main(int count, char **arguments) {
    const char *what = count > 1 ? arguments[1] : "";
    if (strcmp(what, "inherited") == 0) {
        tcp.local = atoi(arguments[2]);
        transmit(3);
        return 0;
    }
    tcp = connected();
    if (strcmp(what, "fork") == 0) with_fork();
    else if (strcmp(what, "clone") == 0) with_clone();
    else if (strcmp(what, "vfork") == 0) with_vfork();
    else if (strcmp(what, "spawn") == 0) with_spawn();
    else if (strcmp(what, "exec") == 0) with_exec(arguments[0]);
    else if (strcmp(what, "close-all") == 0) with_close_all();
    else if (strcmp(what, "threads") == 0) with_threads();
    else if (strcmp(what, "short-threads") == 0) with_short_threads();
    else if (strcmp(what, "signals") == 0) with_signals();
    else if (strcmp(what, "kill") == 0) with_kill();
    else if (strcmp(what, "many") == 0) with_many(atol(arguments[2]), arguments[3]);
    else return 2;
}
