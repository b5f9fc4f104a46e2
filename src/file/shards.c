/* Finds shards. A shard counts as there when its file exists and is not empty;
 * what is in it is the reader's business. */
#include "file/shards.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fault.h"
#include "base/io.h"
#include "base/mem.h"
#include "file/json.h"

enum {
    MAX_SHARDS = 10000,
    MAX_FOLDER_NAMES = 100000,
    MAX_INDEX_BYTES = 128 << 20,
};

bool wr_text_starts(const char *text, const char *prefix) { return strncmp(text, prefix, strlen(prefix)) == 0; }

bool wr_text_ends(const char *text, const char *suffix) {
    size_t n = strlen(text), m = strlen(suffix);
    return n >= m && memcmp(text + n - m, suffix, m) == 0;
}

/* ---- folders ---- */

static int compare_names(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static weir_status add_name(wr_folder *folder, size_t *room, const char *name, const char *path, weir_error *err) {
    if (folder->n >= MAX_FOLDER_NAMES)
        return WR_FAIL(err, WEIR_E_LIMIT, "%s holds more than %d files", path, MAX_FOLDER_NAMES);
    if (folder->n == *room) {
        size_t larger = *room ? *room * 2 : 32;
        char **names = wr_realloc(folder->names, larger * sizeof *names);
        if (!names) return WR_FAIL(err, WEIR_E_MEMORY, "%s: out of memory for its file names", path);
        folder->names = names;
        *room = larger;
    }
    folder->names[folder->n] = wr_strdup(name);
    if (!folder->names[folder->n]) return WR_FAIL(err, WEIR_E_MEMORY, "%s: out of memory for its file names", path);
    folder->n++;
    return WEIR_OK;
}

weir_status wr_folder_list(const char *path, wr_folder *out, weir_error *err) {
    *out = (wr_folder){0};
    bool injected = wr_fault_hit(WR_FAULT_IO);
    DIR *dir = injected ? NULL : opendir(path);
    if (!dir) {
        int code = injected ? EIO : errno;
        if (code == ENOENT || code == ENOTDIR) return WR_FAIL(err, WEIR_E_NOT_FOUND, "there is no folder %s", path);
        return WR_FAIL(err, WEIR_E_IO, "cannot list %s: %s", path, strerror(code));
    }
    weir_status status = WEIR_OK;
    size_t room = 0;
    for (struct dirent *entry; status == WEIR_OK && (entry = readdir(dir));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            status = add_name(out, &room, entry->d_name, path, err);
    closedir(dir);
    if (status != WEIR_OK)
        wr_folder_free(out);
    else if (out->n > 1)
        qsort(out->names, out->n, sizeof *out->names, compare_names);
    return status;
}

void wr_folder_free(wr_folder *folder) {
    for (size_t i = 0; i < folder->n; i++) wr_free(folder->names[i]);
    wr_free(folder->names);
    *folder = (wr_folder){0};
}

/* ---- the list ---- */

void wr_shards_free(wr_shards *shards) {
    for (int i = 0; i < shards->n; i++) wr_free(shards->paths[i]);
    wr_free(shards->paths);
    *shards = (wr_shards){0};
}

/* Takes the file unless it is there already. */
static weir_status add_shard(wr_shards *list, const char *folder, const char *name, weir_error *err) {
    char *path = folder ? wr_path_join(folder, name) : wr_strdup(name);
    if (!path) return WR_FAIL(err, WEIR_E_MEMORY, "out of memory for the name of %s", name);
    for (int i = 0; i < list->n; i++) {
        if (strcmp(list->paths[i], path) != 0) continue;
        wr_free(path);
        return WEIR_OK;
    }
    if (list->n >= MAX_SHARDS) {
        wr_free(path);
        return WR_FAIL(err, WEIR_E_LIMIT, "%s: more than %d weight files", folder, MAX_SHARDS);
    }
    if ((list->n & (list->n - 1)) == 0) { /* grow at each power of two */
        char **paths = wr_realloc(list->paths, (list->n ? (size_t)list->n * 2 : 1) * sizeof *paths);
        if (!paths) {
            wr_free(path);
            return WR_FAIL(err, WEIR_E_MEMORY, "out of memory for the name of %s", name);
        }
        list->paths = paths;
    }
    list->paths[list->n++] = path;
    return WEIR_OK;
}

static weir_status add_indexed(wr_shards *list, const char *folder, const char *index, weir_error *err) {
    json_t *root;
    const char *tensor;
    json_t *file;
    WR_TRY(wr_json_read(index, MAX_INDEX_BYTES, &root, err));
    weir_status status = WEIR_OK;
    json_t *map = json_object_get(root, "weight_map");
    if (!json_is_object(map)) status = WR_FAIL(err, WEIR_E_FORMAT, "%s has no weight_map", index);
    const char *last = ""; /* runs of the same file are usual */
    json_object_foreach(map, tensor, file) {
        if (status != WEIR_OK) break;
        const char *name = json_string_value(file);
        if (name && strcmp(name, last) == 0) continue;
        /* A name that leaves the folder could read any file of the user's. */
        if (!name || !*name || *name == '.' || strchr(name, '/') || strchr(name, '\\')) {
            char shown[64];
            wr_json_show(file, shown, sizeof shown);
            status = WR_FAIL(err, WEIR_E_FORMAT, "%s: weight_map names %s, which is not a file name", index, shown);
        } else if (!wr_text_ends(name, ".safetensors")) {
            status = WR_FAIL(err, WEIR_E_UNSUPPORTED, "%s: weight_map names %.80s; only .safetensors files are read",
                             index, name);
        } else {
            status = add_shard(list, folder, name, err);
            last = name;
        }
    }
    json_decref(root);
    return status;
}

/* "model-00001-of-00003.safetensors": its brothers must be there as well. */
static weir_status add_brothers(wr_shards *list, const char *folder, const char *name, weir_error *err) {
    const char *of = strstr(name, "-of-");
    int total = 0, digits = 0, used = 0;
    if (!of || of - name < 6 || of - name > 200 || sscanf(of, "-of-%d%n", &total, &used) != 1) return WEIR_OK;
    if (strcmp(of + used, ".safetensors") != 0) return WEIR_OK;
    while (digits < of - name && of[-1 - digits] >= '0' && of[-1 - digits] <= '9') digits++;
    if (digits == 0 || digits > 9) return WEIR_OK;
    if (total < 1 || total > MAX_SHARDS)
        return WR_FAIL(err, WEIR_E_FORMAT, "%s/%s: claims to be one of %d files", folder, name, total);
    for (int i = 1; i <= total; i++) {
        char brother[300];
        snprintf(brother, sizeof brother, "%.*s%0*d%s", (int)(of - name) - digits, name, digits, i, of);
        WR_TRY(add_shard(list, folder, brother, err));
    }
    return WEIR_OK;
}

static weir_status check_shard(const char *path, weir_error *err) {
    struct stat info;
    bool injected = wr_fault_hit(WR_FAULT_IO);
    if (injected) return WR_FAIL(err, WEIR_E_IO, "cannot examine %s: %s", path, strerror(EIO));
    if (stat(path, &info) != 0)
        return WR_FAIL(err, WEIR_E_NOT_FOUND, "weight file %s is missing; download the model again to complete it",
                       path);
    if (!S_ISREG(info.st_mode)) return WR_FAIL(err, WEIR_E_FORMAT, "weight file %s is not a regular file", path);
    if (info.st_size == 0)
        return WR_FAIL(err, WEIR_E_FORMAT, "weight file %s is empty; download the model again to complete it", path);
    return WEIR_OK;
}

static weir_status collect(wr_shards *list, const char *path, const wr_folder *folder, weir_error *err) {
    int others = 0;
    const char *other = NULL;
    for (size_t i = 0; i < folder->n; i++) {
        const char *name = folder->names[i];
        if (wr_text_ends(name, ".incomplete"))
            return WR_FAIL(err, WEIR_E_FORMAT, "%s/%s: the download of this model is not finished; resume it", path,
                           name);
        if (!wr_text_ends(name, ".safetensors")) continue;
        if (wr_text_starts(name, "model")) {
            WR_TRY(add_shard(list, path, name, err));
            WR_TRY(add_brothers(list, path, name, err));
        } else {
            others++;
            other = name;
        }
    }
    static const char index_name[] = "model.safetensors.index.json";
    for (size_t i = 0; i < folder->n; i++) {
        if (strcmp(folder->names[i], index_name) != 0) continue;
        char *index = wr_path_join(path, index_name);
        if (!index) return WR_FAIL(err, WEIR_E_MEMORY, "%s: out of memory", path);
        weir_status status = add_indexed(list, path, index, err);
        wr_free(index);
        WR_TRY(status);
    }
    if (list->n == 0 && others == 1) WR_TRY(add_shard(list, path, other, err));
    if (list->n == 0)
        return WR_FAIL(err, WEIR_E_NOT_FOUND, "%s holds no weights (model*.safetensors or one .gguf file)", path);
    return WEIR_OK;
}

weir_status wr_shards_find(const char *path, wr_shards *out, weir_error *err) {
    *out = (wr_shards){0};
    weir_status status;
    wr_folder folder = {0};
    if (!wr_path_is_folder(path)) {
        WR_TRY_GOTO(status, add_shard(out, NULL, path, err), fail);
    } else {
        WR_TRY_GOTO(status, wr_folder_list(path, &folder, err), fail);
        WR_TRY_GOTO(status, collect(out, path, &folder, err), fail);
    }
    for (int i = 0; i < out->n; i++) WR_TRY_GOTO(status, check_shard(out->paths[i], err), fail);
    if (out->n > 1) qsort(out->paths, (size_t)out->n, sizeof *out->paths, compare_names);
    wr_folder_free(&folder);
    return WEIR_OK;
fail:
    wr_folder_free(&folder);
    wr_shards_free(out);
    return status;
}
