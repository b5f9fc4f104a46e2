/* libnvrtc_fake.so: NVRTC's functions without a compiler, for WEIR_NVRTC. The image says which function of the emulated
 * driver it stands for, and with what it was made. A source with "#error TEXT" fails with that text; one with
 * "#warning TEXT" warns; one that includes "missing.h" does not find it unless a -I folder has it, as the real one says
 * it. FAKE_NVRTC_VERSION=12.9 gives another version, FAKE_NVRTC_MS a duration. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda/nvrtc.h"

enum { OK, OUT_OF_MEMORY, INVALID_INPUT = 3, COMPILATION = 6 };

struct _nvrtcProgram {
    char *source, name[256], log[1024], *image;
    size_t image_bytes;
};

#define EXPORT __attribute__((visibility("default")))
EXPORT int nvrtcVersion(int *major, int *minor);
EXPORT const char *nvrtcGetErrorString(int result);
EXPORT int nvrtcCreateProgram(wr_nvrtc_program *out, const char *source, const char *name, int n_headers,
                              const char *const *headers, const char *const *header_names);
EXPORT int nvrtcDestroyProgram(wr_nvrtc_program *program);
EXPORT int nvrtcAddNameExpression(wr_nvrtc_program program, const char *name);
EXPORT int nvrtcCompileProgram(wr_nvrtc_program program, int n_flags, const char *const *flags);
EXPORT int nvrtcGetLoweredName(wr_nvrtc_program program, const char *name, const char **lowered);
EXPORT int nvrtcGetCUBINSize(wr_nvrtc_program program, size_t *bytes);
EXPORT int nvrtcGetCUBIN(wr_nvrtc_program program, char *image);
EXPORT int nvrtcGetProgramLogSize(wr_nvrtc_program program, size_t *bytes);
EXPORT int nvrtcGetProgramLog(wr_nvrtc_program program, char *log);

int nvrtcVersion(int *major, int *minor) {
    const char *text = getenv("FAKE_NVRTC_VERSION");
    *major = 13, *minor = 0;
    if (text) sscanf(text, "%d.%d", major, minor);
    return OK;
}

const char *nvrtcGetErrorString(int result) {
    return result == COMPILATION ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR_INVALID_INPUT";
}

int nvrtcCreateProgram(wr_nvrtc_program *out, const char *source, const char *name, int n_headers,
                       const char *const *headers, const char *const *header_names) {
    (void)name, (void)n_headers, (void)headers, (void)header_names;
    *out = calloc(1, sizeof **out);
    if (*out) (*out)->source = strdup(source);
    return *out && (*out)->source ? OK : OUT_OF_MEMORY;
}

int nvrtcDestroyProgram(wr_nvrtc_program *program) {
    free((*program)->source);
    free((*program)->image);
    free(*program);
    *program = NULL;
    return OK;
}

int nvrtcAddNameExpression(wr_nvrtc_program p, const char *name) {
    snprintf(p->name, sizeof p->name, "%s", name);
    return OK;
}

static int has_header(int n_flags, const char *const *flags, const char *name) {
    char path[4096];
    for (int i = 0; i < n_flags; i++) {
        if (strncmp(flags[i], "-I", 2) != 0) continue;
        snprintf(path, sizeof path, "%s/%s", flags[i] + 2, name);
        if (access(path, R_OK) == 0) return 1;
    }
    return 0;
}

/* The text behind a directive, up to the line's end; NULL without one. */
static const char *directive(const char *source, const char *word, size_t *bytes) {
    const char *at = strstr(source, word);
    if (!at) return NULL;
    *bytes = strcspn(at + strlen(word), "\n");
    return at + strlen(word);
}

int nvrtcCompileProgram(wr_nvrtc_program p, int n_flags, const char *const *flags) {
    const char *ms = getenv("FAKE_NVRTC_MS"), *text;
    size_t n;
    if (ms) usleep(1000u * (unsigned)atoi(ms));
    if ((text = directive(p->source, "#warning ", &n)))
        snprintf(p->log, sizeof p->log, "kernel.cu(1): warning: %.*s\n", (int)n, text);
    if ((text = directive(p->source, "#error ", &n))) {
        size_t used = strlen(p->log);
        snprintf(p->log + used, sizeof p->log - used, "kernel.cu(1): error: %.*s\n\n1 error detected.\n", (int)n, text);
        return COMPILATION;
    }
    if (strstr(p->source, "#include \"missing.h\"") && !has_header(n_flags, flags, "missing.h")) {
        snprintf(p->log, sizeof p->log, "kernel.cu(1): catastrophic error: could not open source file \"missing.h\"\n");
        return COMPILATION;
    }
    size_t room = strlen(p->source) + strlen(p->name) + 64;
    for (int i = 0; i < n_flags; i++) room += strlen(flags[i]) + 1;
    if (!(p->image = malloc(room))) return OUT_OF_MEMORY;
    n = (size_t)sprintf(p->image, "FAKE %s\n", p->name);
    for (int i = 0; i < n_flags; i++) n += (size_t)sprintf(p->image + n, "%s\n", flags[i]);
    n += (size_t)sprintf(p->image + n, "%s", p->source);
    p->image_bytes = n + 1;
    return OK;
}

int nvrtcGetLoweredName(wr_nvrtc_program p, const char *name, const char **lowered) {
    *lowered = p->name;
    return p->image && !strcmp(name, p->name) ? OK : INVALID_INPUT;
}
int nvrtcGetCUBINSize(wr_nvrtc_program p, size_t *bytes) {
    *bytes = p->image_bytes;
    return OK;
}
int nvrtcGetCUBIN(wr_nvrtc_program p, char *image) {
    memcpy(image, p->image, p->image_bytes);
    return OK;
}
int nvrtcGetProgramLogSize(wr_nvrtc_program p, size_t *bytes) {
    *bytes = strlen(p->log) + 1;
    return OK;
}
int nvrtcGetProgramLog(wr_nvrtc_program p, char *log) {
    strcpy(log, p->log);
    return OK;
}
