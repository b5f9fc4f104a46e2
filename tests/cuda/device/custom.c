/* The user's kernels (weir/custom.h), and weir_clear_cache: right results by evaluation and in a program, kernels of
 * one name told apart, compile errors and missing headers as statuses, the cache of files hit, spoilt and shared by
 * processes, lifetimes, and a kernel that reads outside its arrays. */
#include "sweep.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "array/custom.h"
#include "axpy.h"
#include "weir/log.h"

static bool good = true;
static char folder[256]; /* of everything this program writes */

static void expect(const char *what, bool is_right, const char *said) {
    char text[2048];
    snprintf(text, sizeof text, "%.2000s", said ? said : "");
    for (char *p = text; *p; p++)
        if (*p == '"' || *p == '\\' || (unsigned char)*p < ' ') *p = *p == '\n' ? ' ' : '\'';
    if (!is_right) good = false;
    print_json("custom", "\"case\": \"%s\", \"message\": \"%s\", \"passed\": %s", what, text,
               is_right ? "true" : "false");
}

/* ---- notices ---- */

static struct {
    int compiled, other;
    char last[4096];
} notices;

static void take_notice(void *context, const char *text) {
    (void)context;
    if (strstr(text, " compiled for "))
        notices.compiled++;
    else
        notices.other++;
    snprintf(notices.last, sizeof notices.last, "%s", text);
}

static void forget_notices(void) { memset(&notices, 0, sizeof notices); }

/* ---- the cache's folder ---- */

static void use_cache(const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s/kernels", folder, name);
    setenv("WEIR_KERNEL_CACHE", path, 1);
}

/* Files of the cache with this ending; the last one's path. */
static int count_files(const char *ending, char *path, size_t size) {
    const char *cache = getenv("WEIR_KERNEL_CACHE");
    DIR *d = opendir(cache);
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        size_t length = strlen(e->d_name), k = strlen(ending);
        if (length < k || strcmp(e->d_name + length - k, ending) != 0) continue;
        n++;
        if (path) snprintf(path, size, "%s/%s", cache, e->d_name);
    }
    if (d) closedir(d);
    return n;
}

static void write_file(const char *path, const char *text, long at, const char *mode) {
    FILE *f = fopen(path, mode);
    if (!f) return;
    if (at) fseek(f, at, SEEK_SET);
    fputs(text, f);
    fclose(f);
}

/* ---- results and calls ---- */

static void results(weir_device *device) {
    weir_kernel *k;
    weir_error fault = {0};
    bool is_right = true, one;
    MUST(weir_kernel_new(device, AXPY, axpy, NULL, &k, err));
    static const int64_t sizes[] = {1, 2, 31, 256, 257, 10007};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (double a = 1; a < 4; a++) { /* the second time from the cache of programs; scalars are part of its key */
            MUST(evaluate_axpy(device, k, a, sizes[i], &one, err));
            is_right = is_right && one;
        }
    expect("a kernel between ops, evaluated", is_right, NULL);
    weir_graph *g;
    wr_program *program = NULL;
    MUST(weir_graph_new(device, &g, err));
    weir_array *z = build_axpy(g, k, 3, 1000);
    MUST(wr_program_new(&z, 1, NULL, &program, err));
    weir_graph_free(g);
    weir_kernel_free(k); /* the program holds it */
    float *got = calloc(1000, sizeof *got);
    is_right = got != NULL;
    for (int run = 0; run < 4 && is_right; run++) {
        MUST(wr_program_run(program, err));
        MUST(wr_device_download(device, got, wr_program_output(program, 0)->data, 1000 * sizeof *got, err));
        is_right = is_axpy(got, 3, 1000);
    }
    free(got);
    wr_program_free(program);
    expect("a program outlives the user's hold of its kernel", is_right, fault.message);
}

static void wrong_calls(weir_device *device) {
    weir_kernel *k;
    MUST(weir_kernel_new(device, AXPY, axpy, NULL, &k, err));
    int64_t n = 8;
    double a = 1;
    const weir_kernel_call right = {.dtype = WEIR_DTYPE_F32,
                                    .n_dims = 1,
                                    .shape = &n,
                                    .blocks = {1},
                                    .threads = {32},
                                    .scalars = {{&a, sizeof a}, {&n, sizeof n}},
                                    .n_scalars = 2};
    weir_kernel_call calls[6];
    for (int i = 0; i < 6; i++) calls[i] = right;
    calls[0].n_scalars = 1;
    calls[1].scalars[0].bytes = sizeof(float);
    calls[2].threads[0] = 2048;
    calls[3].blocks[1] = 70000;
    calls[4].shared_bytes = (size_t)1 << 20;
    calls[5].shape = (int64_t[]){-1};
    static const char *const words[] = {"takes 5 parameters", "8 bytes, scalar 0 has 4", "2048 threads",
                                        "70000 blocks",       "shared memory",           "negative"};
    for (int i = 0; i < 6; i++) {
        weir_graph *g;
        weir_error fault = {0};
        if (weir_graph_new(device, &g, &fault) != WEIR_OK) continue;
        weir_array *x = weir_arange(g, WEIR_DTYPE_F32, 0, 8, 1);
        weir_array *z = weir_custom(g, k, (weir_array *[]){x, x}, 2, &calls[i]);
        weir_status status = weir_eval(&z, 1, &fault);
        expect("a wrong call is refused", status == WEIR_E_ARGUMENT && strstr(fault.message, words[i]), fault.message);
        weir_graph_free(g);
    }
    weir_kernel_free(k);
}

/* ---- names, sources, flags ---- */

static void same_name(weir_device *device) {
    weir_kernel *a, *b, *c, *d;
    char other[sizeof axpy + 64];
    snprintf(other, sizeof other, "// another\n%s", axpy);
    const char *flag = "-DROWS=4";
    MUST(weir_kernel_new(device, AXPY, axpy, NULL, &a, err));
    MUST(weir_kernel_new(device, AXPY, axpy, NULL, &b, err));
    MUST(weir_kernel_new(device, AXPY, other, NULL, &c, err));
    MUST(weir_kernel_new(device, AXPY, axpy, &(weir_kernel_options){&flag, 1}, &d, err));
    expect("one content is one kernel; another source, other flags are others", a == b && a != c && a != d && c != d,
           NULL);
    weir_kernel_free(a);
    weir_kernel_free(b);
    weir_kernel_free(c);
    weir_kernel_free(d);
}

/* What the emulated compiler cannot: two kernels of one name and different types in one graph, templates. */
static void types(weir_device *device) {
    static const char typed[] = "extern \"C\" __global__ void twice(const TYPE *x, TYPE *out, int n) {\n"
                                "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                                "    if (i < n) out[i] = x[i] + x[i];\n"
                                "}\n";
    static const char template[] = "template <typename T, int BY> __global__ void scale(const T *x, T *out, int n) {\n"
                                   "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                                   "    if (i < n) out[i] = x[i] * T(BY);\n"
                                   "}\n";
    static const char *const flags[] = {"-DTYPE=float", "-DTYPE=int"}, *const names[] = {"scale<float, 3>",
                                                                                         "scale<int, 5>"};
    weir_kernel *k[4];
    weir_graph *g;
    for (int i = 0; i < 2; i++) {
        MUST(weir_kernel_new(device, "twice", typed, &(weir_kernel_options){&flags[i], 1}, &k[i], err));
        MUST(weir_kernel_new(device, names[i], template, NULL, &k[2 + i], err));
    }
    MUST(weir_graph_new(device, &g, err));
    int64_t n = 1000;
    int n32 = 1000;
    weir_array *y[4];
    for (int i = 0; i < 4; i++) {
        weir_dtype dtype = i % 2 ? WEIR_DTYPE_I32 : WEIR_DTYPE_F32;
        weir_array *x = weir_arange(g, dtype, 0, 1000, 1);
        y[i] = weir_custom(g, k[i], &x, 1,
                           &(weir_kernel_call){.dtype = dtype,
                                               .n_dims = 1,
                                               .shape = &n,
                                               .blocks = {8},
                                               .threads = {128},
                                               .scalars = {{&n32, sizeof n32}},
                                               .n_scalars = 1});
        weir_kernel_free(k[i]); /* the graph holds it */
    }
    MUST(weir_eval(y, 4, err));
    bool is_right = true;
    for (int64_t i = 0; i < n; i++) {
        is_right = is_right && ((const float *)weir_array_data(y[0]))[i] == (float)(2 * i);
        is_right = is_right && ((const int32_t *)weir_array_data(y[1]))[i] == 2 * i;
        is_right = is_right && ((const float *)weir_array_data(y[2]))[i] == (float)(3 * i);
        is_right = is_right && ((const int32_t *)weir_array_data(y[3]))[i] == 5 * i;
        if (!is_right) break;
    }
    weir_graph_free(g);
    expect("kernels of one name and different types in one graph; instances of a template", is_right, NULL);
}

static void compile_errors(weir_device *device) {
    weir_kernel *k = NULL;
    weir_error fault = {0};
    forget_notices();
    weir_status status = weir_kernel_new(device, AXPY, "#error this is not a kernel\n", NULL, &k, &fault);
    bool is_right = status == WEIR_E_ARGUMENT && !k && strstr(fault.message, "this is not a kernel") &&
                    strstr(notices.last, "this is not a kernel");
    expect("a compile error is a status with the compiler's words", is_right, fault.message);
    status = weir_kernel_new(device, AXPY, "#include \"missing.h\"\n", NULL, &k, &fault);
    is_right = status == WEIR_E_ARGUMENT && strstr(fault.message, "missing.h") && strstr(fault.message, "searched in");
    expect("a missing header is named, and where it was searched", is_right, fault.message);
    if (is_emulated()) return;
    status = weir_kernel_new(device, "absent", axpy, NULL, &k, &fault);
    expect("a name that is not in the source is a status", status == WEIR_E_ARGUMENT && strstr(fault.message, "absent"),
           fault.message);
}

/* ---- the cache of files ---- */

static void make_and_free(weir_device *device, const char *source) {
    weir_kernel *k;
    MUST(weir_kernel_new(device, AXPY, source, NULL, &k, err));
    bool is_right;
    MUST(evaluate_axpy(device, k, 2, 100, &is_right, err));
    if (!is_right) expect("the kernel's result", false, NULL);
    weir_kernel_free(k);
    MUST(weir_clear_cache(device, NULL, err)); /* nothing holds it now */
}

static void cache_of_files(weir_device *device) {
    char path[1024];
    use_cache("files/deep");
    forget_notices();
    make_and_free(device, axpy);
    expect("a cold compilation is told of, and kept",
           notices.compiled == 1 && count_files(".kernel", path, sizeof path) == 1, notices.last);
    double start = now_s();
    make_and_free(device, axpy);
    print_json("custom_warm", "\"ms\": %.3f", (now_s() - start) * 1e3);
    expect("the second time nothing is compiled", notices.compiled == 1 && notices.other == 0, notices.last);
    struct stat info;
    for (int i = 0; i < 3; i++) {
        forget_notices();
        if (stat(path, &info) != 0) break;
        if (i == 0) write_file(path, "?", info.st_size / 2, "r+"); /* one byte inside */
        if (i == 1 && truncate(path, info.st_size / 2) != 0) break;
        if (i == 2) write_file(path, "", 0, "w");
        make_and_free(device, axpy);
        int n = notices.compiled, others = notices.other;
        make_and_free(device, axpy);
        expect("a spoilt file is told of, compiled anew and replaced",
               n == 1 && others == 1 && notices.compiled == 1 && count_files("", NULL, 0) == 3, notices.last);
    }
    setenv("WEIR_KERNEL_CACHE", "/proc/no/such", 1);
    forget_notices();
    make_and_free(device, axpy);
    expect("a cache that cannot be written is told of, no more", notices.compiled == 1 && notices.other == 1,
           notices.last);
    setenv("WEIR_KERNEL_CACHE", "", 1);
    forget_notices();
    make_and_free(device, axpy);
    expect("without a cache nothing is kept", notices.compiled == 1 && notices.other == 0, notices.last);
}

static void headers(weir_device *device) {
    char path[512], include[400], source[sizeof axpy + 64];
    snprintf(include, sizeof include, "%s/include", folder);
    snprintf(path, sizeof path, "%s/missing.h", include);
    mkdir(include, 0777);
    setenv("WEIR_CUDA_INCLUDE", include, 1);
    snprintf(source, sizeof source, "#include \"missing.h\"\n%s", axpy);
    use_cache("headers");
    forget_notices();
    write_file(path, "#define ONE 1\n", 0, "w");
    make_and_free(device, source);
    make_and_free(device, source);
    int n = notices.compiled;
    write_file(path, "#define ONE 2\n", 0, "w");
    make_and_free(device, source);
    expect("a header is found in WEIR_CUDA_INCLUDE, and its change compiles anew", n == 1 && notices.compiled == 2,
           notices.last);
    unsetenv("WEIR_CUDA_INCLUDE");
}

/* ---- threads ---- */

enum { N_THREADS = 8, N_PROCESSES = 6 };

static void *one_thread(void *context) {
    weir_device *device = context;
    for (int i = 0; i < 3; i++) {
        weir_kernel *k;
        bool is_right = false;
        MUST(weir_kernel_new(device, AXPY, axpy, NULL, &k, err));
        MUST(evaluate_axpy(device, k, 1 + i, 500 + i, &is_right, err));
        weir_kernel_free(k);
        if (!is_right) return (void *)"wrong";
    }
    return NULL;
}

static void threads(weir_device *device) {
    pthread_t t[N_THREADS];
    bool is_right = true;
    use_cache("threads");
    for (int i = 0; i < N_THREADS; i++)
        if (pthread_create(&t[i], NULL, one_thread, device)) exit(1);
    for (int i = 0; i < N_THREADS; i++) {
        void *result;
        pthread_join(t[i], &result);
        is_right = is_right && !result;
    }
    expect("threads make and run the same kernel at once", is_right && count_files("", NULL, 0) == 3, NULL);
}

/* ---- lifetimes and weir_clear_cache ---- */

static void lifetimes(weir_device *device) {
    wr_emulate_live (*live_now)(void);
    *(void **)&live_now = driver_function("wr_emulate_live_now");
    MUST(weir_clear_cache(device, NULL, err));
    int before = live_now ? live_now().modules : 0;
    weir_kernel *k;
    weir_graph *g;
    use_cache("lifetimes");
    MUST(weir_kernel_new(device, AXPY, axpy, NULL, &k, err));
    MUST(weir_graph_new(device, &g, err));
    weir_array *z = build_axpy(g, k, 5, 300);
    weir_kernel_free(k);
    MUST(weir_eval(&z, 1, err));
    bool is_right = is_axpy(weir_array_data(z), 5, 300);
    weir_graph_free(g); /* the cached program holds it still */
    is_right = is_right && device->kernels;
    MUST(weir_clear_cache(device, NULL, err));
    is_right = is_right && !device->kernels && (!live_now || live_now().modules == before);
    expect("the last holder's end unloads a kernel", is_right, NULL);
    weir_device *other = device;
    MUST(weir_device_open(is_emulated() ? "cuda" : "cuda:0", 1, &other, err));
    MUST(weir_kernel_new(other, AXPY, axpy, NULL, &k, err));
    weir_device_close(other);
    weir_kernel_free(k);
    expect("a kernel may be freed after its device was closed", !live_now || live_now().modules == before, NULL);
}

static weir_status large_work(weir_device *device, weir_error *err) {
    weir_graph *g;
    int64_t shape[2] = {2048, 1024};
    WR_TRY(weir_graph_new(device, &g, err));
    weir_array *x = weir_full(g, WEIR_DTYPE_F32, 2, shape, 1),
               *y = weir_sum(weir_cumsum(x, 0, false, false), 0, NULL, false);
    weir_status status = weir_eval(&y, 1, err);
    weir_graph_free(g);
    return status;
}

/* small: the work, which takes long under tools that look at every access. */
static void clear_cache(weir_device *device, bool small) {
    size_t bytes = 0, again = 0;
    MUST(large_work(device, err));
    double start = now_s();
    MUST(weir_clear_cache(device, &bytes, err));
    double full = now_s();
    MUST(weir_clear_cache(device, &again, err));
    double empty = now_s();
    MUST(large_work(device, err));
    wr_program *program;
    MUST(chain_new(device, small ? 8 : 1024, small ? 2 : 40, &program, err));
    MUST(wr_program_run(program, err));
    double alone = now_s();
    MUST(wr_program_run(program, err));
    double work = now_s();
    MUST(wr_program_start(program, err));
    double loaded = now_s();
    size_t under_load;
    MUST(weir_clear_cache(device, &under_load, err));
    double end = now_s();
    MUST(wr_program_run(program, err));
    wr_program_free(program);
    /* Under load a block of the pool may hold the program's memory too, and stays then. */
    bool is_right = bytes >= 2048 * 1024 * 4 && again == 0;
    if (!is_right) good = false;
    print_json(
        "clear_cache",
        "\"bytes\": %zu, \"at_rest_ms\": %.3f, \"nothing_ms\": %.3f, \"work_ms\": %.3f, \"under_load_ms\": %.3f, "
        "\"passed\": %s",
        bytes, (full - start) * 1e3, (empty - full) * 1e3, (work - alone) * 1e3, (end - loaded) * 1e3,
        is_right ? "true" : "false");
}

/* ---- every driver call fails once ---- */

static weir_status use_kernel(const device_args *args, weir_error *err) {
    weir_device *device;
    weir_kernel *k = NULL;
    bool is_right = true;
    WR_TRY(weir_device_open(args->device, 1, &device, err));
    weir_status status = weir_kernel_new(device, AXPY, axpy, NULL, &k, err);
    if (status == WEIR_OK) status = evaluate_axpy(device, k, 2, 40, &is_right, err);
    if (status == WEIR_OK && !is_right) status = WR_FAIL(err, WEIR_E_DEVICE, "the result is wrong, or was not copied");
    weir_kernel_free(k);
    if (status == WEIR_OK) status = weir_clear_cache(device, NULL, err);
    weir_device_close(device);
    return status;
}

/* ---- in processes of their own ---- */

static int in_process(int (*run)(const device_args *), const device_args *args) {
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) exit(run(args));
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int no_compiler(const device_args *args) {
    weir_kernel *k;
    weir_error fault = {0};
    weir_device *device = open_or_exit(args->device);
    setenv("WEIR_NVRTC", "/no/such/libnvrtc.so", 1);
    weir_status status = weir_kernel_new(device, AXPY, axpy, NULL, &k, &fault);
    expect("without NVRTC it is a status", status == WEIR_E_UNSUPPORTED && strstr(fault.message, "WEIR_NVRTC"),
           fault.message);
    weir_device_close(device);
    return !good;
}

static weir_status plain_work(weir_device *device, weir_error *err) {
    weir_graph *g;
    WR_TRY(weir_graph_new(device, &g, err));
    weir_array *x = matrix(g, 2, 2, (float[]){1, 2, 3, 4}), *y = weir_matmul(x, x);
    weir_status status = weir_eval(&y, 1, err);
    const float *data = status == WEIR_OK ? weir_array_data(y) : NULL;
    if (status == WEIR_OK && (!data || data[3] != 22)) status = WR_FAIL(err, WEIR_E_DEVICE, "the product is wrong");
    weir_graph_free(g);
    return status;
}

/* Another device of the machine, and the CPU, go on; this one says why it does not. */
static int bad_access(const device_args *args) {
    static const char wild[] =
        "extern \"C\" __global__ void " AXPY "(const float *x, const float *y, float *out, double a, long long n) {\n"
        "    out[((long long)1 << 40) + threadIdx.x] = x[0] + y[0] + (float)a + (float)n;\n"
        "}\n";
    weir_device *device = open_or_exit(args->device), *cpu, *second = NULL;
    weir_kernel *k;
    weir_error fault = {0};
    bool is_right;
    MUST(weir_device_open("cpu", 1, &cpu, err));
    if (!is_emulated() && weir_device_open("cuda:1", 1, &second, &fault) != WEIR_OK) second = NULL;
    MUST(weir_kernel_new(device, AXPY, wild, NULL, &k, err));
    void (*fail_nth)(long) = NULL;
    *(void **)&fail_nth = driver_function("wr_emulate_fail_nth");
    weir_status status = WEIR_OK;
    for (long n = 1; n < 40 && status != WEIR_E_DEVICE; n++) { /* emulated: until a call that launches or waits fails */
        weir_graph *g;
        MUST(weir_graph_new(device, &g, err));
        weir_array *x = weir_arange(g, WEIR_DTYPE_F32, 0, 64, 1), *z = call_axpy(g, k, x, x, 1, 64);
        if (fail_nth) fail_nth(n);
        status = weir_eval(&z, 1, &fault);
        if (fail_nth) fail_nth(0);
        weir_graph_free(g);
        if (!fail_nth) break;
    }
    expect("a kernel that writes outside its arrays is a status",
           status == WEIR_E_DEVICE && strstr(fault.message, "a kernel failed"), fault.message);
    weir_status later = plain_work(device, &fault);
    is_right = fail_nth ? later == WEIR_OK : later == WEIR_E_DEVICE && strstr(fault.message, "a kernel failed");
    expect("later work on the device says so", is_right, fault.message);
    size_t bytes;
    if (!fail_nth)
        expect("and so does weir_clear_cache", weir_clear_cache(device, &bytes, &fault) == WEIR_E_DEVICE,
               fault.message);
    expect("the CPU goes on", plain_work(cpu, &fault) == WEIR_OK, NULL);
    if (second) /* the driver takes all GPUs from the process */
        expect("another card says so too", plain_work(second, &fault) == WEIR_E_DEVICE, fault.message);
    weir_kernel_free(k);
    weir_device_close(device);
    weir_device_close(second);
    weir_device_close(cpu);
    return good ? 0 : 1;
}

static int one_process(const device_args *args) {
    weir_device *device = open_or_exit(args->device);
    int code = one_thread(device) ? 1 : 0;
    weir_device_close(device);
    return code;
}

static int opens(const device_args *args) {
    weir_device_close(open_or_exit(args->device));
    return 0;
}

static void processes(const device_args *args) {
    pid_t pids[N_PROCESSES];
    bool is_right = true;
    use_cache("processes");
    fflush(NULL);
    for (int i = 0; i < N_PROCESSES; i++)
        if ((pids[i] = fork()) == 0) exit(one_process(args));
    for (int i = 0; i < N_PROCESSES; i++) {
        int status;
        is_right = is_right && waitpid(pids[i], &status, 0) == pids[i] && WIFEXITED(status) && !WEXITSTATUS(status);
    }
    is_right = is_right && count_files(".kernel", NULL, 0) == 1 && count_files(".part", NULL, 0) == 0;
    expect("processes share a cold cache", is_right, NULL);
}

/* ---- frame ---- */

int main(int argc, char **argv) {
    device_args args = read_args(argc, argv);
    if (!make_folder(folder, sizeof folder)) return 1;
    use_fake_compiler();
    weir_set_log(take_notice, NULL);
    use_cache("plain");
    int code = in_process(opens, &args);
    if (code != 0) {
        remove_all(folder);
        return code == 77 ? 77 : 1;
    }
    /* Before this process has a context of its own: CUDA does not survive a fork. */
    expect("a process without a compiler", in_process(no_compiler, &args) == 0, NULL);
    if (is_emulated() || !args.quick) /* the quick form runs under tools that report what the wild kernel does */
        expect("a process with a wild kernel ends as it wants", in_process(bad_access, &args) == 0, NULL);
    processes(&args);
    use_cache("plain");
    weir_device *device = open_or_exit(args.device);
    results(device);
    wrong_calls(device);
    same_name(device);
    if (!is_emulated()) types(device);
    compile_errors(device);
    cache_of_files(device);
    headers(device);
    if (is_emulated() || !args.quick) threads(device); /* racecheck loses track of launches by several threads */
    lifetimes(device);
    clear_cache(device, args.quick || is_emulated());
    weir_device_close(device);
    if (is_emulated()) good = sweep("custom kernels", use_kernel, &args, 0, NULL) && good;
    remove_all(folder);
    return good ? 0 : 1;
}
