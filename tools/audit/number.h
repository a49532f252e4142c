/* The language's types (docs/language.md, 3): what bits of each mean, and how a real number is rounded to each. */
#ifndef AUDIT_NUMBER_H
#define AUDIT_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

typedef enum Kind { NONE, BOOL, SINT, UINT, REAL } Kind;
typedef enum Type {
    T_NONE,
    T_BOOL,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F8E4M3,
    F8E5M2,
    F16,
    BF16,
    F32,
    F64,
    TYPES
} Type;
typedef struct TypeFact {
    const char *name;
    Kind kind;
    int bytes;
    /* of floats: bits of the significand with the hidden one, least exponent of a normal number, largest number */
    int digits, least_exp;
    long double most;
    bool clamps; /* numbers beyond the largest become it, not an infinity */
} TypeFact;
const TypeFact *type_fact(Type t);
bool type_named(const char *s, Type *out);
Type type_compute(Type t); /* the type that arithmetic is done in */

/* One number: `v` of floats, `i` of integers and bools (u64 by its bits). */
typedef struct Number {
    long double v;
    int64_t i;
} Number;
Number number_of_bits(Type t, const uint8_t *at); /* little-endian */
long double round_float(Type t, long double x);   /* nearest, ties to even; a NaN stays one */
int64_t round_int(Type t, long double x);         /* nearest even, clamped to the type; a NaN is 0; bool: x != 0 */
long double int_real(Type t, int64_t i);
/* Conversion between any two types; the result is a number of `to` in its compute type. */
Number convert(Type from, Type to, Number x);
#endif
