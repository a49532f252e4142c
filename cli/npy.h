/* The .npy format: a header that says type, order and shape, then the elements. Stands alone, so that tests can link it
 * without the command. */
#ifndef CLI_NPY_H
#define CLI_NPY_H

#include <stddef.h>
#include <stdint.h>

enum {
    NPY_RANK = 8,            /* most dimensions, as in rowfold.h */
    NPY_HEADER_MAX = 1 << 16 /* longest header text that is read */
};

typedef struct Npy {
    char kind;   /* f i u b V */
    int bytes;   /* of an element */
    int fortran; /* the first dimension is the fastest */
    int rank;
    int64_t shape[NPY_RANK];
    int64_t count;   /* elements */
    size_t data_at;  /* where the elements begin */
    size_t data_len; /* bytes of all elements */
} Npy;

typedef enum NpyFault {
    NPY_OK = 0,
    NPY_OPEN,   /* cannot be opened or read, or is no regular file */
    NPY_HEADER, /* not a .npy header */
    NPY_TYPE,   /* a type that has no counterpart: structured, complex, text, big endian */
    NPY_SHAPE,  /* too many dimensions, or sizes that overflow */
    NPY_SHORT,  /* fewer bytes than the header promises */
    NPY_MEMORY
} NpyFault;

typedef struct NpyError {
    NpyFault fault;
    char text[256]; /* what is wrong, without the name of the file */
} NpyError;

/* Reads the header that any bytes may claim to have; n: bytes at hand. */
NpyFault npy_header_read(const unsigned char *p, size_t n, Npy *out, NpyError *e);
/* How many bytes the header takes in all, from its first 12; 0: not a header. */
size_t npy_header_size(const unsigned char *p, size_t n);
/* Writes a header of version 1 (or 2, if it must) for type, order and shape of `a`, a multiple of 64 long; the length,
 * or 0 when cap is too small. 512 bytes are enough. */
size_t npy_header_write(const Npy *a, char *p, size_t cap);
/* The whole file; *data is aligned to 64 bytes and freed with free. */
NpyFault npy_load(const char *path, Npy *out, void **data, NpyError *e);
/* Strides in elements. */
void npy_strides(const Npy *a, int64_t stride[NPY_RANK]);
/* Memory aligned to 64 bytes, at least one byte of it; NULL when there is none. Freed with free. */
void *npy_memory(size_t bytes);
/* "f4", as the header spells it without the byte order. */
void npy_type_text(const Npy *a, char out[8]);

#endif
