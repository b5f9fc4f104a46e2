/* Views on the CUDA device. Skipped without one. */
#include "cpu/view_cases.h"

int main(void) { return run_view_tests("cuda"); }
