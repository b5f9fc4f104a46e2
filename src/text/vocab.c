/* Open addressing with linear probing over ids, at most half full: 2 to 4 slots of
 * 4 bytes a token. Comparing goes to the blob, which holds every piece once. */
#include "text/vocab.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "text/unicode.h"
#include "text/work.h"

static uint64_t mix(uint64_t a, uint64_t b) {
    unsigned __int128 m = (unsigned __int128)a * b;
    return (uint64_t)m ^ (uint64_t)(m >> 64);
}

/* Multiply-and-fold over 8-byte words; the constants are odd and have about half
 * of their bits set, which is all that is asked of them. */
static uint64_t hash_bytes(const uint8_t *p, size_t n) {
    uint64_t h = 0x9E3779B97F4A7C15u ^ n, w = 0;
    for (; n > 8; p += 8, n -= 8) {
        memcpy(&w, p, 8);
        h = mix(h ^ w, 0xD6E8FEB86659FD93u);
    }
    if (n >= 4) { /* two words that overlap, cheaper than a copy of n bytes */
        uint32_t low, high;
        memcpy(&low, p, 4);
        memcpy(&high, p + n - 4, 4);
        w = low | (uint64_t)high << 32;
    } else if (n) {
        w = p[0] | (uint64_t)p[n / 2] << 8 | (uint64_t)p[n - 1] << 16;
    }
    h = mix(h ^ w, 0xA0761D6478BD642Fu);
    return h ^ h >> 29;
}

/* Ids need 23 bits; the other 9 hold hash bits, so that most of the slots passed on
 * the way are not followed into the blob. */
enum { ID_BITS = 23 };
_Static_assert(WR_VOCAB_MAX < 1 << ID_BITS, "ids must fit their part of a slot");
static uint32_t slot_id(uint32_t slot) { return (slot & ((1u << ID_BITS) - 1)) - 1; }
static uint32_t hash_tag(uint64_t h) { return (uint32_t)(h >> 55) << ID_BITS; }

weir_status wr_vocab_init(wr_vocab *v, size_t expected, size_t blob_bytes, weir_error *err) {
    *v = (wr_vocab){0};
    if (expected > WR_VOCAB_MAX) {
        return WR_FAIL(err, WEIR_E_LIMIT, "the vocabulary has %zu tokens, at most %d are allowed", expected,
                       WR_VOCAB_MAX);
    }
    size_t slots = 16;
    while (slots < 2 * expected) slots *= 2;
    v->slot = wr_calloc(slots, sizeof *v->slot);
    bool ok = v->slot != NULL;
    v->n_slots = slots;
    if (ok && blob_bytes) ok = wr_grow(&v->blob, &v->blob_cap, blob_bytes, 1);
    if (!ok) {
        wr_vocab_deinit(v);
        return WR_FAIL(err, WEIR_E_MEMORY, "no memory for a vocabulary of %zu tokens", expected);
    }
    return WEIR_OK;
}

void wr_vocab_deinit(wr_vocab *v) {
    wr_free(v->blob);
    wr_free(v->place);
    wr_free(v->flags);
    wr_free(v->slot);
    *v = (wr_vocab){0};
}

/* Slot of the piece with this hash, or the empty slot where it belongs. */
static size_t find_slot(const wr_vocab *v, const uint8_t *piece, size_t bytes, uint64_t h) {
    size_t mask = v->n_slots - 1, s = h & mask;
    uint32_t tag = hash_tag(h);
    for (; v->slot[s]; s = (s + 1) & mask) {
        if ((v->slot[s] ^ tag) >> ID_BITS) continue;
        wr_vocab_place place = v->place[slot_id(v->slot[s])];
        if (place.length == bytes && memcmp(v->blob + place.offset, piece, bytes) == 0) break;
    }
    return s;
}

int32_t wr_vocab_find(const wr_vocab *v, const void *piece, size_t bytes) {
    if (bytes == 0 || bytes > v->max_piece_bytes) return -1;
    uint32_t slot = v->slot[find_slot(v, piece, bytes, hash_bytes(piece, bytes))];
    return slot ? (int32_t)slot_id(slot) : -1;
}

int32_t wr_vocab_find_near(const wr_vocab *v, int32_t guess, const void *piece, size_t bytes) {
    if (wr_vocab_has(v, guess) && v->place[guess].length == bytes &&
        memcmp(v->blob + v->place[guess].offset, piece, bytes) == 0) {
        return guess;
    }
    return wr_vocab_find(v, piece, bytes);
}

static bool grow_slots(wr_vocab *v) {
    size_t slots = v->n_slots * 2;
    uint32_t *old = v->slot, *fresh = wr_calloc(slots, sizeof *fresh);
    size_t n_old = v->n_slots;
    if (!fresh) return false;
    v->slot = fresh;
    v->n_slots = slots;
    for (size_t i = 0; i < n_old; i++) {
        if (!old[i]) continue;
        wr_vocab_place place = v->place[slot_id(old[i])];
        const uint8_t *piece = v->blob + place.offset;
        v->slot[find_slot(v, piece, place.length, hash_bytes(piece, place.length))] = old[i];
    }
    wr_free(old);
    return true;
}

/* Make ids below n valid indices; new ones are unused. */
static bool grow_ids(wr_vocab *v, size_t n) {
    if (n > v->cap) {
        size_t caps[2] = {v->cap, v->cap};
        size_t want = n < v->n_slots / 2 ? v->n_slots / 2 : n;
        if (!wr_grow(&v->place, &caps[0], want, sizeof *v->place)) return false;
        if (!wr_grow(&v->flags, &caps[1], want, sizeof *v->flags)) return false;
        v->cap = want; /* both hold at least this many */
    }
    for (size_t i = v->n; i < n; i++) {
        v->place[i] = (wr_vocab_place){0, 0};
        v->flags[i] = 0;
    }
    if (n > v->n) v->n = n;
    return true;
}

weir_status wr_vocab_append(wr_vocab *v, int64_t id, const void *piece, size_t bytes, unsigned flags, weir_error *err) {
    char shown[72];
    if (id < 0) {
        return WR_FAIL(err, WEIR_E_FORMAT, "token \"%s\" has the negative id %" PRId64,
                       wr_vocab_show(piece, bytes, shown), id);
    }
    if (id >= WR_VOCAB_MAX) {
        return WR_FAIL(err, WEIR_E_LIMIT, "token \"%s\" has id %" PRId64 ", ids must be below %d",
                       wr_vocab_show(piece, bytes, shown), id, WR_VOCAB_MAX);
    }
    if (bytes == 0) return WR_FAIL(err, WEIR_E_FORMAT, "token %" PRId64 " has an empty piece", id);
    if (wr_vocab_has(v, id)) {
        char other[72];
        return WR_FAIL(err, WEIR_E_FORMAT, "id %" PRId64 " is given to \"%s\" and to \"%s\"", id,
                       wr_vocab_show(wr_vocab_piece(v, (int32_t)id), wr_vocab_length(v, (int32_t)id), other),
                       wr_vocab_show(piece, bytes, shown));
    }
    if (bytes > INT32_MAX || v->blob_bytes + bytes > INT32_MAX) {
        return WR_FAIL(err, WEIR_E_LIMIT, "the pieces of the vocabulary are longer than 2 GiB together");
    }
    if (!grow_ids(v, (size_t)id + 1 > v->n ? (size_t)id + 1 : v->n)) goto memory;
    if (!wr_grow(&v->blob, &v->blob_cap, v->blob_bytes + bytes, 1)) goto memory;
    memcpy(v->blob + v->blob_bytes, piece, bytes);
    v->place[id] = (wr_vocab_place){(uint32_t)v->blob_bytes, (uint32_t)bytes};
    v->flags[id] = (uint8_t)(flags | WR_TOKEN_USED);
    v->blob_bytes += bytes;
    if (bytes > v->max_piece_bytes) v->max_piece_bytes = bytes;
    return WEIR_OK;
memory:
    return WR_FAIL(err, WEIR_E_MEMORY, "no memory for token %" PRId64 " of the vocabulary", id);
}

/* Put an appended id into its slot. */
static weir_status link_id(wr_vocab *v, int32_t id, uint64_t h, weir_error *err) {
    char shown[72];
    size_t s = find_slot(v, wr_vocab_piece(v, id), wr_vocab_length(v, id), h);
    if (v->slot[s]) {
        return WR_FAIL(err, WEIR_E_FORMAT, "piece \"%s\" has two ids, %u and %d",
                       wr_vocab_show(wr_vocab_piece(v, id), wr_vocab_length(v, id), shown), slot_id(v->slot[s]), id);
    }
    v->slot[s] = hash_tag(h) | ((uint32_t)id + 1);
    v->n_used++;
    return WEIR_OK;
}

static weir_status reserve_slots(wr_vocab *v, size_t n, weir_error *err) {
    while ((v->n_used + n) * 2 > v->n_slots) {
        if (!grow_slots(v))
            return WR_FAIL(err, WEIR_E_MEMORY, "no memory for a vocabulary of %zu tokens", v->n_used + n);
    }
    return WEIR_OK;
}

weir_status wr_vocab_add(wr_vocab *v, int64_t id, const void *piece, size_t bytes, unsigned flags, weir_error *err) {
    WR_TRY(reserve_slots(v, 1, err));
    WR_TRY(wr_vocab_append(v, id, piece, bytes, flags, err));
    return link_id(v, (int32_t)id, hash_bytes(piece, bytes), err);
}

weir_status wr_vocab_link_all(wr_vocab *v, weir_error *err) {
    enum { AHEAD = 16 }; /* slots lie anywhere in megabytes: ask for them early */
    uint64_t hash[AHEAD];
    WR_TRY(reserve_slots(v, v->n, err));
    for (size_t i = 0; i < v->n + AHEAD; i++) {
        if (i >= AHEAD) {
            size_t id = i - AHEAD;
            if (v->flags[id] & WR_TOKEN_USED) WR_TRY(link_id(v, (int32_t)id, hash[id % AHEAD], err));
        }
        if (i < v->n) {
            hash[i % AHEAD] = hash_bytes(wr_vocab_piece(v, (int32_t)i), wr_vocab_length(v, (int32_t)i));
            __builtin_prefetch(&v->slot[hash[i % AHEAD] & (v->n_slots - 1)], 1);
        }
    }
    return WEIR_OK;
}

/* A failed shrink leaves the larger block, which is only a waste. */
static void shrink(void *p, size_t bytes) {
    void *old, *smaller;
    memcpy(&old, p, sizeof old);
    if (!old || !bytes) return;
    smaller = wr_realloc(old, bytes);
    if (smaller) memcpy(p, &smaller, sizeof smaller);
}

void wr_vocab_trim(wr_vocab *v) {
    shrink(&v->blob, v->blob_bytes);
    shrink(&v->place, v->n * sizeof *v->place);
    shrink(&v->flags, v->n);
    v->blob_cap = v->blob_bytes;
    v->cap = v->n;
}

int wr_vocab_byte_value(const uint8_t *piece, size_t bytes) {
    if (bytes != 6 || memcmp(piece, "<0x", 3) != 0 || piece[5] != '>') return -1;
    int high = wr_hex_digit((char)piece[3]), low = wr_hex_digit((char)piece[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

int32_t wr_vocab_find_byte(const wr_vocab *v, uint8_t byte) {
    static const char digits[] = "0123456789ABCDEF";
    const char piece[6] = {'<', '0', 'x', digits[byte >> 4], digits[byte & 15], '>'};
    return wr_vocab_find(v, piece, sizeof piece);
}

const char *wr_vocab_show(const void *piece, size_t bytes, char buf[72]) {
    const uint8_t *p = piece;
    size_t n = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (n > 60) {
            memcpy(buf + n, "...", 3);
            n += 3;
            break;
        }
        if (p[i] >= 0x20 && p[i] < 0x7F) {
            buf[n++] = (char)p[i];
        } else {
            n += (size_t)snprintf(buf + n, 5, "\\x%02X", p[i]);
        }
    }
    buf[n] = 0;
    return buf;
}

size_t wr_vocab_heap_bytes(const wr_vocab *v) {
    return v->blob_cap + v->cap * (sizeof *v->place + 1) + v->n_slots * sizeof *v->slot;
}
