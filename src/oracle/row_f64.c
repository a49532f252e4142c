/* Rows of programs without f64: their definition in FP64. */
#define REAL double
#define NAME(f) f##_f64
#include "roweval.h"
