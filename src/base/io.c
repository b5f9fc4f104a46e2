/* File access. Every system call that can fail in practice has an injection
 * point before it, so the sweep sees open, stat, map and read apart. */
#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/mem.h"

/* True, with errno set, when the sweep wants this call to fail. */
static bool injected(void) {
    if (!wr_fault_hit(WR_FAULT_IO)) return false;
    errno = EIO;
    return true;
}

static weir_status fail_errno(weir_error *err, const char *verb, const char *path, int code) {
    if (code == ENOENT || code == ENOTDIR)
        return WR_FAIL(err, WEIR_E_NOT_FOUND, "%s does not exist; check the path", path);
    char buffer[128];
    const char *text = strerror_r(code, buffer, sizeof buffer);
    return WR_FAIL(err, WEIR_E_IO, "cannot %s %s: %s", verb, path, text);
}

/* Open for reading, never blocking on a pipe without a writer. */
static weir_status open_file(const char *path, bool regular_only, int *fd_out, struct stat *info, weir_error *err) {
    int fd = injected() ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | (regular_only ? O_NONBLOCK : 0));
    if (fd < 0) return fail_errno(err, "open", path, errno);
    weir_status status = WEIR_OK;
    if (injected() || fstat(fd, info) != 0) {
        status = fail_errno(err, "examine", path, errno);
    } else if (S_ISDIR(info->st_mode)) {
        status = WR_FAIL(err, WEIR_E_IO, "%s is a folder; a file is needed here", path);
    } else if (regular_only && !S_ISREG(info->st_mode)) {
        status = WR_FAIL(err, WEIR_E_IO, "%s is not a regular file; it cannot be mapped", path);
    }
    if (status != WEIR_OK) {
        close(fd);
        return status;
    }
    *fd_out = fd;
    return WEIR_OK;
}

weir_status wr_map_open(const char *path, wr_map *map, weir_error *err) {
    *map = (wr_map){.data = NULL, .bytes = 0};
    int fd;
    struct stat info;
    WR_TRY(open_file(path, true, &fd, &info, err));
    if (info.st_size == 0) {
        close(fd);
        return WEIR_OK;
    }
    if ((uintmax_t)info.st_size > SIZE_MAX) {
        close(fd);
        return WR_FAIL(err, WEIR_E_LIMIT, "%s has %lld bytes, more than this machine can address", path,
                       (long long)info.st_size);
    }
    size_t bytes = (size_t)info.st_size;
    void *data = injected() ? MAP_FAILED : mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    int code = errno;
    close(fd);
    if (data == MAP_FAILED) return fail_errno(err, "map", path, code);
    map->data = data;
    map->bytes = bytes;
    return WEIR_OK;
}

void wr_map_close(wr_map *map) {
    if (!map) return;
    if (map->data) munmap((void *)map->data, map->bytes);
    *map = (wr_map){.data = NULL, .bytes = 0};
}

void wr_map_drop(const wr_map *map, size_t offset, size_t bytes) {
    if (!map->data || offset >= map->bytes) return;
    if (bytes > map->bytes - offset) bytes = map->bytes - offset;
    /* Only whole pages, so that neighbours stay; the last page of the file has
     * nothing of ours behind it and counts as whole. */
    size_t page = (size_t)sysconf(_SC_PAGESIZE), end = offset + bytes;
    size_t first = (offset + page - 1) / page * page;
    if (end != map->bytes) end = end / page * page;
    if (first < end) (void)madvise((uint8_t *)map->data + first, end - first, MADV_DONTNEED);
}

/* Read until the end; *text has room for *room bytes and one more. */
static weir_status read_all(int fd, const char *path, size_t max_bytes, char **text, size_t *room, size_t *used,
                            weir_error *err) {
    for (;;) {
        if (*used == *room) {
            /* Full: grow, up to one byte past the limit, which proves the excess. */
            size_t larger = *room < max_bytes / 2 ? *room * 2 + 1 : max_bytes + 1;
            char *grown = wr_realloc(*text, larger + 1);
            if (!grown) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for %zu bytes of %s", larger + 1, path);
            *text = grown;
            *room = larger;
        }
        ssize_t got = injected() ? -1 : read(fd, *text + *used, *room - *used);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail_errno(err, "read", path, errno);
        if (got == 0) return WEIR_OK;
        *used += (size_t)got;
        if (*used > max_bytes)
            return WR_FAIL(err, WEIR_E_LIMIT, "%s has more than the %zu bytes allowed here", path, max_bytes);
    }
}

weir_status wr_file_read(const char *path, size_t max_bytes, char **text, size_t *bytes, weir_error *err) {
    *text = NULL;
    *bytes = 0;
    if (max_bytes > SIZE_MAX - 2) max_bytes = SIZE_MAX - 2;
    int fd;
    struct stat info;
    WR_TRY(open_file(path, false, &fd, &info, err));
    char *buffer = NULL;
    weir_status status = WEIR_OK;
    /* st_size is only a first guess: pipes say 0, and a file may grow. */
    size_t room = 4096, used = 0;
    if (S_ISREG(info.st_mode)) {
        if ((uintmax_t)info.st_size > max_bytes) {
            status = WR_FAIL(err, WEIR_E_LIMIT, "%s has %lld bytes; at most %zu are allowed here", path,
                             (long long)info.st_size, max_bytes);
            goto fail;
        }
        room = (size_t)info.st_size + 1;
    }
    buffer = wr_malloc(room + 1);
    if (!buffer) {
        status = WR_FAIL(err, WEIR_E_MEMORY, "no memory for %zu bytes of %s", room + 1, path);
        goto fail;
    }
    WR_TRY_GOTO(status, read_all(fd, path, max_bytes, &buffer, &room, &used, err), fail);
    close(fd);
    buffer[used] = 0;
    *text = buffer;
    *bytes = used;
    return WEIR_OK;
fail:
    wr_free(buffer);
    close(fd);
    return status;
}

/* Of a path that is being made. */
static weir_status fail_create(weir_error *err, const char *path, int code) {
    if (code == EEXIST) return WR_FAIL(err, WEIR_E_STATE, "%s exists already", path);
    if (code == ENOENT)
        return WR_FAIL(err, WEIR_E_NOT_FOUND, "cannot create %s: the folder it is to lie in does not exist", path);
    return fail_errno(err, "create", path, code);
}

weir_status wr_out_create(const char *path, uint64_t bytes, wr_out *out, weir_error *err) {
    *out = (wr_out){.fd = -1, .path = wr_strdup(path)};
    if (!out->path) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for the name %s", path);
    out->fd = injected() ? -1 : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    int code = out->fd < 0 ? errno : 0;
    if (out->fd >= 0 && bytes && (injected() || fallocate(out->fd, 0, 0, (off_t)bytes) != 0)) {
        /* Not every file system can reserve room; there a full disk shows when writing. */
        code = errno == EOPNOTSUPP || errno == ENOSYS ? 0 : errno;
        if (code) (void)unlink(path);
    }
    if (!code) return WEIR_OK;
    (void)wr_out_close(out, NULL);
    return fail_create(err, path, code);
}

weir_status wr_out_write(const wr_out *out, uint64_t offset, const void *data, size_t bytes, weir_error *err) {
    const uint8_t *from = data;
    while (bytes) {
        ssize_t put = injected() ? -1 : pwrite(out->fd, from, bytes, (off_t)offset);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return fail_errno(err, "write", out->path, errno);
        from += put, offset += (uint64_t)put, bytes -= (size_t)put;
    }
    return WEIR_OK;
}

weir_status wr_out_close(wr_out *out, weir_error *err) {
    weir_status status = WEIR_OK;
    if (out->fd >= 0 && (close(out->fd) != 0 || injected())) status = fail_errno(err, "write", out->path, errno);
    wr_free(out->path);
    *out = (wr_out){.fd = -1};
    return status;
}

weir_status wr_file_write(const char *path, const void *data, size_t bytes, weir_error *err) {
    wr_out out;
    WR_TRY(wr_out_create(path, bytes, &out, err));
    weir_status status = wr_out_write(&out, 0, data, bytes, err);
    weir_status closed = wr_out_close(&out, status == WEIR_OK ? err : NULL);
    if (status == WEIR_OK) status = closed;
    if (status != WEIR_OK) (void)unlink(path);
    return status;
}

weir_status wr_folder_create(const char *path, weir_error *err) {
    if (!injected() && mkdir(path, 0777) == 0) return WEIR_OK;
    return fail_create(err, path, errno);
}

weir_status wr_path_rename(const char *from, const char *to, weir_error *err) {
    if (!injected() && rename(from, to) == 0) return WEIR_OK;
    int code = errno;
    weir_status status = fail_errno(err, "rename", from, code);
    wr_err_context(err, "to %s", to);
    return status;
}

bool wr_path_remove(const char *path) { return unlink(path) == 0 || rmdir(path) == 0 || errno == ENOENT; }

bool wr_path_exists(const char *path) {
    struct stat info;
    return lstat(path, &info) == 0;
}

static bool has_type(const char *path, mode_t type) {
    struct stat info;
    return stat(path, &info) == 0 && (info.st_mode & S_IFMT) == type;
}

bool wr_path_is_file(const char *path) { return has_type(path, S_IFREG); }

bool wr_path_is_folder(const char *path) { return has_type(path, S_IFDIR); }

char *wr_path_join(const char *folder, const char *name) {
    size_t n = strlen(folder), m = strlen(name);
    bool slash = n > 0 && folder[n - 1] != '/';
    char *path = wr_malloc(n + m + 2);
    if (!path) return NULL;
    memcpy(path, folder, n);
    if (slash) path[n++] = '/';
    memcpy(path + n, name, m + 1);
    return path;
}
