/* What the CPU can do, found at run time. The library is built for the
 * baseline of its architecture; faster kernels are functions with one of the
 * target attributes below, chosen by fits() of their row:
 *
 *   static bool fits(const wr_step *step) { return wr_cpu_level() >= WR_CPU_AVX2 && ...; }
 *
 * WEIR_CPU=portable|avx2|avx512 asks for a lower level than the machine has. */
#ifndef WR_CPU_ISA_H
#define WR_CPU_ISA_H

#include <stdbool.h>

#include "base/status.h"

typedef enum wr_cpu_isa {
    WR_CPU_PORTABLE, /* plain C */
    WR_CPU_AVX2,     /* AVX2, FMA, F16C */
    WR_CPU_AVX512    /* AVX-512 F, BW, VL, DQ, VNNI, BF16, and all of AVX2's */
} wr_cpu_isa;

#if defined(__x86_64__)
#define WR_CPU_X86     1
#define WR_TARGET_AVX2 __attribute__((target("avx2,fma,f16c")))
#define WR_TARGET_AVX512                                                                                               \
    __attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512bf16")))
#endif

const char *wr_cpu_isa_name(wr_cpu_isa isa); /* "portable", "avx2", "avx512" */
/* The best level of this machine, whatever the environment says. */
wr_cpu_isa wr_cpu_machine_level(void);
/* The level in use: the machine's, or the lower one of WEIR_CPU, which is read once. */
wr_cpu_isa wr_cpu_level(void);
/* ARGUMENT when WEIR_CPU holds an unknown word, UNSUPPORTED when it asks for more than the machine has; in both cases
 * wr_cpu_level() is the machine's. Reported when a device is opened. */
weir_status wr_cpu_level_error(weir_error *err);
/* For tests: use this level from now on; false, and no change, when the machine lacks it. Not while programs run. */
bool wr_cpu_level_force(wr_cpu_isa isa);

#endif
