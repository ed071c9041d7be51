/* Trials of the ways in which a binding can use its threads. Of steps the least times count, as what
 * else the machine does only adds to them; of whole runs all but the slowest, as workers that come
 * and go are no gain. A trial that was misled is set right by a later one. */
#include "schedule.h"

#define CHUNK_NS 2000u      /* shorter chunks are not worth their claim */
#define FEW_TASKS 4         /* of a chunk: more chunks even them out */
#define LESSONS 5u          /* runs of each way in a trial; the first is cold and does not count */
#define FIRST_PAUSE 16u     /* runs between two trials that disagree; twice as many after .. */
#define LONGEST_PAUSE 8192u /* .. each that confirms the one before */
#define LONG_STEP_NS 20000u /* in long runs, steps as long are taken to be worth all threads */
#define LONG_RUN_NS 1000000u
#define COUNTED (LESSONS - 2) /* runs of a way whose times are compared */

void schedule_deal(bound_step *step, uint32_t threads, int64_t most) {
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

static uint32_t runs_alone(const schedule *s, const bound_step *step) {
    if (s->way == MIXED)
        return step->prefers_alone;
    return s->way == ALONE && (step->together_ns < LONG_STEP_NS ||
                               s->ns[TOGETHER] < LONG_RUN_NS * COUNTED);
}

static void set_way(schedule *s, bound_step *steps, uint32_t count, uint32_t way) {
    s->way = way;
    s->is_alone = 1;
    for (uint32_t i = 0; i < count; i++) {
        if (!steps[i].kernel)
            continue;
        steps[i].alone = steps[i].chunks <= 1 || runs_alone(s, &steps[i]);
        s->is_alone &= steps[i].alone;
    }
}

static void start_trial(schedule *s, bound_step *steps, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        steps[i].together_ns = steps[i].alone_ns = steps[i].mixed_ns = UINT32_MAX;
    for (uint32_t way = 0; way < WAYS; way++)
        s->ns[way] = 0;
    set_way(s, steps, count, TOGETHER);
    s->lessons = s->is_alone ? 0 : LESSONS;
    s->runs = s->is_alone ? UINT32_MAX : 0;
}

uint32_t schedule_next(schedule *s, bound_step *steps, uint32_t count, uint32_t threads) {
    if (threads == 1)
        return 0;
    if (s->lessons)
        return 1;
    if (s->runs) {
        s->runs--;
        return 0;
    }
    start_trial(s, steps, count);
    return s->lessons;
}

void schedule_learn_step(const schedule *s, bound_step *step, uint64_t ns) {
    uint32_t *least = s->way == MIXED   ? &step->mixed_ns
                      : s->way == ALONE ? &step->alone_ns
                                        : &step->together_ns;
    if (s->lessons < LESSONS && ns < *least)
        *least = (uint32_t)ns;
}

/* Short steps run on the calling thread where that is as fast, or in fewer chunks. */
static void choose_by_step(bound_step *steps, uint32_t count, uint32_t threads) {
    for (uint32_t i = 0; i < count; i++) {
        bound_step *step = &steps[i];
        step->prefers_alone = step->alone_ns / 16 * 15 <= step->together_ns;
        if (!step->kernel || step->alone_ns == UINT32_MAX)
            continue;
        int64_t worthwhile = step->alone_ns / CHUNK_NS;
        int64_t least = threads, most = least * CHUNKS_PER_THREAD;
        schedule_deal(step, threads,
                      worthwhile < least ? least : worthwhile < most ? worthwhile : most);
    }
}

/* What one thread wrote, others fetch: a step alone amid others may cost more than it precompiled. Of
 * each stretch of such steps, and the step behind it, the faster way is kept. Returns what that
 * precompiled. */
static uint64_t choose_by_stretch(bound_step *steps, uint32_t count) {
    uint64_t precompiled = 0;
    for (uint32_t first = 0, next; first < count; first = next) {
        uint64_t mixed = 0, together = 0;
        next = first;
        while (next < count && steps[next].prefers_alone) {
            mixed += steps[next].mixed_ns;
            together += steps[next++].together_ns;
        }
        if (next++ == first)
            continue;
        if (next <= count) {
            mixed += steps[next - 1].mixed_ns;
            together += steps[next - 1].together_ns;
        }
        if (together >= mixed)
            continue;
        precompiled += mixed - together;
        for (uint32_t i = first; i + 1 < next; i++)
            steps[i].prefers_alone = 0;
    }
    return precompiled;
}

/* The fastest way; the calling thread alone where workers gain next to nothing, or did so in the
 * last trial: on a busy machine it is chance whether a trial meets them. */
static uint32_t best_way(schedule *s) {
    uint32_t best = s->ns[MIXED] < s->ns[TOGETHER] ? MIXED : TOGETHER, had_lost = s->has_lost;
    s->has_lost = s->ns[ALONE] / 32 * 31 <= s->ns[best];
    return had_lost || s->has_lost ? ALONE : best;
}

static void end_trial(schedule *s, bound_step *steps, uint32_t count) {
    uint32_t best = best_way(s), longer = s->pause < LONGEST_PAUSE ? 2 * s->pause : s->pause;
    s->pause = s->pause && best == s->chosen ? longer : FIRST_PAUSE;
    s->runs = best == ALONE && !s->has_lost ? FIRST_PAUSE : s->pause;
    s->chosen = best;
    set_way(s, steps, count, best);
}

static void end_way(schedule *s, bound_step *steps, uint32_t count, uint32_t threads) {
    s->ns[s->way] -= s->slowest_ns;
    s->slowest_ns = 0;
    if (s->way == MIXED) {
        uint64_t precompiled = COUNTED * choose_by_stretch(steps, count);
        s->ns[MIXED] -= precompiled < s->ns[MIXED] ? precompiled : 0;
        end_trial(s, steps, count);
        return;
    }
    s->lessons = LESSONS;
    if (s->way == ALONE)
        choose_by_step(steps, count, threads);
    set_way(s, steps, count, s->way + 1);
}

void schedule_learn_run(schedule *s, bound_step *steps, uint32_t count, uint32_t threads,
                        uint64_t ns) {
    if (s->lessons < LESSONS) {
        s->ns[s->way] += ns;
        s->slowest_ns = ns > s->slowest_ns ? ns : s->slowest_ns;
    }
    if (--s->lessons == 0)
        end_way(s, steps, count, threads);
}
