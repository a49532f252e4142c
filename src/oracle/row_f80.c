/* Rows of programs with f64: their definition in long double. */
#define REAL long double
#define NAME(f) f##_f80
#include "roweval.h"
