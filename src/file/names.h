/* A table from names to indices, for the tensors and keys of one file. Names are
 * borrowed and need no terminator. Not thread-safe while adding. */
#ifndef WR_FILE_NAMES_H
#define WR_FILE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct wr_names {
    struct wr_name_slot *slots;
    size_t n_slots; /* a power of two, at least twice the number of names */
    uint64_t seed;
} wr_names;

/* Room for `count` names; false when out of memory. */
bool wr_names_init(wr_names *names, size_t count);
void wr_names_deinit(wr_names *names);
/* -1 when added; the index already there when the name is known. */
int64_t wr_names_add(wr_names *names, const char *text, size_t bytes, int64_t index);
/* The index, or -1. */
int64_t wr_names_find(const wr_names *names, const char *text, size_t bytes);

/* Printable ASCII only and not empty? Names of other kinds are refused, so that they
 * can stand in messages and on terminals as they are. */
bool wr_name_is_plain(const char *text, size_t bytes);

#endif
