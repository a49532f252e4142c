/* Shared by the two files of the host dialect's prelude. */
#ifndef ROWFOLD_HOSTPRE_H
#define ROWFOLD_HOSTPRE_H

#include "emit.h"

typedef struct Pre {
    Arena *a;
    Isa isa;
    int L;
    bool wide; /* AVX-512 with whole registers: masks are 16-bit numbers */
    bool ymm;  /* AVX2 with whole registers */
    Buf *out;
    const char **seen;
    int nseen, cap;
} Pre;

typedef struct Name { /* of a function: family, type, whether it is on vectors, and a second type (casts) or operator
                         (joins) */
    const char *all, *family, *op, *to;
    Ty ty;
    bool vector;
} Name;

static inline bool is_f(Ty t) {
    return ty_is_float(t);
}
static inline const char *ct(Ty t) {
    return t == TY_BOOL ? "b1" : ty_text(t);
} /* compute type, scalar */
static inline const char *st(Ty t) {
    return t == TY_BOOL ? "bool8" : ty_text(t);
} /* storage type */
static inline const char *sfx(Ty t) {
    return t == TY_F32 ? "f" : "";
}

typedef void MakeFn(Pre *p, Buf *b, const Name *n); /* writes the function of that name */
/* hostconv.c */
MakeFn host_nar, host_wid, host_odd, host_cast, host_up, host_dn, host_wide, host_load, host_store;

#endif
