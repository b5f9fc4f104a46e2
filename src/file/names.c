/* Open addressing with linear probing, never more than half full. */
#include "file/names.h"

#include <string.h>

#include "base/mem.h"

typedef struct wr_name_slot {
    const char *text; /* NULL: free */
    size_t bytes;
    int64_t index;
} wr_name_slot;

bool wr_names_init(wr_names *names, size_t count) {
    size_t n = 16;
    while (n < count * 2) n *= 2;
    *names = (wr_names){wr_calloc(n, sizeof(wr_name_slot)), n, 0};
    /* The address differs from run to run, so a file cannot be made to collide. */
    names->seed = (uint64_t)(uintptr_t)names->slots * 0x9e3779b97f4a7c15u;
    if (!names->slots) names->n_slots = 0;
    return names->slots != NULL;
}

void wr_names_deinit(wr_names *names) {
    wr_free(names->slots);
    *names = (wr_names){0};
}

static wr_name_slot *find_slot(const wr_names *names, const char *text, size_t bytes) {
    uint64_t h = names->seed ^ bytes;
    for (size_t i = 0; i < bytes; i++) h = (h ^ (uint8_t)text[i]) * 0x100000001b3u;
    h = (h ^ (h >> 32)) * 0x9e3779b97f4a7c15u;
    for (size_t i = (size_t)(h >> 20);; i++) {
        wr_name_slot *slot = &names->slots[i & (names->n_slots - 1)];
        if (!slot->text || (slot->bytes == bytes && memcmp(slot->text, text, bytes) == 0)) return slot;
    }
}

int64_t wr_names_add(wr_names *names, const char *text, size_t bytes, int64_t index) {
    wr_name_slot *slot = find_slot(names, text, bytes);
    if (slot->text) return slot->index;
    *slot = (wr_name_slot){text, bytes, index};
    return -1;
}

int64_t wr_names_find(const wr_names *names, const char *text, size_t bytes) {
    if (names->n_slots == 0) return -1;
    const wr_name_slot *slot = find_slot(names, text, bytes);
    return slot->text ? slot->index : -1;
}

bool wr_name_is_plain(const char *text, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        if ((uint8_t)text[i] < 0x20 || (uint8_t)text[i] > 0x7e) return false;
    return bytes > 0;
}
