/* What the files of the CUDA dialect share. */
#ifndef ROWFOLD_GEN_CUDAGEN_H
#define ROWFOLD_GEN_CUDAGEN_H

#include "emit.h"

/* ---- cuda.c ---- */
const Ins *cuda_at(const Emit *e, int i);
const char *cuda_type(Ty t);
Ty cuda_tensor(const Emit *e, int param); /* type in memory */
const char *cuda_val(Emit *e, int i, int f,
                     int v); /* a value, at chunk f and pack element v where it has one for each */
void cuda_declare(Emit *e, int i, int f, int v, const char *what);
const char *cuda_cast(Emit *e, Ty from, Ty to, const char *x);
/* Elements of the domain from the start of chunk f of the step on; -1: the chunk is full. 0: none. */
int64_t cuda_left(const Emit *e, const Step *s, int f);
/* "Element v of chunk f is active in this lane", as a condition; NULL: always. */
const char *cuda_active(Emit *e, const Step *s, int f, int v);
const char *cuda_both(Emit *e, const char *x, const char *y);
const char *cuda_alive(const Emit *e); /* the condition under which a row may store, or NULL */

/* ---- cudamem.c ---- */
bool cuda_is_weight(const Emit *e, int param); /* all rows read it */
void cuda_load_words(Emit *e, int i, const Step *s, int f,
                     const char *w); /* words `w`0, `w`1 ... of a pack, declared and loaded */
void cuda_load_pack(Emit *e, int i, const Step *s, int f);
void cuda_store_pack(Emit *e, int i, const Step *s, int f);
const char *cuda_load_one(Emit *e, const Ins *in, const char *index);
void cuda_store_one(Emit *e, const Ins *in, const char *ok, const char *index, const char *x);
void cuda_get(Emit *e, int i, const Step *s, int f); /* of stripes */
void cuda_put(Emit *e, int i, const Step *s, int f);
bool cuda_shares_words(Ty t); /* elements of a stripe that are shorter than a word share words */
int cuda_stripe_words(const Emit *e, const Stripe *s); /* of one chunk */
int64_t cuda_stripe_chunks(const Emit *e, const Stripe *s);
#endif
