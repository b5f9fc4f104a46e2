/* Time that only goes forward. */
#ifndef WR_BASE_CLOCK_H
#define WR_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds since some moment before the process. */
static inline uint64_t wr_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#endif
