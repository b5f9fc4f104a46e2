/* The files of the kernel cache. Layout: the head, the lowered name with its 0, the image. Numbers are little-endian,
 * as on every machine that has these cards. */
#include "cuda/kernel_cache.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"

typedef struct head {
    char magic[8];
    unsigned char id[WR_SHA256_BYTES];
    uint64_t name_bytes, image_bytes;   /* the name's 0 included */
    unsigned char sum[WR_SHA256_BYTES]; /* of name and image */
} head;

static const char MAGIC[8] = "WRKERNL1";
enum { MAX_NAME_BYTES = 1 << 16 };
static const size_t MAX_FILE_BYTES = (size_t)1 << 30;

bool wr_kernel_cache_folder(char out[WR_KERNEL_PATH_BYTES]) {
    const char *named = getenv("WEIR_KERNEL_CACHE"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = -1;
    if (named)
        n = *named ? snprintf(out, WR_KERNEL_PATH_BYTES, "%s", named) : -1;
    else if (cache && *cache)
        n = snprintf(out, WR_KERNEL_PATH_BYTES, "%s/weir/kernels", cache);
    else if (home && *home)
        n = snprintf(out, WR_KERNEL_PATH_BYTES, "%s/.cache/weir/kernels", home);
    return n > 0 && n < WR_KERNEL_PATH_BYTES - 128; /* room for a file's name */
}

void wr_kernel_cache_path(const char *folder, const unsigned char id[WR_SHA256_BYTES], char out[WR_KERNEL_PATH_BYTES]) {
    int n = snprintf(out, WR_KERNEL_PATH_BYTES, "%.3900s/", folder);
    for (int i = 0; i < 16; i++) n += snprintf(out + n, (size_t)(WR_KERNEL_PATH_BYTES - n), "%02x", id[i]);
    snprintf(out + n, (size_t)(WR_KERNEL_PATH_BYTES - n), ".kernel");
}

static void check_sum(const char *name, size_t name_bytes, const void *image, size_t image_bytes,
                      unsigned char out[WR_SHA256_BYTES]) {
    wr_sha256 h;
    wr_sha256_init(&h);
    wr_sha256_add(&h, name, name_bytes);
    wr_sha256_add(&h, image, image_bytes);
    wr_sha256_end(&h, out);
}

static weir_status parse(const unsigned char *data, size_t bytes, const unsigned char *id, wr_kernel_image *out,
                         weir_error *err) {
    head h;
    if (bytes < sizeof h) return WR_FAIL(err, WEIR_E_FORMAT, "it has %zu bytes", bytes);
    memcpy(&h, data, sizeof h);
    if (memcmp(h.magic, MAGIC, sizeof MAGIC) != 0) return WR_FAIL(err, WEIR_E_FORMAT, "it is no kernel file");
    if (memcmp(h.id, id, sizeof h.id) != 0) return WR_FAIL(err, WEIR_E_FORMAT, "it is of another kernel");
    size_t left = bytes - sizeof h;
    if (h.name_bytes < 2 || h.name_bytes > MAX_NAME_BYTES || h.name_bytes > left ||
        h.image_bytes != left - h.name_bytes || data[sizeof h + h.name_bytes - 1])
        return WR_FAIL(err, WEIR_E_FORMAT, "its lengths are wrong");
    out->lowered = (const char *)data + sizeof h;
    out->image = data + sizeof h + h.name_bytes;
    out->image_bytes = h.image_bytes;
    unsigned char sum[WR_SHA256_BYTES];
    check_sum(out->lowered, h.name_bytes, out->image, out->image_bytes, sum);
    if (memcmp(sum, h.sum, sizeof sum) != 0) return WR_FAIL(err, WEIR_E_FORMAT, "its checksum is wrong");
    return WEIR_OK;
}

weir_status wr_kernel_cache_load(const char *folder, const unsigned char id[WR_SHA256_BYTES], wr_arena *memory,
                                 wr_kernel_image *out, weir_error *err) {
    char path[WR_KERNEL_PATH_BYTES], *text;
    size_t bytes;
    *out = (wr_kernel_image){.image_bytes = 0};
    wr_kernel_cache_path(folder, id, path);
    if (!wr_path_exists(path)) return WR_FAIL(err, WEIR_E_NOT_FOUND, "there is no %s", path);
    WR_TRY(wr_file_read(path, MAX_FILE_BYTES, &text, &bytes, err));
    void *data = wr_arena_alloc(memory, bytes ? bytes : 1);
    if (data) memcpy(data, text, bytes);
    wr_free(text);
    if (!data) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for %zu bytes of %s", bytes, path);
    weir_status status = parse(data, bytes, id, out, err);
    if (status != WEIR_OK) wr_err_context(err, "%s", path);
    return status;
}

/* Others may make the same folders at the same time. */
static weir_status make_folders(const char *folder, weir_error *err) {
    char path[WR_KERNEL_PATH_BYTES];
    if (wr_path_is_folder(folder)) return WEIR_OK;
    snprintf(path, sizeof path, "%s", folder);
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (!wr_path_is_folder(path)) (void)wr_folder_create(path, NULL); /* the last one reports */
        *slash = '/';
    }
    weir_status status = wr_folder_create(folder, err);
    return status != WEIR_OK && wr_path_is_folder(folder) ? WEIR_OK : status;
}

static weir_status write_parts(const char *path, const head *h, const wr_kernel_image *k, weir_error *err) {
    wr_out out;
    WR_TRY(wr_out_create(path, sizeof *h + h->name_bytes + h->image_bytes, &out, err));
    weir_status status = wr_out_write(&out, 0, h, sizeof *h, err);
    if (status == WEIR_OK) status = wr_out_write(&out, sizeof *h, k->lowered, h->name_bytes, err);
    if (status == WEIR_OK) status = wr_out_write(&out, sizeof *h + h->name_bytes, k->image, h->image_bytes, err);
    weir_status closed = wr_out_close(&out, status == WEIR_OK ? err : NULL);
    return status == WEIR_OK ? closed : status;
}

weir_status wr_kernel_cache_store(const char *folder, const unsigned char id[WR_SHA256_BYTES],
                                  const wr_kernel_image *kernel, weir_error *err) {
    static atomic_uint n_written;
    char path[WR_KERNEL_PATH_BYTES], temporary[WR_KERNEL_PATH_BYTES + 64];
    head h = {.name_bytes = strlen(kernel->lowered) + 1, .image_bytes = kernel->image_bytes};
    memcpy(h.magic, MAGIC, sizeof MAGIC);
    memcpy(h.id, id, sizeof h.id);
    check_sum(kernel->lowered, h.name_bytes, kernel->image, kernel->image_bytes, h.sum);
    WR_TRY(make_folders(folder, err));
    wr_kernel_cache_path(folder, id, path);
    /* The process and a count: nobody else has this name, on this machine or after a crash of another. */
    snprintf(temporary, sizeof temporary, "%s.%ld.%u.part", path, (long)getpid(), atomic_fetch_add(&n_written, 1));
    weir_status status = write_parts(temporary, &h, kernel, err);
    if (status == WEIR_OK) status = wr_path_rename(temporary, path, err);
    if (status != WEIR_OK && status != WEIR_E_STATE) (void)wr_path_remove(temporary);
    return status;
}
