/* A merge sort: its comparisons can fail, and qsort's could not. */
#include "text/jinja/sort.h"

#include <string.h>

static bool less(wr_jrun *run, wr_jval a, wr_jval b, bool *out) { return wr_jcompare(run, a, b, '<', out); }

bool wr_jsort(wr_jrun *run, wr_jsortable *items, size_t n, bool reverse) {
    wr_jsortable *other = wr_jalloc_n(run, n, sizeof *other);
    if (!other) return false;
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t from = 0; from < n; from += 2 * width) {
            size_t middle = from + width < n ? from + width : n, end = middle + width < n ? middle + width : n;
            size_t a = from, b = middle;
            for (size_t i = from; i < end; i++) {
                bool take_b = a == middle;
                if (!take_b && b < end && !less(run, items[reverse ? a : b].key, items[reverse ? b : a].key, &take_b))
                    return false;
                other[i] = take_b ? items[b++] : items[a++];
            }
        }
        memcpy(items, other, n * sizeof *items);
    }
    return true;
}

bool wr_jsort_entries(wr_jrun *run, const wr_jdict *dict, const wr_jentry **out) {
    wr_jsortable *order = wr_jalloc_n(run, dict->n, sizeof *order);
    wr_jentry *sorted = wr_jalloc_n(run, dict->n, sizeof *sorted);
    if (!order || !sorted) return false;
    for (size_t i = 0; i < dict->n; i++) order[i] = (wr_jsortable){dict->entries[i].key, wr_jint((int64_t)i)};
    if (!wr_jsort(run, order, dict->n, false)) return false;
    for (size_t i = 0; i < dict->n; i++) sorted[i] = dict->entries[order[i].value.i];
    *out = sorted;
    return true;
}
