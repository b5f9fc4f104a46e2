/* A program that uses weir ends as it wants to: six ways to end, with the device idle and with work in flight, nothing
 * closed. Each runs in processes of its own, which must end with the code they chose, without a signal and without a
 * word on stderr. The parent never touches the driver, so a child needs no exec. */
#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>

#include "device.h"

typedef enum ending { RETURN, EXIT } ending;
typedef struct exit_case {
    const char *name;
    bool op_on_main, op_on_second, end_on_second;
    ending how;
} exit_case;

static const exit_case cases[] = {
    {"return from main", true, false, false, RETURN},
    {"exit(3) from main", true, false, false, EXIT},
    {"op and exit(3) on a second thread", false, true, true, EXIT},
    {"op on main, exit(3) from a second thread", true, false, true, EXIT},
    {"a device shared by threads, return from main", true, true, false, RETURN},
    {"a device shared by threads, exit(3) from a second", true, true, true, EXIT},
};
enum { N_CASES = sizeof cases / sizeof *cases };

/* What a child knows. */
typedef struct child {
    const exit_case *c;
    const device_args *args;
    bool busy;
    weir_device *device;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool second_is_ready;
} child;

/* Something evaluated, and when work is to be in flight a long program begun. */
static void operate(child *k) {
    if (!k->device) k->device = open_or_exit(k->args->device);
    weir_graph *g;
    MUST(weir_graph_new(k->device, &g, err));
    weir_array *sum = weir_sum(weir_arange(g, WEIR_DTYPE_I32, 0, 1000, 1), 0, NULL, false);
    MUST(weir_eval(&sum, 1, err));
    const int64_t *value = weir_array_data(sum);
    if (!value || *value != 499500) {
        complain("the sum is wrong");
        exit(1);
    }
    if (!k->busy) return;
    wr_program *program; /* some 50 ms on a card */
    int64_t size = k->args->quick ? 64 : 4096;
    MUST(chain_new(k->device, size, k->args->quick ? 4 : 20, &program, err));
    MUST(wr_program_start(program, err));
}

static void *second_thread(void *context) {
    child *k = context;
    if (k->c->op_on_second) operate(k);
    if (k->c->end_on_second) exit(3);
    pthread_mutex_lock(&k->lock);
    k->second_is_ready = true;
    pthread_cond_signal(&k->changed);
    pthread_mutex_unlock(&k->lock);
    for (;;) pause(); /* it is alive when the process ends */
}

/* The child's part of main: what it returns, main returns. */
static int live_and_end(child *k) {
    pthread_t thread;
    if (k->c->op_on_main) operate(k);
    if (k->c->op_on_second || k->c->end_on_second) {
        if (pthread_create(&thread, NULL, second_thread, k)) return 1;
        if (k->c->end_on_second)
            for (;;) pause();
        pthread_mutex_lock(&k->lock);
        while (!k->second_is_ready) pthread_cond_wait(&k->changed, &k->lock);
        pthread_mutex_unlock(&k->lock);
    }
    if (k->c->how == EXIT) exit(3);
    return 0;
}

/* What came of a child: NULL, or what was wrong. */
static const char *judge(const exit_case *c, int status, int output, char *text, size_t size) {
    char words[400];
    ssize_t n = lseek(output, 0, SEEK_SET) == 0 ? read(output, words, sizeof words - 1) : 0;
    words[n > 0 ? n : 0] = 0;
    for (char *p = words; *p; p++)
        if (*p == '"' || *p == '\\' || (unsigned char)*p < ' ') *p = ' ';
    int expected = c->how == EXIT ? 3 : 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == expected && n == 0) return NULL;
    if (WIFSIGNALED(status))
        snprintf(text, size, "signal %d; stderr: %s", WTERMSIG(status), words);
    else
        snprintf(text, size, "exit code %d, expected %d; stderr: %s", WEXITSTATUS(status), expected, words);
    return text;
}

static int open_output(void) {
    char path[] = "/tmp/weir-exit-XXXXXX";
    int fd = mkstemp(path);
    if (fd >= 0) unlink(path);
    return fd;
}

/* A machine without a card has nothing to prove. */
static bool has_card(const device_args *args) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        open_or_exit(args->device);
        _exit(0);
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid) return false;
    return !(WIFEXITED(status) && WEXITSTATUS(status) == 77);
}

/* One run of a case in a process of its own. In the child it returns what main is to return, and *pid is 0. */
static int begin(const exit_case *c, bool busy, const device_args *args, pid_t *pid, int *output) {
    *output = open_output();
    fflush(stdout);
    *pid = fork();
    if (*pid) return 0;
    static child k = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    k.c = c, k.args = args, k.busy = busy;
    dup2(*output, STDERR_FILENO);
    if (busy) setenv("WR_EMULATE_ASYNC", "1", 1);
    alarm(300); /* one that hangs ends by a signal */
    return live_and_end(&k);
}

enum { MAX_AT_ONCE = 32 };

int main(int argc, char **argv) {
    device_args args = read_args(argc, argv); /* --threads: processes at once */
    long n = args.n ? args.n : args.quick ? 1 : 50, at_once = args.threads ? args.threads : 8;
    if (at_once > MAX_AT_ONCE) at_once = MAX_AT_ONCE;
    bool good = true;
    if (!has_card(&args)) return 77;
    for (int i = 0; i < 2 * N_CASES; i++) {
        const exit_case *c = &cases[i / 2];
        bool busy = i % 2;
        long n_right = 0, running;
        char wrong[600] = "";
        double start = now_s();
        for (long r = 0; r < n; r += running) {
            pid_t pids[MAX_AT_ONCE];
            int outputs[MAX_AT_ONCE];
            for (running = 0; running < at_once && r + running < n; running++) {
                int code = begin(c, busy, &args, &pids[running], &outputs[running]);
                if (pids[running] == 0) return code;
                if (pids[running] < 0) return 1;
            }
            for (long k = 0; k < running; k++) {
                int status = 0;
                if (waitpid(pids[k], &status, 0) != pids[k]) return 1;
                if (!judge(c, status, outputs[k], wrong, sizeof wrong)) n_right++;
                close(outputs[k]);
            }
        }
        good = good && n_right == n;
        print_json("exit",
                   "\"case\": \"%s\", \"work\": \"%s\", \"runs\": %ld, \"right\": %ld, \"expected\": %d, "
                   "\"seconds\": %.2f, \"wrong\": \"%s\", \"passed\": %s",
                   c->name, busy ? "in flight" : "idle", n, n_right, c->how == EXIT ? 3 : 0, now_s() - start, wrong,
                   n_right == n ? "true" : "false");
    }
    return good ? 0 : 1;
}
