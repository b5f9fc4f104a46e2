/* weir version: what this weir is, and the devices it could run on. */
#include <string.h>

#include "array/graph.h"
#include "cli/cli.h"
#include "cpu/isa.h"
#include "weir/version.h"

enum { MAX_DEVICES = 65 };

typedef struct devices {
    weir_device_info at[MAX_DEVICES];
    int n;
    const char *built_for; /* NULL: there is no CUDA library */
    weir_error cuda;       /* why there is no GPU; status OK when there is one */
} devices;

static weir_status find(devices *d, weir_error *err) {
    *d = (devices){0};
    WR_TRY(weir_device_describe("cpu", &d->at[d->n++], err));
    d->built_for = wr_device_cuda_built_for(&d->cuda);
    if (!d->built_for) return WEIR_OK;
    for (weir_status st = WEIR_OK; d->n < MAX_DEVICES;) {
        char name[24];
        snprintf(name, sizeof name, "cuda:%d", d->n - 1);
        st = weir_device_describe(name, &d->at[d->n], &d->cuda);
        if (st != WEIR_OK) {
            if (d->n > 1) d->cuda = (weir_error){0}; /* the end of the list */
            break;
        }
        d->n++;
    }
    return WEIR_OK;
}

static json_t *version_text(int value, int unit) {
    return value ? json_sprintf("%d.%d", value / unit, value % unit / (unit == 1000 ? 10 : 1)) : json_null();
}

static json_t *text_or_null(const char *text) {
    return text && *text ? wr_cli_json_text(text, strlen(text)) : json_null();
}

static json_t *built_list(const char *built_for) {
    json_t *list = json_array();
    for (const char *at = built_for ? built_for : ""; *at; at += strspn(at, " ")) {
        size_t n = strcspn(at, " ");
        json_array_append_new(list, json_stringn(at, n));
        at += n;
    }
    return list;
}

static weir_status show_json(json_t *object, const devices *d, weir_error *err) {
    json_t *list = json_array();
    for (int i = 0; i < d->n; i++) {
        const weir_device_info *info = &d->at[i];
        json_array_append_new(
            list, json_pack("{s:s,s:o,s:I,s:I,s:i,s:o,s:o,s:o}", "name", info->name, "model", text_or_null(info->model),
                            "memory", (json_int_t)info->memory_bytes, "free", (json_int_t)info->free_bytes, "units",
                            info->n_units, "capability", version_text(info->capability, 10), "driver",
                            version_text(info->driver_version, 1000), "problem", text_or_null(info->problem)));
    }
    json_object_set_new(object, "devices", list);
    json_object_set_new(object, "built_for", built_list(d->built_for));
    json_object_set_new(object, "cuda_problem", text_or_null(d->cuda.status == WEIR_OK ? NULL : d->cuda.message));
    return wr_cli_json(object, err);
}

static void show_text(const devices *d) {
    for (int i = 0; i < d->n; i++) {
        const weir_device_info *info = &d->at[i];
        printf("%s: %s", info->name, info->model);
        if (info->capability)
            printf(", compute capability %d.%d, %d multiprocessors, driver for CUDA %d.%d", info->capability / 10,
                   info->capability % 10, info->n_units, info->driver_version / 1000, info->driver_version % 1000 / 10);
        else
            printf(", %d %s", info->n_units, info->n_units == 1 ? "core" : "cores");
        printf(", %zu MiB", info->memory_bytes >> 20);
        if (info->free_bytes) printf(" (%zu free)", info->free_bytes >> 20);
        printf("%s%s\n", *info->problem ? "; cannot be used: " : "", info->problem);
    }
    if (!d->built_for)
        printf("cuda: %s\n", d->cuda.message);
    else if (d->cuda.status != WEIR_OK)
        printf("cuda: %s; built for %s\n", d->cuda.message, d->built_for);
    else
        printf("cuda: built for %s\n", d->built_for);
}

weir_status wr_cmd_version(const wr_cli *cli, weir_error *err) {
    WR_TRY(wr_cpu_level_error(err));
    const char *cpu = wr_cpu_isa_name(wr_cpu_level());
    devices found;
    if (cli->devices) WR_TRY(find(&found, err));
    if (cli->json) {
        json_t *object = json_pack("{s:s,s:s}", "version", WEIR_VERSION, "cpu", cpu);
        return cli->devices ? show_json(object, &found, err) : wr_cli_json(object, err);
    }
    printf("weir %s\n", WEIR_VERSION);
    if (cli->devices)
        show_text(&found);
    else
        printf("cpu: %s\n", cpu);
    return wr_cli_flush(err);
}
