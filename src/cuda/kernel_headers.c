/* The search for headers, and the scan for #include lines by which a cached kernel follows its headers. */
#include "cuda/kernel_headers.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"

/* ---- folders ---- */

enum { PATH_BYTES = 4096 };

static weir_status add(wr_header_folders *f, const char *path, size_t bytes, wr_arena *memory, weir_error *err) {
    char *copy = bytes ? wr_arena_strndup(memory, path, bytes) : NULL;
    if (!bytes) return WEIR_OK;
    if (!copy) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for the search of headers");
    for (int i = 0; i < f->n; i++)
        if (!strcmp(f->at[i], copy)) return WEIR_OK;
    if (!wr_path_is_folder(copy)) return WEIR_OK;
    if (f->n == WR_HEADER_FOLDERS)
        return WR_FAIL(err, WEIR_E_LIMIT, "headers would be searched in more than %d folders", WR_HEADER_FOLDERS);
    f->at[f->n++] = copy;
    return WEIR_OK;
}

static weir_status add_below(wr_header_folders *f, const char *folder, const char *below, wr_arena *memory,
                             weir_error *err) {
    char path[PATH_BYTES];
    int n = folder && *folder ? snprintf(path, sizeof path, "%s%s", folder, below) : 0;
    return n > 0 && n < PATH_BYTES ? add(f, path, (size_t)n, memory, err) : WEIR_OK;
}

/* "-Ifolder", "-I folder" and the long forms. */
static weir_status add_flags(wr_header_folders *f, const char *const *flags, int n_flags, wr_arena *memory,
                             weir_error *err) {
    static const char *const forms[] = {"-I", "--include-path", "-include-path"};
    for (int i = 0; i < n_flags; i++) {
        for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
            size_t n = strlen(forms[k]);
            if (strncmp(flags[i], forms[k], n) != 0) continue;
            const char *path = flags[i] + n;
            if (*path == '=') path++;
            if (!*path && i + 1 < n_flags) path = flags[++i];
            WR_TRY(add(f, path, strlen(path), memory, err));
            break;
        }
    }
    f->n_user = f->n;
    return WEIR_OK;
}

static weir_status add_beside(wr_header_folders *f, const char *file, wr_arena *memory, weir_error *err) {
    char folder[PATH_BYTES];
    const char *slash = strrchr(file, '/');
    if (!slash || slash - file >= PATH_BYTES) return WEIR_OK;
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - file), file);
    WR_TRY(add_below(f, folder, "/include", memory, err));
    return add_below(f, folder, "/../include", memory, err);
}

weir_status wr_header_folders_find(const char *const *flags, int n_flags, wr_arena *memory, wr_header_folders *out,
                                   weir_error *err) {
    *out = (wr_header_folders){.n = 0};
    WR_TRY(add_flags(out, flags, n_flags, memory, err));
    const char *list = getenv("WEIR_CUDA_INCLUDE");
    while (list && *list) {
        size_t n = strcspn(list, ":");
        WR_TRY(add(out, list, n, memory, err));
        list += n + (list[n] == ':');
    }
    Dl_info info;
    if (dladdr((void *)wr_header_folders_find, &info) && info.dli_fname)
        WR_TRY(add_beside(out, info.dli_fname, memory, err));
    char program[PATH_BYTES];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    program[n > 0 ? n : 0] = 0;
    WR_TRY(add_beside(out, program, memory, err));
#ifdef WR_CUDA_INCLUDE
    WR_TRY(add_below(out, WR_CUDA_INCLUDE, "", memory, err));
#endif
    WR_TRY(add_below(out, getenv("CUDA_HOME"), "/include", memory, err));
    WR_TRY(add_below(out, getenv("CUDA_PATH"), "/include", memory, err));
    return add_below(out, "/usr/local/cuda", "/include", memory, err);
}

/* ---- what is included ---- */

enum { MAX_HEADERS = 2048, TABLE = 2 * MAX_HEADERS };
static const size_t MAX_HEADER_BYTES = (size_t)16 << 20;

typedef struct scan {
    const wr_header_folders *folders;
    wr_arena *memory;
    wr_sha256 *hash;
    const char **seen;    /* [TABLE] by hash of the path */
    const char **waiting; /* [MAX_HEADERS]: found, not read yet */
    int n_found, n_read;
} scan;

/* false: it was seen before, or (*full) there is no room. */
static bool is_new(scan *s, const char *path, bool *full) {
    uint32_t at = 2166136261u;
    for (const char *p = path; *p; p++) at = (at ^ (unsigned char)*p) * 16777619u;
    for (at %= TABLE; s->seen[at]; at = (at + 1) % TABLE)
        if (!strcmp(s->seen[at], path)) return false;
    *full = s->n_found == MAX_HEADERS;
    if (*full) return false;
    s->seen[at] = path;
    s->waiting[s->n_found++] = path;
    return true;
}

static char *file_in(scan *s, const char *folder, size_t folder_bytes, const char *name, size_t bytes) {
    char path[PATH_BYTES];
    int n = snprintf(path, sizeof path, "%.*s/%.*s", (int)folder_bytes, folder, (int)bytes, name);
    return n < PATH_BYTES && wr_path_is_file(path) ? wr_arena_strdup(s->memory, path) : NULL;
}

/* One header that is named; from: the file that names it, NULL for the source. */
static bool note(scan *s, const char *from, const char *name, size_t bytes, bool quoted) {
    const char *slash = from ? strrchr(from, '/') : NULL;
    char *path = slash && quoted ? file_in(s, from, (size_t)(slash - from), name, bytes) : NULL;
    for (int i = 0; i < s->folders->n && !path; i++)
        path = file_in(s, s->folders->at[i], strlen(s->folders->at[i]), name, bytes);
    unsigned char there = path != NULL;
    wr_sha256_add(s->hash, name, bytes);
    wr_sha256_add(s->hash, &there, 1); /* a file that comes to be later makes another hash */
    bool full = false;
    if (path) is_new(s, path, &full);
    return !full;
}

static const char *skip_blanks(const char *p) {
    while (*p == ' ' || *p == '\t') p++;
    return p;
}

static bool scan_text(scan *s, const char *from, const char *text) {
    static const char word[] = "include";
    for (const char *line = text; line; line = strchr(line, '\n')) {
        if (*line == '\n') line++;
        const char *p = skip_blanks(line);
        if (*p != '#') continue;
        p = skip_blanks(p + 1);
        if (strncmp(p, word, sizeof word - 1) != 0) continue;
        p = skip_blanks(p + sizeof word - 1);
        if (*p != '<' && *p != '"') continue;
        size_t n = strcspn(p + 1, *p == '<' ? ">\n" : "\"\n");
        if (n && !note(s, from, p + 1, n, *p == '"')) return false;
    }
    return true;
}

bool wr_header_hash(const wr_header_folders *folders, const char *source, wr_arena *memory, wr_sha256 *hash) {
    scan s = {.folders = folders, .memory = memory, .hash = hash};
    s.seen = wr_arena_alloc(memory, TABLE * sizeof *s.seen);
    s.waiting = wr_arena_alloc(memory, MAX_HEADERS * sizeof *s.waiting);
    if (!s.seen || !s.waiting || !scan_text(&s, NULL, source)) return false;
    while (s.n_read < s.n_found) {
        const char *path = s.waiting[s.n_read++];
        char *text;
        size_t bytes;
        if (wr_file_read(path, MAX_HEADER_BYTES, &text, &bytes, NULL) != WEIR_OK) return false;
        uint64_t length = bytes;
        wr_sha256_add(hash, &length, sizeof length);
        wr_sha256_add(hash, text, bytes);
        bool fits = scan_text(&s, path, text);
        wr_free(text);
        if (!fits) return false;
    }
    return true;
}
