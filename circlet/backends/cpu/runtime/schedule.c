/* Trials of the modes in which a binding can use its threads. Handing a step to workers takes
 * time of its own, which only measuring can weigh against the work of the step. Of steps the
 * least times count, as what else the machine does only adds to them; of whole runs all but the
 * slowest, as workers that are now and then not scheduled are no gain. A trial that was misled
 * is set right by a later one; trials that agree grow rarer, so that measuring costs next to
 * nothing. Results do not depend on any of this. */
#include "schedule.h"

#define CHUNK_NS 2000u      /* shorter chunks are not worth their claim */
#define FEW_TASKS 4         /* of a chunk: more chunks even them out */
#define SAMPLES 5u          /* runs of each mode in a trial; the first is cold and does not count */
#define FIRST_PAUSE 16u     /* runs between two trials that disagree; twice as many after .. */
#define LONGEST_PAUSE 8192u /* .. each that confirms the one before */
#define LONG_STEP_NS 20000u /* in long runs, steps as long are taken to be worth all threads */
#define LONG_RUN_NS 1000000u
#define COUNTED (SAMPLES - 2) /* runs of a mode whose times are compared */

/* As many chunks for each thread, where there are tasks enough: shares are then equal. */
void schedule_split(bound_step *step, uint32_t threads, int64_t most) {
    int64_t whole = most / threads * threads;
    if (most == threads * CHUNKS_PER_THREAD && step->tasks < FEW_TASKS * whole)
        whole *= 2; /* chunks of a few tasks, and tasks of one step, are uneven */
    int64_t chunks = step->tasks < whole ? step->tasks : whole;
    if (chunks > threads)
        chunks -= chunks % threads;
    step->chunks = (uint32_t)chunks;
    step->quotient = chunks ? step->tasks / chunks : 0;
    step->remainder = chunks ? (uint32_t)(step->tasks % chunks) : 0;
}

/* In mode SERIAL long steps of long runs stay parallel, as one thread would only lose there. */
static uint32_t runs_serially(const schedule *s, const bound_step *step) {
    if (s->mode == MIXED)
        return step->prefers_serial;
    return s->mode == SERIAL && (step->parallel_ns < LONG_STEP_NS ||
                                 s->ns[PARALLEL] < LONG_RUN_NS * COUNTED);
}

static void set_mode(schedule *s, bound_step *steps, uint32_t count, uint32_t mode) {
    s->mode = mode;
    s->is_serial = 1;
    for (uint32_t i = 0; i < count; i++) {
        if (!steps[i].kernel)
            continue;
        steps[i].is_serial = steps[i].chunks <= 1 || runs_serially(s, &steps[i]);
        s->is_serial &= steps[i].is_serial;
    }
}

static void start_trial(schedule *s, bound_step *steps, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        steps[i].parallel_ns = steps[i].serial_ns = steps[i].mixed_ns = UINT32_MAX;
    for (uint32_t mode = 0; mode < MODES; mode++)
        s->ns[mode] = 0;
    set_mode(s, steps, count, PARALLEL);
    s->samples_left = s->is_serial ? 0 : SAMPLES;
    s->runs = s->is_serial ? UINT32_MAX : 0;
}

uint32_t schedule_next(schedule *s, bound_step *steps, uint32_t count, uint32_t threads) {
    if (threads == 1)
        return 0;
    if (s->samples_left)
        return 1;
    if (s->runs) {
        s->runs--;
        return 0;
    }
    start_trial(s, steps, count);
    return s->samples_left;
}

void schedule_record_step(const schedule *s, bound_step *step, uint64_t ns) {
    uint32_t *least = s->mode == MIXED    ? &step->mixed_ns
                      : s->mode == SERIAL ? &step->serial_ns
                                          : &step->parallel_ns;
    if (s->samples_left < SAMPLES && ns < *least)
        *least = (uint32_t)ns;
}

/* Steps prefer the calling thread where it takes at most a fifteenth longer, and are cut into no
 * more chunks than are worth their claims. */
static void choose_by_step(bound_step *steps, uint32_t count, uint32_t threads) {
    for (uint32_t i = 0; i < count; i++) {
        bound_step *step = &steps[i];
        step->prefers_serial = step->serial_ns / 16 * 15 <= step->parallel_ns;
        if (!step->kernel || step->serial_ns == UINT32_MAX)
            continue;
        int64_t worthwhile = step->serial_ns / CHUNK_NS;
        int64_t least = threads, most = least * CHUNKS_PER_THREAD;
        schedule_split(step, threads,
                       worthwhile < least ? least : worthwhile < most ? worthwhile : most);
    }
}

/* What one thread wrote, others fetch from its cache: a serial step among parallel ones may cost
 * its neighbours more than it saves. Of each stretch of serial steps, and the step behind it,
 * the faster mode is kept. Returns the nanoseconds that the changes save in a run. */
static uint64_t choose_by_stretch(bound_step *steps, uint32_t count) {
    uint64_t saved = 0;
    for (uint32_t first = 0, next; first < count; first = next) {
        uint64_t mixed = 0, parallel = 0;
        next = first;
        while (next < count && steps[next].prefers_serial) {
            mixed += steps[next].mixed_ns;
            parallel += steps[next++].parallel_ns;
        }
        if (next++ == first)
            continue;
        if (next <= count) {
            mixed += steps[next - 1].mixed_ns;
            parallel += steps[next - 1].parallel_ns;
        }
        if (parallel >= mixed)
            continue;
        saved += mixed - parallel;
        for (uint32_t i = first; i + 1 < next; i++)
            steps[i].prefers_serial = 0;
    }
    return saved;
}

/* The fastest mode; SERIAL where workers gain less than a 32nd, or did so in the last trial: on a
 * busy machine it is chance whether a trial meets them. */
static uint32_t best_mode(schedule *s) {
    uint32_t best = s->ns[MIXED] < s->ns[PARALLEL] ? MIXED : PARALLEL, had_lost = s->has_lost;
    s->has_lost = s->ns[SERIAL] / 32 * 31 <= s->ns[best];
    return had_lost || s->has_lost ? SERIAL : best;
}

static void end_trial(schedule *s, bound_step *steps, uint32_t count) {
    uint32_t best = best_mode(s), longer = s->pause < LONGEST_PAUSE ? 2 * s->pause : s->pause;
    s->pause = s->pause && best == s->chosen ? longer : FIRST_PAUSE;
    s->runs = best == SERIAL && !s->has_lost ? FIRST_PAUSE : s->pause;
    s->chosen = best;
    set_mode(s, steps, count, best);
}

static void end_mode(schedule *s, bound_step *steps, uint32_t count, uint32_t threads) {
    s->ns[s->mode] -= s->slowest_ns;
    s->slowest_ns = 0;
    if (s->mode == MIXED) {
        uint64_t saved = COUNTED * choose_by_stretch(steps, count);
        s->ns[MIXED] -= saved < s->ns[MIXED] ? saved : 0;
        end_trial(s, steps, count);
        return;
    }
    s->samples_left = SAMPLES;
    if (s->mode == SERIAL)
        choose_by_step(steps, count, threads);
    set_mode(s, steps, count, s->mode + 1);
}

void schedule_record_run(schedule *s, bound_step *steps, uint32_t count, uint32_t threads,
                         uint64_t ns) {
    if (s->samples_left < SAMPLES) {
        s->ns[s->mode] += ns;
        s->slowest_ns = ns > s->slowest_ns ? ns : s->slowest_ns;
    }
    if (--s->samples_left == 0)
        end_mode(s, steps, count, threads);
}
