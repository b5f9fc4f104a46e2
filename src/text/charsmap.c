/* A unit of the trie holds: bits 0-7 the byte that leads to it (bit 31 set in a unit
 * that is a value), bit 8 whether a rule ends here, bits 9-30 the distance to its
 * children, coarse when bit 9 is set. Every step is checked against the array's end,
 * since a hostile file may point anywhere. */
#include "text/charsmap.h"

#include <string.h>

#include "base/mem.h"
#include "text/unicode.h"

enum { MAP_BYTES_MAX = 1 << 26 };

static uint32_t read_u32(const uint8_t *p) {
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint32_t distance(uint32_t unit) { return unit >> 10 << ((unit & 1u << 9) >> 6); }

void wr_charsmap_deinit(wr_charsmap *map) {
    wr_free(map->units);
    wr_free(map->texts);
    *map = (wr_charsmap){0};
}

weir_status wr_charsmap_init(wr_charsmap *map, const uint8_t *blob, size_t bytes, weir_error *err) {
    *map = (wr_charsmap){0};
    size_t trie_bytes = bytes >= 4 ? read_u32(blob) : 0;
    if (bytes < 4 || bytes > MAP_BYTES_MAX || trie_bytes > bytes - 4 || trie_bytes % 4 || trie_bytes == 0) {
        return WR_FAIL(err, WEIR_E_FORMAT, "the normalisation rules say %zu bytes of trie, they have %zu in all",
                       trie_bytes, bytes);
    }
    const uint8_t *texts = blob + 4 + trie_bytes;
    size_t n_texts = bytes - 4 - trie_bytes;
    if (n_texts && (texts[n_texts - 1] != 0 || wr_utf8_valid(texts, n_texts) != n_texts)) {
        return WR_FAIL(err, WEIR_E_FORMAT, "the texts of the normalisation rules are not terminated UTF-8");
    }
    map->n_units = trie_bytes / 4;
    map->n_texts = n_texts;
    map->units = wr_malloc(trie_bytes);
    map->texts = wr_malloc(n_texts + 1);
    if (!map->units || !map->texts) {
        wr_charsmap_deinit(map);
        return WR_FAIL(err, WEIR_E_MEMORY, "no memory for %zu bytes of normalisation rules", bytes);
    }
    for (size_t i = 0; i < map->n_units; i++) map->units[i] = read_u32(blob + 4 + 4 * i);
    memcpy(map->texts, texts, n_texts);
    map->texts[n_texts] = 0;
    for (unsigned c = 1; c < 128; c++) {
        uint32_t at = distance(map->units[0]) ^ c;
        if (at < map->n_units && (map->units[at] & 0x800000FFu) == c) map->ascii[c >> 3] |= (uint8_t)(1u << (c & 7));
    }
    return WEIR_OK;
}

static const char *look_up(const wr_charsmap *map, const uint8_t *p, size_t n, bool longest, size_t *used) {
    const char *found = NULL;
    uint32_t at = distance(map->units[0]);
    for (size_t i = 0; i < n && p[i]; i++) {
        at ^= p[i];
        if (at >= map->n_units) break;
        uint32_t unit = map->units[at];
        if ((unit & 0x800000FFu) != p[i]) break;
        at ^= distance(unit);
        if (!(unit >> 8 & 1) || at >= map->n_units) continue;
        uint32_t text = map->units[at] & 0x7FFFFFFFu;
        if (text >= map->n_texts) continue;
        /* Neither side of a replacement may cut a character. */
        if ((map->texts[text] & 0xC0) == 0x80 || (i + 1 < n && (p[i + 1] & 0xC0) == 0x80)) continue;
        found = map->texts + text;
        *used = i + 1;
        if (!longest) break;
    }
    return found;
}

const char *wr_charsmap_shortest(const wr_charsmap *map, const uint8_t *p, size_t n, size_t *used) {
    return look_up(map, p, n, false, used);
}

const char *wr_charsmap_longest(const wr_charsmap *map, const uint8_t *p, size_t n, size_t *used) {
    return look_up(map, p, n, true, used);
}
