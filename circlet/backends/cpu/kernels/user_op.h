/* Calls a function that a user registered for a custom operator. */
#ifndef CIRCLET_USER_OP_H
#define CIRCLET_USER_OP_H

#include "rows.h"

/* Inputs and outputs are dense arrays; an omitted input is null. `elements` holds the number of
   elements of each input, then of each output. `options` are the file's option bytes. */
typedef void circlet_user_function(const void *const *inputs, void *const *outputs,
                                   const int64_t *elements, const void *options,
                                   int64_t options_bytes);

struct user_op_params {
    int64_t inputs;        /* how many; outputs follow, then the options */
    int64_t outputs;       /* how many */
    int64_t options_bytes; /* 0 where there are none */
    int64_t elements[24];  /* of each input, then of each output */
};

CIRCLET_INLINE void user_op(const struct user_op_params *p, void *const *operands, void *scratch,
                            int64_t begin, int64_t end, circlet_user_function *function) {
    (void)scratch, (void)begin, (void)end;
    function((const void *const *)operands, operands + p->inputs, p->elements,
             operands[p->inputs + p->outputs], p->options_bytes);
}

#endif
