/* What the field cases and the laws share: a program as text becomes a kernel, tensors stand between guard pages, a
 * launch is one line. Everything goes through the public header; whatever is wrong fails the test that runs. */
#ifndef ROWFOLD_TEST_FIELD_H
#define ROWFOLD_TEST_FIELD_H

#include "../../include/rowfold.h"
#include "../../src/ir/ir.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

int field_open(void **state);  /* group setup: a context */
int field_close(void **state); /* group teardown: kernels and context go */
int field_clean(void **state); /* teardown of a test: memory goes, after a look at its edges */
rowfold_context *field_context(void);

/* Compiles once what is asked for twice. text: kernels, or "softmax.row:softmax" of the kernel library. NULL for pin,
 * types, strided where there is none. */
rowfold_kernel *field_kernel(const char *text, const char *types, const char *shape, const char *pin);
rowfold_kernel *field_strided(const char *text, const char *types, const char *shape, const char *pin,
                              const char *strided);
/* NULL where the plan is refused because this program or shape has no use for it (or no room); other failures fail. */
rowfold_kernel *field_try(const char *text, const char *types, const char *shape, const char *pin);
/* For a kernel that a test compiled by itself for field_device(): the test frees it. */
void field_adopt(rowfold_kernel *k, const rowfold_program *prog);
rowfold_device *field_device(void);
/* Compiling must fail with this slug. */
void field_no_kernel(const char *text, const char *types, const char *shape, const char *pin, const char *slug);
/* "n=1000" and the like; the text lives as long as the test. */
const char *field_text(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Plans that cut a row in different ways: one lane, several registers, packs, unrolling, no power of two, every
 * statistic, unfused, holds. Their number is ROWFOLD_TEST_PLANS where that is set: for devices whose compilers are
 * slow.
 */
extern const char *const field_plans[];
extern int field_nplans;

/* Memory that ends where a page that cannot be touched begins, filled with 0xA5; and memory that begins behind one. */
void *field_memory(int64_t bytes);
void *field_front(int64_t bytes);
static inline void *field_tensor_memory(Ty ty, int64_t count) {
    return field_memory(count * ty_bytes(ty));
}

rowfold_arg field_arg(const void *data, int rank, const int64_t *extent, const int64_t *stride);
#define TENSOR(p, ...) \
    field_arg(p, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__}, NULL)
#define SCALAR(x)    \
    (rowfold_arg) {  \
        .value = (x) \
    }
/* Two dimensions with strides. */
static inline rowfold_arg field_view(const void *p, int64_t n0, int64_t n1, int64_t s0, int64_t s1) {
    return field_arg(p, 2, (int64_t[]){n0, n1}, (int64_t[]){s0, s1});
}

void field_run(rowfold_kernel *k, const rowfold_arg *args, int count);
void field_check(rowfold_kernel *k, const rowfold_arg *in, const rowfold_arg *args,
                 int count); /* within the bound of the definition */
void field_refused(rowfold_kernel *k, const rowfold_arg *args, int count, const char *slug);
/* Runs, and compares with the definition. */
#define RUN(k, ...)                                                       \
    do {                                                                  \
        const rowfold_arg args_[] = {__VA_ARGS__};                        \
        field_run(k, args_, (int)(sizeof args_ / sizeof *args_));         \
        field_check(k, NULL, args_, (int)(sizeof args_ / sizeof *args_)); \
    } while (0)
/* Runs only: where the definition would take long, or where inputs are overwritten. */
#define LAUNCH(k, ...)                                            \
    do {                                                          \
        const rowfold_arg args_[] = {__VA_ARGS__};                \
        field_run(k, args_, (int)(sizeof args_ / sizeof *args_)); \
    } while (0)
#define REFUSED(k, slug, ...)                                               \
    do {                                                                    \
        const rowfold_arg args_[] = {__VA_ARGS__};                          \
        field_refused(k, args_, (int)(sizeof args_ / sizeof *args_), slug); \
    } while (0)

/* Elements of storage type ty, by their values; a value is rounded once. */
void put(Ty ty, void *at, int64_t i, double x);
double get(Ty ty, const void *at, int64_t i);
float field_u(int64_t i); /* uniform in [0, 1), a formula that anybody can repeat */
void field_fill(Ty ty, void *at, int64_t n, double (*f)(int64_t i));
double zero_at(int64_t i);
double one_at(int64_t i);
double u_at(int64_t i);

/* As the field cases have it: f32 within 1e-5 relative or 1e-6 absolute, f16 and bf16 within one unit in the last
 * place, f64 within 1e-12; infinities and NaN must be just that. */
bool field_close_to(Ty ty, double got, double want);
#define NEAR(ty, got, want, ...) field_near(ty, got, want, 0, __FILE__, __LINE__, __VA_ARGS__)
#define EXACT(got, want, ...) field_near(TY_F64, got, want, 1, __FILE__, __LINE__, __VA_ARGS__)
void field_near(Ty ty, double got, double want, int exact, const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 7, 8)));
/* Bit for bit, NaN equal to NaN. */
bool field_same(Ty ty, const void *x, const void *y, int64_t n);

/* Plans that the program has a use for; k is the kernel. Every second of all, the even and the odd ones in turn, or all
 * (ROWFOLD_TEST_PLANS=all), and of the others as many as are wanting until three have served, so that nothing passes by
 * being refused. */
#define EACH_PLAN(k, text, types, shape) SOME_PLANS(k, text, types, shape, 1)
#define SOME_PLANS(k, text, types, shape, step)                                                                     \
    int served_ = 0;                                                                                                \
    const FieldTurn turn_ = field_turn(step);                                                                       \
    for (int i_ = 0, at_; (at_ = field_plan(&turn_, i_, served_)) >= 0 || (assert_true(served_ >= turn_.least), 0); \
         i_++)                                                                                                      \
        for (rowfold_kernel *k = field_try(text, types, shape, field_plans[at_]); k; k = NULL, served_++)
typedef struct FieldTurn {
    int first, every, least; /* the first plan and the distance of the next; how many must serve */
} FieldTurn;
FieldTurn field_turn(int step);
int field_plan(const FieldTurn *t, int i, int served); /* the i-th to try, where so many have served; below 0: none */

double field_rounded(Ty ty, double x); /* x as ty keeps it */
double field_seconds(void);            /* of a clock that only goes forward */

bool field_slow(void); /* is it one for which few plans, and no long rows, have to do (ROWFOLD_TEST_PLANS)? */
/* What is large, less of it where the device is emulated (ROWFOLD_TEST_SMALL): a thousand times slower. */
int64_t field_most(int64_t n, int64_t emulated);
bool field_has(Ty ty); /* does the device compute in it? Some have no f64 */
bool field_far(void);  /* is the device another one than the host, named by ROWFOLD_TEST_DEVICE? */
/* A test that does not apply says why. */
void field_skip(const char *id, const char *why);
#endif
