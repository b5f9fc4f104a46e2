/* Fault injection: the failure sweep of the tests asks for the nth memory or
 * I/O call to fail. Always compiled in; one relaxed atomic read when unused. */
#ifndef WR_BASE_FAULT_H
#define WR_BASE_FAULT_H

#include <stdbool.h>
#include <stdint.h>

typedef enum wr_fault_kind { WR_FAULT_MEMORY, WR_FAULT_IO, WR_FAULT_KINDS } wr_fault_kind;

/* Let the nth call from now fail, once (1 = the next); 0 switches off. With
 * UINT64_MAX nothing fails and the calls are counted. */
void wr_fault_arm(wr_fault_kind kind, uint64_t nth);
/* Calls seen since the last arm with nth > 0, while armed: switching off stops
 * the count and keeps it. */
uint64_t wr_fault_calls(wr_fault_kind kind);
/* To be asked at each injection point: true means "fail now". */
bool wr_fault_hit(wr_fault_kind kind);

#endif
