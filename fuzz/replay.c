/* Replays a fuzz corpus without a fuzzer: every file of the folders given is
 * fed once to the target. A corpus without files is an error, so that a lost
 * folder does not look like a success. */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Run one file; 0 on success. */
static int replay_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0) goto fail;
    long size = ftell(file);
    if (size < 0) goto fail;
    rewind(file);
    /* Exactly size bytes, so that the address sanitizer sees a read past the end. */
    uint8_t *data = malloc(size ? (size_t)size : 1);
    if (!data) goto fail;
    size_t got = fread(data, 1, (size_t)size, file);
    fclose(file);
    if (got == (size_t)size) LLVMFuzzerTestOneInput(data, got);
    free(data);
    return got == (size_t)size ? 0 : 1;
fail:
    fprintf(stderr, "%s: cannot be read\n", path);
    if (file) fclose(file);
    return 1;
}

/* Run all files of a folder; their number, -1 on failure. */
static int replay_folder(const char *folder) {
    struct dirent **names;
    int n = scandir(folder, &names, NULL, alphasort), run = 0;
    if (n < 0) {
        fprintf(stderr, "%s: cannot be listed\n", folder);
        return -1;
    }
    for (int i = 0; i < n; i++) {
        char path[4096];
        int length = snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
        if (run >= 0 && names[i]->d_name[0] != '.') {
            /* Named before it is run, so that a crash names its input. */
            printf("%s\n", path);
            fflush(stdout);
            run = length < (int)sizeof path && replay_file(path) == 0 ? run + 1 : -1;
        }
        free(names[i]);
    }
    free(names);
    return run;
}

int main(int argc, char **argv) {
    int total = 0;
    for (int i = 1; i < argc; i++) {
        int run = replay_folder(argv[i]);
        if (run < 0) return 1;
        total += run;
    }
    if (total == 0) fprintf(stderr, "no input files: give the folders of the corpus\n");
    return total > 0 ? 0 : 1;
}
