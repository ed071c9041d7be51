/* Loaded ahead of a program, shows it a processor with fewer instructions than this one has.
 *
 * The environment variable CPUID_CLEAR holds `leaf.subleaf.register=mask` in hexadecimal numbers,
 * registers a to d as 0 to 3, separated by commas: the bits that programs do not get to see. The
 * system lets CPUID end in a segmentation fault (Intel's CPUID faulting), which is answered here.
 */
#define _GNU_SOURCE
#include <cpuid.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { SET_CPUID = 0x1012, MOST = 32, CPUID_BYTES = 2 };

static struct {
    unsigned leaf, subleaf, place, mask;
} clears[MOST];
static int count;
static struct sigaction before;

static void set_cpuid(long runs) { syscall(SYS_arch_prctl, SET_CPUID, runs); }

static int is_cpuid(const unsigned char *code) { return code[0] == 0x0f && code[1] == 0xa2; }

static void answer(int signal, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    if (info->si_code != SI_KERNEL || !is_cpuid((const unsigned char *)registers[REG_RIP])) {
        sigaction(signal, &before, NULL);
        return;
    }
    unsigned leaf = (unsigned)registers[REG_RAX], subleaf = (unsigned)registers[REG_RCX], found[4];
    set_cpuid(1);
    __cpuid_count(leaf, subleaf, found[0], found[1], found[2], found[3]);
    set_cpuid(0);
    for (int i = 0; i < count; i++)
        if (clears[i].leaf == leaf && clears[i].subleaf == subleaf)
            found[clears[i].place] &= ~clears[i].mask;
    const int places[] = {REG_RAX, REG_RBX, REG_RCX, REG_RDX};
    for (int i = 0; i < 4; i++) registers[places[i]] = found[i];
    registers[REG_RIP] += CPUID_BYTES;
}

__attribute__((constructor)) static void hold(void) {
    const char *text = getenv("CPUID_CLEAR");
    for (; text && count < MOST; count++) {
        if (sscanf(text, "%x.%x.%x=%x", &clears[count].leaf, &clears[count].subleaf,
                   &clears[count].place, &clears[count].mask) != 4 || clears[count].place > 3) {
            fprintf(stderr, "CPUID_CLEAR: %s\n", text);
            exit(2);
        }
        text = strchr(text, ',');
        text += text != NULL;
    }
    struct sigaction action = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO | SA_NODEFER};
    if (!count) return;
    sigaction(SIGSEGV, &action, &before);
    if (syscall(SYS_arch_prctl, SET_CPUID, 0L) != 0) {
        perror("CPUID faulting");
        exit(2);
    }
}
