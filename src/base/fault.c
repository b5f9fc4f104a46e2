/* Fault injection. Two atomics a kind; the countdown runs only while armed, so
 * that ordinary runs do not fight over a cache line. */
#include "base/fault.h"

#include <stdatomic.h>
#include <stddef.h>

typedef struct fault_point {
    _Atomic uint64_t nth, calls;
} fault_point;

static fault_point points[WR_FAULT_KINDS];

void wr_fault_arm(wr_fault_kind kind, uint64_t nth) {
    /* Switching off keeps the count, so that it can be read afterwards. */
    if (nth) atomic_store_explicit(&points[kind].calls, 0, memory_order_relaxed);
    atomic_store_explicit(&points[kind].nth, nth, memory_order_relaxed);
}

uint64_t wr_fault_calls(wr_fault_kind kind) { return atomic_load_explicit(&points[kind].calls, memory_order_relaxed); }

bool wr_fault_hit(wr_fault_kind kind) {
    uint64_t nth = atomic_load_explicit(&points[kind].nth, memory_order_relaxed);
    if (nth == 0) return false;
    return atomic_fetch_add_explicit(&points[kind].calls, 1, memory_order_relaxed) + 1 == nth;
}
