/* exhaust_math OP [STEP]: the expansion of OP (exp, fast_exp, log, ...) on all 2^32 inputs, or every STEP-th, against
 * libm; of pow, on 2^32 / STEP seeded pairs. Prints the worst distance in ulp and where. The expansion is written out
 * as C and compiled, which makes a run a matter of minutes; one input in 4,096 is also evaluated by num_op, and the two
 * must agree to the bit. Not part of the test suite. Needs a `cc` for a machine with fused multiply-add. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "math_ref.h"

static const char *c_type(Ty t) {
    return t == TY_F32 ? "float" : "int";
}

static void c_ins(FILE *f, const Kern *k, int i) {
    const Ins *p = &k->ins[i];
    const int *a = p->a;
    fprintf(f, "        const %s v%d = ", c_type(p->ty), i);
    if (p->k == K_SLOT) {
        fprintf(f, "%c[i];\n", "xy"[p->imm]);
        return;
    }
    if (p->k == K_CONST) {
        uint32_t u;
        memcpy(&u, &p->c.f, sizeof u);
        if (p->ty == TY_F32)
            fprintf(f, "f32_of((int)0x%xu); /* %a */\n", u, (double)p->c.f);
        else
            fprintf(f, "(int)%lld;\n", (long long)p->c.i);
        return;
    }
    switch (p->op) {
    case OP_ADD:
    case OP_SUB:
    case OP_MUL:
    case OP_DIV:
    case OP_LT:
    case OP_EQ: fprintf(f, "v%d %s v%d;\n", a[0], op_info(p->op)->text, a[1]); return;
    case OP_BITAND:
    case OP_AND: fprintf(f, "v%d & v%d;\n", a[0], a[1]); return;
    case OP_BITOR:
    case OP_OR: fprintf(f, "v%d | v%d;\n", a[0], a[1]); return;
    case OP_SHR: fprintf(f, "v%d >> v%d;\n", a[0], a[1]); return;
    case OP_SHL: fprintf(f, "v%d << v%d;\n", a[0], a[1]); return;
    case OP_NOT: fprintf(f, "!v%d;\n", a[0]); return;
    case OP_NEG: fprintf(f, "-v%d;\n", a[0]); return;
    case OP_ABS: fprintf(f, "__builtin_fabsf(v%d);\n", a[0]); return;
    case OP_FLOOR: fprintf(f, "__builtin_floorf(v%d);\n", a[0]); return;
    case OP_SQRT: fprintf(f, "__builtin_sqrtf(v%d);\n", a[0]); return;
    case OP_FMA: fprintf(f, "__builtin_fmaf(v%d, v%d, v%d);\n", a[0], a[1], a[2]); return;
    case OP_ATMOST: fprintf(f, "v%d > v%d ? v%d : v%d;\n", a[0], a[1], a[1], a[0]); return;
    case OP_ATLEAST: fprintf(f, "v%d < v%d ? v%d : v%d;\n", a[0], a[1], a[1], a[0]); return;
    case OP_LDEXP: fprintf(f, "ldexp_of(v%d, v%d);\n", a[0], a[1]); return;
    case OP_WHERE: fprintf(f, "v%d ? v%d : v%d;\n", a[0], a[1], a[2]); return;
    case OP_BITS: fprintf(f, "%s(v%d);\n", p->ty == TY_F32 ? "f32_of" : "bits_of", a[0]); return;
    case OP_CAST: fprintf(f, "(float)v%d;\n", a[0]); return;
    default: fprintf(stderr, "exhaust_math: no C for %s\n", op_info(p->op)->text); exit(2);
    }
}

static void c_write(FILE *f, const Expansion *e) {
    fprintf(f, "static inline float ldexp_of(float x, float y) {\n"
               "    if (y != y) return y;\n"
               "    union { long long i; double d; } s = {.i = (1023 + (long long)(y > 400 ? 400 : y < -400 ? -400 : "
               "y)) << 52};\n"
               "    return (float)((double)x * s.d);\n}\n");
    fprintf(f, "static inline float f32_of(int i) { union { int i; float f; } u = {.i = i}; return u.f; }\n"
               "static inline int bits_of(float f) { union { float f; int i; } u = {.f = f}; return u.i; }\n"
               "void run(const float *restrict x, const float *restrict y, float *restrict z, int n) {\n    for (int i "
               "= 0; i < n; i++) {\n");
    for (int i = 0; i < e->k.nins; i++) c_ins(f, &e->k, i);
    fprintf(f, "        z[i] = v%d;\n    }\n}\n", e->result);
}

typedef void Run(const float *x, const float *y, float *z, int n);

static Run *compile(const Expansion *e) {
    char dir[] = "/tmp/exhaust_math.XXXXXX", c[64], so[64], command[256];
    if (!mkdtemp(dir)) return NULL;
    snprintf(c, sizeof c, "%s/f.c", dir);
    snprintf(so, sizeof so, "%s/f.so", dir);
    FILE *f = fopen(c, "w");
    if (!f) return NULL;
    c_write(f, e);
    fclose(f);
    snprintf(command, sizeof command,
             "cc -O2 -ftree-vectorize -march=native -mfma -ffp-contract=off -fno-math-errno -fwrapv -w -shared -fPIC "
             "-o %s %s",
             so, c);
    void *lib = system(command) == 0 ? dlopen(so, RTLD_NOW) : NULL;
    remove(c);
    remove(so);
    rmdir(dir);
    return lib ? (Run *)(uintptr_t)dlsym(lib, "run") : NULL;
}

/* One input by num_op, as the interpreter of kerns does it. */
static float by_num_op(const Expansion *e, float x, float y) {
    Num *v = calloc((size_t)e->k.nins, sizeof *v);
    for (int i = 0; i < e->k.nins; i++) {
        const Ins *p = &e->k.ins[i];
        if (p->k == K_SLOT)
            v[i].f = p->imm ? y : x;
        else if (p->k == K_CONST)
            v[i] = p->c;
        else {
            Num a[3] = {{0}, {0}, {0}};
            for (int j = 0; j < op_info(p->op)->arity; j++) a[j] = v[p->a[j]];
            v[i] = num_op(p->op, e->k.ins[p->a[p->op == OP_WHERE]].ty, p->to, a[0], a[1], a[2]);
        }
    }
    float z = v[e->result].f;
    free(v);
    return z;
}

int main(int argc, char **argv) {
    Op op;
    int64_t step = argc > 2 ? atoll(argv[2]) : 1;
    const bool fast = argc > 1 && strcmp(argv[1], "fast_exp") == 0;
    if (argc < 2 || argc > 3 || step < 1 || !op_find(fast ? "exp" : argv[1], FORM_F, &op) ||
        op_info(op)->cost != COST_SPECIAL) {
        fprintf(stderr,
                "usage: exhaust_math OP [STEP], OP one of exp fast_exp exp2 log log2 tanh erf sigmoid rsqrt pow\n");
        return 2;
    }
    static Expansion e;
    expansion_make(&e, op, fast ? EXP_FAST : EXP_EXACT);
    Run *run = compile(&e);
    if (!run) {
        fprintf(stderr, "exhaust_math: cannot compile the expansion\n");
        return 2;
    }
    enum { N = 4096 };
    static float x[N], y[N], z[N];
    double worst = 0;
    float worst_x = 0, worst_y = 0;
    Rng rng = {1};
    int64_t tested = 0, differ = 0, inexact = 0;
    for (int64_t at = 0; at < (int64_t)1 << 32;) {
        int n = 0;
        for (; n < N && at < (int64_t)1 << 32; n++, at += step) {
            if (op == OP_POW)
                math_pair(&rng, &x[n], &y[n]);
            else
                x[n] = math_f32((uint32_t)at);
        }
        run(x, y, z, n);
        float by = by_num_op(&e, x[0], y[0]);
        differ += memcmp(&by, &z[0], sizeof by) != 0 && !(isnan(by) && isnan(z[0]));
        for (int i = 0; i < n; i++) {
            double want = math_ref(op, x[i], y[i]);
            if ((float)want == z[i] && z[i] != 0) continue;
            double off = ulp_off(z[i], want);
            inexact += off > 0.5;
            if (off > worst) worst = off, worst_x = x[i], worst_y = y[i];
        }
        tested += n;
    }
    printf("%-8s %3d instructions, %lld inputs, worst %.4f ulp at %a", argv[1], expansion_ops(&e), (long long)tested,
           worst, (double)worst_x);
    if (op == OP_POW) printf(", %a", (double)worst_y);
    printf("; %.2f%% not the nearest; %lld differ from num_op\n", 100.0 * (double)inexact / (double)tested,
           (long long)differ);
    expansion_free(&e);
    return differ != 0;
}
