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

struct sys_timespec {
    long seconds, nanoseconds;
};

/* Sleeps while the word has this value; may return for no reason. Private: of this process only. */
static inline void sys_wait(uint32_t *word, uint32_t value) {
    enum { WAIT_PRIVATE = 128 };
    sys_call(SYS_FUTEX, (long)word, WAIT_PRIVATE, (long)value, 0, 0, 0);
}

/* The same, for less than a second at most. */
static inline void sys_wait_for(uint32_t *word, uint32_t value, uint32_t ns) {
    enum { WAIT_PRIVATE = 128 };
    struct sys_timespec most = {0, (long)ns};
    sys_call(SYS_FUTEX, (long)word, WAIT_PRIVATE, (long)value, (long)&most, 0, 0);
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

#define SYS_MASK_WORDS 128
enum { SYS_WORD_BITS = 8 * sizeof(unsigned long) };

/* Writes the cores that a thread may run on, 0 for the calling one; the words that mean something,
 * none where that fails. */
static inline long sys_get_cores(uint32_t thread, unsigned long *mask) {
    enum { BYTES = SYS_MASK_WORDS * sizeof(unsigned long) };
    long bytes = sys_call(SYS_GETAFFINITY, (long)thread, BYTES, (long)mask, 0, 0, 0);
    return bytes > 0 ? bytes / (long)sizeof *mask : 0;
}

/* Says on which cores a thread may run; 0 where the system does so. One that waits for a core it may
 * no longer have is put in line at another one before this returns. */
static inline long sys_set_cores(uint32_t thread, long words, const unsigned long *mask) {
    long bytes = words * (long)sizeof *mask;
    return sys_call(SYS_SETAFFINITY, (long)thread, bytes, (long)mask, 0, 0, 0);
}

static inline uint32_t sys_has_core(const unsigned long *mask, long words, uint32_t core) {
    long word = (long)(core / SYS_WORD_BITS);
    return word < words && mask[word] >> core % SYS_WORD_BITS & 1;
}

/* The number of cores that this thread may run on. */
static inline uint32_t sys_core_count(void) {
    unsigned long mask[SYS_MASK_WORDS];
    long words = sys_get_cores(0, mask);
    uint32_t count = 0;
    for (long i = 0; i < words; i++)
        for (unsigned long left = mask[i]; left; left &= left - 1) /* drops the lowest set bit */
            count++;
    return count ? count : 1;
}

/* Moves this thread off a core, if it may run on others, and then lets it run on all as before. */
static inline void sys_leave_core(uint32_t core) {
    unsigned long mask[SYS_MASK_WORDS], bit = 1ul << core % SYS_WORD_BITS, others = 0;
    long words = sys_get_cores(0, mask);
    if (!sys_has_core(mask, words, core))
        return;
    mask[core / SYS_WORD_BITS] ^= bit;
    for (long i = 0; i < words; i++)
        others |= mask[i];
    if (others && sys_set_cores(0, words, mask) == 0) {
        mask[core / SYS_WORD_BITS] ^= bit;
        sys_set_cores(0, words, mask);
    }
}

/* Moves another thread to a core, if it may run there, and then lets it run on all as before;
 * whether it was moved. */
static inline uint32_t sys_move_thread(uint32_t thread, uint32_t core) {
    unsigned long mask[SYS_MASK_WORDS];
    volatile unsigned long only[SYS_MASK_WORDS]; /* volatile: a loop that clears is no memset */
    long words = sys_get_cores(thread, mask);
    if (!sys_has_core(mask, words, core))
        return 0;
    for (long i = 0; i < words; i++)
        only[i] = 0;
    only[core / SYS_WORD_BITS] = 1ul << core % SYS_WORD_BITS;
    if (sys_set_cores(thread, words, (const unsigned long *)only))
        return 0;
    sys_set_cores(thread, words, mask);
    return 1;
}

/* These come from the process; every libc of Linux has them. */
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

/* Nanoseconds for which a thread of this process was on a core so far; 0 where nobody tells. */
static inline uint64_t sys_thread_ns(uint32_t thread) {
    enum { OF_THREAD = 6 }; /* the clock of a thread, by what it was on a core */
    struct sys_timespec taken = {0, 0};
    clock_gettime((int)(~thread << 3 | OF_THREAD), &taken);
    return (uint64_t)taken.seconds * 1000000000u + (uint64_t)taken.nanoseconds;
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
