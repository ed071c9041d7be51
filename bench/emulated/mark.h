/* Where the host tells the plugin of qemu that a run begins or ends.
 *
 * A mark is a system call that does nothing, with MARK as its first argument: the emulated program
 * needs no other way out, and on a real processor marks cost next to nothing. */
#ifndef BENCH_MARK_H
#define BENCH_MARK_H

#define MARK 0x6369726c /* no address and no descriptor */

#endif
