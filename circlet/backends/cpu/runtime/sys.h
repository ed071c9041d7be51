/* System calls and CPU state of each architecture, without libc: one library serves glibc, musl and
 * bionic alike, and it is built without their headers. */
#ifndef CIRCLET_SYS_H
#define CIRCLET_SYS_H

#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)
enum { SYS_MMAP = 9, SYS_MUNMAP = 11, SYS_SIGMASK = 14, SYS_YIELD = 24, SYS_MADVISE = 28,
       SYS_GETPID = 39, SYS_PRCTL = 157, SYS_GETTID = 186, SYS_FUTEX = 202,
       SYS_SETAFFINITY = 203, SYS_GETAFFINITY = 204 };
enum { SYS_ARCH_PRCTL = 158, ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
#elif defined(__aarch64__) || (defined(__riscv) && __riscv_xlen == 64)
enum { SYS_MMAP = 222, SYS_MUNMAP = 215, SYS_SIGMASK = 135, SYS_YIELD = 124, SYS_MADVISE = 233,
       SYS_GETPID = 172, SYS_PRCTL = 167, SYS_GETTID = 178, SYS_FUTEX = 98,
       SYS_SETAFFINITY = 122, SYS_GETAFFINITY = 123 };
#elif defined(__arm__)
enum { SYS_MMAP = 192 /* mmap2 */, SYS_MUNMAP = 91, SYS_SIGMASK = 175, SYS_YIELD = 158,
       SYS_MADVISE = 220, SYS_GETPID = 20, SYS_PRCTL = 172, SYS_GETTID = 224, SYS_FUTEX = 240,
       SYS_SETAFFINITY = 241, SYS_GETAFFINITY = 242 };
#else
#error "no system calls are known for this architecture"
#endif

#if defined(__x86_64__)
static inline long sys_call(long number, long a, long b, long c, long d, long e, long f) {
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}
#else
#if defined(__aarch64__)
#define SYS_TRAP "svc 0"
#define SYS_NUMBER "x8"
#define SYS_ARGUMENT "x"
#elif defined(__riscv)
#define SYS_TRAP "ecall"
#define SYS_NUMBER "a7"
#define SYS_ARGUMENT "a"
#else
#define SYS_TRAP "svc 0"
#define SYS_NUMBER "r7"
#define SYS_ARGUMENT "r"
#endif
static inline long sys_call(long number, long a, long b, long c, long d, long e, long f) {
    register long called __asm__(SYS_NUMBER) = number;
    register long r0 __asm__(SYS_ARGUMENT "0") = a;
    register long r1 __asm__(SYS_ARGUMENT "1") = b;
    register long r2 __asm__(SYS_ARGUMENT "2") = c;
    register long r3 __asm__(SYS_ARGUMENT "3") = d;
    register long r4 __asm__(SYS_ARGUMENT "4") = e;
    register long r5 __asm__(SYS_ARGUMENT "5") = f;
    __asm__ volatile(SYS_TRAP
                     : "+r"(r0)
                     : "r"(called), "r"(r1), "r"(r2), "r"(r3), "r"(r4), "r"(r5)
                     : "memory");
    return r0;
}
#endif

/* Asks for AMX tiles, for all threads of the process; whether they are granted. */
static inline uint32_t sys_permit_tiles(void) {
#if defined(__x86_64__)
    return sys_call(SYS_ARCH_PRCTL, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA, 0, 0, 0, 0) == 0;
#else
    return 0;
#endif
}

/* Zeroed private pages, or null. */
static inline void *sys_allocate(size_t bytes) {
    enum { READ_WRITE = 3, PRIVATE_ANONYMOUS = 0x22 };
    long address = sys_call(SYS_MMAP, 0, (long)bytes, READ_WRITE, PRIVATE_ANONYMOUS, -1, 0);
    return (unsigned long)address > -4096ul ? NULL : (void *)address;
}

static inline void sys_free(void *address, size_t bytes) {
    sys_call(SYS_MUNMAP, (long)address, (long)bytes, 0, 0, 0, 0);
}

/* Has the kernel clear these pages in a forked child; 0 where it can. */
static inline long sys_wipe_on_fork(void *address, size_t bytes) {
    enum { WIPE_ON_FORK = 18 };
    return sys_call(SYS_MADVISE, (long)address, (long)bytes, WIPE_ON_FORK, 0, 0, 0);
}

/* Sleeps while the word has this value; may return for no reason. Private: of this process only. */
static inline void sys_wait(uint32_t *word, uint32_t value) {
    enum { WAIT_PRIVATE = 128 };
    sys_call(SYS_FUTEX, (long)word, WAIT_PRIVATE, (long)value, 0, 0, 0);
}

/* Wakes one thread that sleeps on the word. */
static inline void sys_wake(uint32_t *word) {
    enum { WAKE_PRIVATE = 129 };
    sys_call(SYS_FUTEX, (long)word, WAKE_PRIVATE, 1, 0, 0, 0);
}

static inline void sys_yield(void) { sys_call(SYS_YIELD, 0, 0, 0, 0, 0, 0); }

static inline uint32_t sys_process(void) {
    return (uint32_t)sys_call(SYS_GETPID, 0, 0, 0, 0, 0, 0);
}

/* The calling thread; that of the main thread is the process. */
static inline uint32_t sys_thread(void) {
    return (uint32_t)sys_call(SYS_GETTID, 0, 0, 0, 0, 0, 0);
}

/* Replaces the signal mask of this thread and returns the old one. */
static inline uint64_t sys_signal_mask(uint64_t mask) {
    enum { SET_MASK = 2 };
    uint64_t before = 0;
    sys_call(SYS_SIGMASK, SET_MASK, (long)&mask, (long)&before, sizeof mask, 0, 0);
    return before;
}

static inline void sys_name_thread(const char *name) {
    enum { SET_NAME = 15 };
    sys_call(SYS_PRCTL, SET_NAME, (long)name, 0, 0, 0, 0);
}

/* The number of cores that this thread may run on. */
static inline uint32_t sys_core_count(void) {
    unsigned long mask[128];
    long bytes = sys_call(SYS_GETAFFINITY, 0, sizeof mask, (long)mask, 0, 0, 0);
    uint32_t count = 0;
    for (long i = 0; i < bytes / (long)sizeof mask[0]; i++)
        for (unsigned long left = mask[i]; left; left &= left - 1) /* drops the lowest set bit */
            count++;
    return count ? count : 1;
}

/* Moves this thread off a core, if it may run on others, and then lets it run on all as before. */
static inline void sys_leave_core(uint32_t core) {
    enum { WORD = 8 * sizeof(unsigned long) };
    unsigned long mask[128], bit = 1ul << core % WORD, others = 0;
    long bytes = sys_call(SYS_GETAFFINITY, 0, sizeof mask, (long)mask, 0, 0, 0);
    long words = bytes / (long)sizeof mask[0];
    if ((long)(core / WORD) >= words || !(mask[core / WORD] & bit))
        return;
    mask[core / WORD] ^= bit;
    for (long i = 0; i < words; i++)
        others |= mask[i];
    if (others && sys_call(SYS_SETAFFINITY, 0, bytes, (long)mask, 0, 0, 0) == 0) {
        mask[core / WORD] ^= bit;
        sys_call(SYS_SETAFFINITY, 0, bytes, (long)mask, 0, 0, 0);
    }
}

/* These come from the process; every libc of Linux has them. */
struct sys_timespec {
    long seconds, nanoseconds;
};
extern int clock_gettime(int clock, struct sys_timespec *now);
extern int pthread_create(void *thread, const void *attributes, void *(*entry)(void *), void *);
extern int pthread_detach(unsigned long thread);
extern int sched_getcpu(void);

static inline uint64_t sys_now_ns(void) {
    enum { MONOTONIC = 1 };
    struct sys_timespec now = {0, 0};
    clock_gettime(MONOTONIC, &now);
    return (uint64_t)now.seconds * 1000000000u + (uint64_t)now.nanoseconds;
}

static inline void cpu_pause(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
    __asm__ volatile("yield" ::: "memory");
#else
    __asm__ volatile("" ::: "memory");
#endif
}

/* Round to nearest, denormals kept, no traps: what every kernel may rely on. */
#if defined(__x86_64__)
#define CPU_FLOAT_DEFAULT 0x1F80u
#else
#define CPU_FLOAT_DEFAULT 0u
#endif

static inline uint64_t cpu_float_state(void) {
#if defined(__x86_64__)
    return __builtin_ia32_stmxcsr();
#elif defined(__aarch64__)
    uint64_t state;
    __asm__ volatile("mrs %0, fpcr" : "=r"(state));
    return state;
#elif defined(__arm__)
    uint32_t state;
    __asm__ volatile("vmrs %0, fpscr" : "=r"(state));
    return state;
#else
    uint64_t state;
    __asm__ volatile("frcsr %0" : "=r"(state));
    return state;
#endif
}

static inline void cpu_set_float_state(uint64_t state) {
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr((uint32_t)state);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" ::"r"(state) : "memory");
#elif defined(__arm__)
    __asm__ volatile("vmsr fpscr, %0" ::"r"((uint32_t)state) : "memory");
#else
    __asm__ volatile("fscsr %0" ::"r"(state) : "memory");
#endif
}

#endif
