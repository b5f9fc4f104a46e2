/* Finds models on this machine. Owns nothing; only looks at folders. */
#include "file/store.h"

#include <string.h>
#include <sys/stat.h>

#include "base/io.h"
#include "base/mem.h"
#include "file/shards.h"

#define NO_MEMORY() WR_FAIL(err, WEIR_E_MEMORY, "out of memory for a path")

/* ---- places ---- */

static const char *setting(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* base/rest, or ~/.cache/rest when there is no base. */
static char *cache_path(const char *base, const char *rest) {
    if (base) return wr_path_join(base, rest);
    const char *home = setting("HOME");
    char *cache = wr_path_join(home ? home : "/", ".cache");
    char *path = cache ? wr_path_join(cache, rest) : NULL;
    wr_free(cache);
    return path;
}

char *wr_store_folder(void) {
    const char *store = setting("WEIR_STORE");
    return store ? wr_strdup(store) : cache_path(setting("XDG_CACHE_HOME"), "weir/store");
}

char *wr_store_hub_folder(void) {
    const char *hub = setting("HF_HUB_CACHE"), *home = setting("HF_HOME");
    if (hub) return wr_strdup(hub);
    return home ? wr_path_join(home, "hub") : cache_path(setting("XDG_CACHE_HOME"), "huggingface/hub");
}

/* ---- the Hugging Face cache ---- */

/* models--owner--name has refs/main, which names a folder in snapshots/. Without the
 * ref, an only snapshot is taken. */
static weir_status find_snapshot(const char *repo, char **out, weir_error *err) {
    weir_status status;
    char *ref = wr_path_join(repo, "refs/main"), *snapshots = wr_path_join(repo, "snapshots"), *hash = NULL;
    wr_folder folder = {0};
    if (!ref || !snapshots) {
        status = NO_MEMORY();
        goto done;
    }
    if (wr_path_is_file(ref)) {
        size_t bytes;
        WR_TRY_GOTO(status, wr_file_read(ref, 256, &hash, &bytes, err), done);
        hash[strcspn(hash, "\r\n \t")] = 0;
        if (!*hash || *hash == '.' || strchr(hash, '/')) {
            status = WR_FAIL(err, WEIR_E_FORMAT, "%s does not hold a revision", ref);
            goto done;
        }
    } else {
        WR_TRY_GOTO(status, wr_folder_list(snapshots, &folder, err), done);
        if (folder.n != 1) {
            status = WR_FAIL(err, WEIR_E_NOT_FOUND, "%s has no refs/main and %zu snapshots; download the model again",
                             repo, folder.n);
            goto done;
        }
    }
    *out = wr_path_join(snapshots, hash ? hash : folder.names[0]);
    if (!*out) {
        status = NO_MEMORY();
    } else if (!wr_path_is_folder(*out)) {
        status = WR_FAIL(err, WEIR_E_NOT_FOUND, "snapshot %s is missing; download the model again", *out);
        wr_free(*out);
        *out = NULL;
    } else {
        status = WEIR_OK;
    }
done:
    wr_folder_free(&folder);
    wr_free(hash);
    wr_free(ref);
    wr_free(snapshots);
    return status;
}

static weir_status find_in_hub(const char *model, const char *hub, char **out, weir_error *err) {
    const char *slash = strchr(model, '/');
    if (!slash || slash == model || !slash[1] || strchr(slash + 1, '/') || *model == '.') return WEIR_OK;
    char name[512];
    int n = snprintf(name, sizeof name, "models--%.*s--%s", (int)(slash - model), model, slash + 1);
    if (n < 0 || (size_t)n >= sizeof name) return WEIR_OK;
    char *repo = wr_path_join(hub, name);
    if (!repo) return NO_MEMORY();
    weir_status status = wr_path_is_folder(repo) ? find_snapshot(repo, out, err) : WEIR_OK;
    wr_free(repo);
    return status;
}

/* ---- the store ---- */

static bool is_model_name(const char *name) { return wr_text_ends(name, ".gguf"); }

static weir_status find_in_store(const char *model, const char *store, char **out, weir_error *err) {
    if (strstr(model, "..") || !wr_path_is_folder(store)) return WEIR_OK;
    char *exact = wr_path_join(store, model);
    if (!exact) return NO_MEMORY();
    if (wr_path_is_file(exact) || wr_path_is_folder(exact)) {
        *out = exact;
        return WEIR_OK;
    }
    wr_free(exact);
    wr_folder folder;
    WR_TRY(wr_folder_list(store, &folder, err));
    weir_status status = WEIR_OK;
    const char *found = NULL;
    size_t n = strlen(model);
    for (size_t i = 0; i < folder.n && status == WEIR_OK; i++) {
        const char *name = folder.names[i];
        if (!is_model_name(name) || strncmp(name, model, n) != 0 || (name[n] != '.' && name[n] != '-')) continue;
        if (strcmp(name + n, ".gguf") == 0) {
            found = name; /* the name itself, whatever else begins with it */
            break;
        }
        if (found)
            status = WR_FAIL(err, WEIR_E_ARGUMENT, "'%s' could be %s or %s; give the whole name", model, found, name);
        found = name;
    }
    if (status == WEIR_OK && found && !(*out = wr_path_join(store, found))) status = NO_MEMORY();
    wr_folder_free(&folder);
    return status;
}

/* ---- resolving ---- */

/* A folder whose only model is one .gguf file means that file. */
static weir_status settle(char **path, weir_error *err) {
    if (!wr_path_is_folder(*path)) return WEIR_OK;
    char *config = wr_path_join(*path, "config.json");
    if (!config) return NO_MEMORY();
    bool has_config = wr_path_is_file(config);
    wr_free(config);
    if (has_config) return WEIR_OK;
    wr_folder folder;
    WR_TRY(wr_folder_list(*path, &folder, err));
    const char *found = NULL;
    int n = 0;
    for (size_t i = 0; i < folder.n; i++) {
        if (!is_model_name(folder.names[i])) continue;
        found = folder.names[i];
        n++;
    }
    weir_status status = WEIR_OK;
    if (n > 1) {
        status =
            WR_FAIL(err, WEIR_E_ARGUMENT, "%s holds %d .gguf files; name one of them, such as %s", *path, n, found);
    } else if (n == 1) {
        char *file = wr_path_join(*path, found);
        if (file) {
            wr_free(*path);
            *path = file;
        } else {
            status = NO_MEMORY();
        }
    }
    wr_folder_free(&folder);
    return status;
}

weir_status wr_store_resolve(const char *model, char **path, weir_error *err) {
    *path = NULL;
    if (!model || !*model) return WR_FAIL(err, WEIR_E_ARGUMENT, "the model's name is empty");
    weir_status status = WEIR_OK;
    char *store = wr_store_folder(), *hub = wr_store_hub_folder();
    if (!store || !hub) {
        status = NO_MEMORY();
        goto done;
    }
    if (wr_path_is_file(model) || wr_path_is_folder(model)) {
        if (!(*path = wr_strdup(model))) status = NO_MEMORY();
    } else {
        status = find_in_hub(model, hub, path, err);
        if (status == WEIR_OK && !*path) status = find_in_store(model, store, path, err);
    }
    if (status == WEIR_OK && !*path)
        status = WR_FAIL(err, WEIR_E_NOT_FOUND,
                         "no model '%s': it is not a file or folder, nor in the store %s, nor in the Hugging Face "
                         "cache %s",
                         model, store, hub);
    if (status == WEIR_OK) status = settle(path, err);
    if (status != WEIR_OK) {
        wr_free(*path);
        *path = NULL;
    }
done:
    wr_free(store);
    wr_free(hub);
    return status;
}

/* ---- listing ---- */

static uint64_t file_bytes(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 ? (uint64_t)info.st_size : 0;
}

/* Report one model at path, a folder or a .gguf file. */
static weir_status report(wr_store_callback callback, void *context, const char *name, const char *path,
                          const char *place, weir_error *err) {
    wr_store_entry entry = {.name = name, .path = path, .place = place, .kind = "gguf", .complete = true, .why = ""};
    weir_error why;
    if (!wr_path_is_folder(path)) {
        entry.bytes = file_bytes(path);
        entry.complete = entry.bytes > 0;
        entry.why = entry.complete ? "" : "the file is empty";
        return callback(context, &entry, err);
    }
    entry.kind = "safetensors";
    wr_shards shards;
    weir_status status = wr_shards_find(path, &shards, &why);
    if (status == WEIR_E_MEMORY) return WR_FAIL(err, WEIR_E_MEMORY, "%s", why.message);
    for (int i = 0; status == WEIR_OK && i < shards.n; i++) entry.bytes += file_bytes(shards.paths[i]);
    char *config = wr_path_join(path, "config.json");
    if (!config) {
        wr_shards_free(&shards);
        return NO_MEMORY();
    }
    bool has_config = wr_path_is_file(config);
    wr_free(config);
    wr_shards_free(&shards);
    entry.complete = status == WEIR_OK && has_config;
    if (status != WEIR_OK)
        entry.why = why.message;
    else if (!has_config)
        entry.why = "config.json is missing";
    return callback(context, &entry, err);
}

static weir_status list_store(const char *store, wr_store_callback callback, void *context, weir_error *err) {
    wr_folder folder;
    WR_TRY(wr_folder_list(store, &folder, err));
    weir_status status = WEIR_OK;
    for (size_t i = 0; i < folder.n && status == WEIR_OK; i++) {
        const char *name = folder.names[i];
        char *path = wr_path_join(store, name);
        if (!path)
            status = NO_MEMORY();
        else if (*name != '.' && (is_model_name(name) || wr_path_is_folder(path)))
            status = report(callback, context, name, path, "store", err);
        wr_free(path);
    }
    wr_folder_free(&folder);
    return status;
}

static weir_status list_repo(const char *repo, const char *name, wr_store_callback callback, void *context,
                             weir_error *err) {
    char *path = NULL;
    weir_error why;
    weir_status status = find_snapshot(repo, &path, &why);
    if (status == WEIR_OK) status = settle(&path, &why);
    if (status == WEIR_E_MEMORY) {
        status = WR_FAIL(err, WEIR_E_MEMORY, "%s", why.message);
    } else if (status != WEIR_OK) {
        wr_store_entry entry = {name, path ? path : repo, "safetensors", "huggingface", 0, false, why.message};
        status = callback(context, &entry, err);
    } else {
        status = report(callback, context, name, path, "huggingface", err);
    }
    wr_free(path);
    return status;
}

static weir_status list_hub(const char *hub, wr_store_callback callback, void *context, weir_error *err) {
    wr_folder folder;
    WR_TRY(wr_folder_list(hub, &folder, err));
    weir_status status = WEIR_OK;
    for (size_t i = 0; i < folder.n && status == WEIR_OK; i++) {
        if (!wr_text_starts(folder.names[i], "models--")) continue;
        char *name = wr_strdup(folder.names[i] + strlen("models--"));
        char *repo = wr_path_join(hub, folder.names[i]);
        char *dashes = name ? strstr(name, "--") : NULL;
        if (dashes) { /* owner--name becomes owner/name */
            *dashes = '/';
            memmove(dashes + 1, dashes + 2, strlen(dashes + 2) + 1);
        }
        status = name && repo ? list_repo(repo, name, callback, context, err) : NO_MEMORY();
        wr_free(name);
        wr_free(repo);
    }
    wr_folder_free(&folder);
    return status;
}

weir_status wr_store_list(wr_store_callback callback, void *context, weir_error *err) {
    weir_status status = WEIR_OK;
    char *store = wr_store_folder(), *hub = wr_store_hub_folder();
    if (!store || !hub) status = NO_MEMORY();
    if (status == WEIR_OK && wr_path_is_folder(store)) status = list_store(store, callback, context, err);
    if (status == WEIR_OK && wr_path_is_folder(hub)) status = list_hub(hub, callback, context, err);
    wr_free(store);
    wr_free(hub);
    return status;
}
