/* What the library prints of its own accord: one line on standard error when a kernel of the user's is compiled, none
 * when it comes from the cache of files, none once the program has said what it wants of notices. Each case is a
 * process of its own. */
#include <sys/wait.h>

#include "axpy.h"
#include "weir/log.h"

typedef enum wish { UNSAID, NONE, FUNCTION } wish;
typedef struct notice_case {
    const char *name;
    const char *cache; /* folder below ours */
    wish wish;
    const char *traced;
    int n_lines;
} notice_case;

static const notice_case cases[] = {
    {"a cold compilation is one line", "a", UNSAID, "", 1},
    {"a kernel from the cache is none", "a", UNSAID, "", 0},
    {"a program that wants no notices gets none", "b", NONE, "", 0},
    {"a function takes the line", "c", FUNCTION, "", 0},
    {"WEIR_TRACE shows it", "d", NONE, "time", 1},
};

static int n_taken;
static void take(void *context, const char *text) {
    (void)context;
    if (strstr(text, " compiled for ")) n_taken++;
}

static int compile(const device_args *args, const notice_case *c) {
    weir_kernel *k;
    weir_device *device = open_or_exit(args->device);
    if (c->wish != UNSAID) weir_set_log(c->wish == FUNCTION ? take : NULL, NULL);
    setenv("WEIR_TRACE", c->traced, 1);
    MUST(weir_kernel_new(device, AXPY, axpy, NULL, &k, err));
    weir_kernel_free(k);
    weir_device_close(device);
    return n_taken == (c->wish == FUNCTION) ? 0 : 1;
}

static int run_case(const device_args *args, const notice_case *c, const char *folder, char *said, size_t size) {
    char path[512];
    int ends[2], status = 0;
    if (pipe(ends) != 0) return -1;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        snprintf(path, sizeof path, "%s/%s", folder, c->cache);
        setenv("WEIR_KERNEL_CACHE", path, 1);
        exit(compile(args, c));
    }
    close(ends[1]);
    size_t n = 0;
    for (ssize_t got; pid > 0 && n + 1 < size && (got = read(ends[0], said + n, size - 1 - n)) > 0;) n += (size_t)got;
    said[n] = 0;
    close(ends[0]);
    if (pid < 0 || waitpid(pid, &status, 0) != pid) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int main(int argc, char **argv) {
    device_args args = read_args(argc, argv);
    static const char start[] = "weir: kernel " AXPY " compiled for sm_";
    char folder[256], said[4096];
    bool good = true;
    if (!make_folder(folder, sizeof folder)) return 1;
    use_fake_compiler(); /* this process never touches the driver, so its children need no exec */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const notice_case *c = &cases[i];
        int code = run_case(&args, c, folder, said, sizeof said), n_lines = 0;
        if (code == 77) {
            remove_all(folder);
            return 77;
        }
        for (const char *p = said; *p; p++) n_lines += *p == '\n';
        bool is_right = code == 0 && n_lines == c->n_lines;
        is_right = is_right && (!n_lines || (!strncmp(said, start, strlen(start)) && strstr(said, " ms by NVRTC ")));
        if (!is_right) complain("%s: exit code %d, %d lines: %s", c->name, code, n_lines, said);
        good = good && is_right;
        print_json("notices", "\"case\": \"%s\", \"lines\": %d, \"passed\": %s", c->name, n_lines,
                   is_right ? "true" : "false");
    }
    remove_all(folder);
    return good ? 0 : 1;
}
