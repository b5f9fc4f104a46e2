/* CPU feature detection by cpuid and xgetbv: the compilers' own built-ins do
 * not know all the names in every supported version. */
#include "cpu/isa.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#if defined(WR_CPU_X86)
#include <cpuid.h>
#endif

enum { N_LEVELS = 3, WANTED_BYTES = 32 };

static const char *const level_names[N_LEVELS] = {"portable", "avx2", "avx512"};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static wr_cpu_isa machine = WR_CPU_PORTABLE;
static atomic_int level = WR_CPU_PORTABLE;
static weir_status env_status = WEIR_OK;
static char env_wanted[WANTED_BYTES]; /* what WEIR_CPU said, cut */

const char *wr_cpu_isa_name(wr_cpu_isa isa) { return (unsigned)isa < N_LEVELS ? level_names[isa] : "?"; }

#if defined(WR_CPU_X86)
static unsigned long long xcr0(void) {
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (unsigned long long)high << 32 | low;
}

static wr_cpu_isa detect(void) {
    unsigned a, b, c, d, b7, c7, d7, a71 = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return WR_CPU_PORTABLE;
    bool osxsave = c >> 27 & 1, avx = c >> 28 & 1, fma = c >> 12 & 1, f16c = c >> 29 & 1;
    if (!osxsave || !avx || !fma || !f16c) return WR_CPU_PORTABLE;
    if (!__get_cpuid_count(7, 0, &a, &b7, &c7, &d7)) return WR_CPU_PORTABLE;
    unsigned subleaves = a;
    unsigned long long enabled = xcr0();
    bool avx2 = b7 >> 5 & 1;
    if (!avx2 || (enabled & 0x6) != 0x6) return WR_CPU_PORTABLE; /* the system saves xmm and ymm */
    bool f = b7 >> 16 & 1, dq = b7 >> 17 & 1, bw = b7 >> 30 & 1, vl = b7 >> 31 & 1, vnni = c7 >> 11 & 1;
    if (subleaves >= 1) __get_cpuid_count(7, 1, &a71, &b, &c, &d);
    bool bf16 = a71 >> 5 & 1;
    bool saved = (enabled & 0xe6) == 0xe6; /* and the mask registers and zmm */
    return f && dq && bw && vl && vnni && bf16 && saved ? WR_CPU_AVX512 : WR_CPU_AVX2;
}
#else
static wr_cpu_isa detect(void) { return WR_CPU_PORTABLE; }
#endif

static void init(void) {
    machine = detect();
    atomic_store(&level, (int)machine);
    const char *wanted = getenv("WEIR_CPU");
    if (!wanted || !*wanted) return;
    strncpy(env_wanted, wanted, WANTED_BYTES - 1);
    for (int i = 0; i < N_LEVELS; i++) {
        if (strcmp(wanted, level_names[i])) continue;
        if (i > (int)machine)
            env_status = WEIR_E_UNSUPPORTED;
        else
            atomic_store(&level, i);
        return;
    }
    env_status = WEIR_E_ARGUMENT;
}

wr_cpu_isa wr_cpu_machine_level(void) {
    pthread_once(&once, init);
    return machine;
}

wr_cpu_isa wr_cpu_level(void) {
    pthread_once(&once, init);
    return (wr_cpu_isa)atomic_load_explicit(&level, memory_order_relaxed);
}

weir_status wr_cpu_level_error(weir_error *err) {
    pthread_once(&once, init);
    if (env_status == WEIR_E_UNSUPPORTED)
        return WR_FAIL(err, env_status, "WEIR_CPU=%s, but this CPU offers at most %s; unset it or choose a lower level",
                       env_wanted, level_names[machine]);
    if (env_status == WEIR_E_ARGUMENT)
        return WR_FAIL(err, env_status, "WEIR_CPU=%s is unknown; use portable, avx2 or avx512", env_wanted);
    return WEIR_OK;
}

bool wr_cpu_level_force(wr_cpu_isa isa) {
    pthread_once(&once, init);
    if ((unsigned)isa >= N_LEVELS || isa > machine) return false;
    atomic_store(&level, (int)isa);
    return true;
}
