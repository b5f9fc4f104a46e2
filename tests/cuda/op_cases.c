/* The cases of the CPU room's test, for the device's. */
#include "../cpu/op_cases.c"
