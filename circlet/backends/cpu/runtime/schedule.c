/* Trials of the modes in which a binding can use its threads. Handing a step to workers takes
 * time of its own, which only measuring can weigh against the work of the step. Of steps the
 * least times count, as what else the machine does only adds to them; of whole runs all but the
 * slowest, as workers that are now and then not scheduled are no gain. Where another process has
 * a core by turns, a trial falls into its turn or between two of them: what earlier trials saw
 * counts as well, ever less. Trials that agree grow rarer, so that measuring costs next to nothing.
 * Results do not depend on any of this. */
#include "schedule.h"

#define CHUNK_NS 2000u      /* shorter chunks are not worth their claim */
#define FEW_TASKS 4         /* of a chunk: more chunks even them out */
#define SAMPLES 5u          /* runs of each mode in a trial; the first is cold and does not count */
#define FIRST_PAUSE 16u     /* runs between two trials that disagree; twice as many after .. */
#define LONGEST_PAUSE 8192u /* .. each that confirms the one before */
#define LONG_STEP_NS 20000u /* in long runs, steps as long are taken to be worth all threads */
#define LONG_RUN_NS 1000000u
#define COUNTED (SAMPLES - 2) /* runs of a mode whose times are compared */
#define LATE_RUNS 64u /* over which waits for stopped workers count, those of earlier ones ever less */

/* As many chunks for each thread, or one for each task: shares then differ by a task at most. A step
 * too short for that still has a chunk for each thread: on a few of them it would wait longer for
 * what the others wrote in the step before than the others take. */
void schedule_split(bound_step *step, uint32_t threads, uint64_t worthwhile) {
    int64_t most = threads * CHUNKS_PER_THREAD;
    if (worthwhile < (uint64_t)most)
        most = worthwhile < threads ? threads : (int64_t)worthwhile;
    else if (step->tasks < FEW_TASKS * most && step->tasks % most)
        most *= 2; /* chunks of a few tasks are uneven */
    if (most > threads)
        most -= most % threads;
    int64_t chunks = step->tasks < most ? step->tasks : most;
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

/* The least time of earlier trials, an eighth longer for each of them; UINT32_MAX for none. */
static uint32_t faded(uint32_t ns) { return ns / 8 < UINT32_MAX - ns ? ns + ns / 8 : UINT32_MAX; }

static void start_trial(schedule *s, bound_step *steps, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        steps[i].parallel_ns = s->pause ? faded(steps[i].parallel_ns) : UINT32_MAX;
        steps[i].serial_ns = s->pause ? faded(steps[i].serial_ns) : UINT32_MAX;
        steps[i].mixed_ns = UINT32_MAX; /* of a choice of steps that each trial makes anew */
    }
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

/* Steps that stay parallel in mode SERIAL were not seen on one thread. */
void schedule_record_step(const schedule *s, bound_step *step, uint64_t ns) {
    uint32_t *least = s->mode == MIXED                      ? &step->mixed_ns
                      : s->mode == SERIAL && step->is_serial ? &step->serial_ns
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
        schedule_split(step, threads, step->serial_ns / CHUNK_NS);
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

/* Of a run on several threads, in the mean. */
static uint64_t late_ns(const schedule *s) {
    return s->late_runs ? s->late_ns / s->late_runs : 0;
}

/* The fastest mode; SERIAL where workers gain less than a 32nd, or less than waits for stopped ones
 * take, which are too rare for trials to tell. */
static uint32_t best_mode(schedule *s) {
    for (uint32_t mode = 0; mode < MODES; mode++)
        s->seen_ns[mode] = s->seen_ns[mode] / 2 + s->ns[mode];
    s->seen_runs = s->seen_runs / 2 + COUNTED;
    uint32_t best = s->seen_ns[MIXED] < s->seen_ns[PARALLEL] ? MIXED : PARALLEL;
    uint64_t serial = s->seen_ns[SERIAL] / 32 * 31, gain = serial - s->seen_ns[best];
    s->gain_ns = serial > s->seen_ns[best] ? gain / s->seen_runs : 0;
    return s->gain_ns <= late_ns(s) ? SERIAL : best;
}

static void end_trial(schedule *s, bound_step *steps, uint32_t count) {
    uint32_t best = best_mode(s), longer = s->pause < LONGEST_PAUSE ? 2 * s->pause : s->pause;
    s->pause = s->pause && best == s->chosen ? longer : FIRST_PAUSE;
    s->runs = s->pause;
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

void schedule_record_wait(schedule *s, uint64_t late_ns_of_run) {
    s->late_ns += late_ns_of_run;
    if (++s->late_runs == LATE_RUNS) {
        s->late_ns /= 2;
        s->late_runs /= 2;
    }
    if (late_ns_of_run && !s->samples_left && s->chosen != SERIAL && late_ns(s) >= s->gain_ns)
        s->runs = 0;
}
