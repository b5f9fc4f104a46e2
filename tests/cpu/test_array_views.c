/* Views on the CPU, with two threads. */
#include "cpu/view_cases.h"

int main(void) { return run_view_tests("cpu"); }
