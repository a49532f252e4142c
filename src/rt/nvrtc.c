/* CUDA text -> cubin by libnvrtc, in this process, without headers; and what a cubin says of itself. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "cudadrv.h"

#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A product is fused only where the text says so, and division and root round correctly: the bits must be those of any
 * other device. */
static const char *const fixed[] = {"--std=c++17",
                                    "--fmad=false",
                                    "--prec-div=true",
                                    "--prec-sqrt=true",
                                    "--ftz=false",
                                    "--device-as-default-execution-space",
                                    "-w"};
enum { MAX_LOG = 1 << 20, MAX_CUBIN = 64 << 20 };

bool nvrtc_open(Nvrtc *n) {
    static const char *const names[] = {
        "libnvrtc.so.13", "/usr/local/cuda/lib64/libnvrtc.so.13", "/usr/local/cuda/lib/libnvrtc.so.13",
        "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so.12", "/usr/local/cuda/lib/libnvrtc.so.12"};
    const char *asked = getenv("ROWFOLD_NVRTC");
    const int how = RTLD_NOW | RTLD_LOCAL |
                    RTLD_NODELETE; /* once it is loaded it stays: it leaves 72 kB behind with each unloading */
    *n = (Nvrtc){0};
    if (asked && asked[0])
        n->lib = dlopen(asked, how);
    else
        for (int i = 0; i < COUNT(names) && !n->lib; i++) n->lib = dlopen(names[i], how);
    if (!n->lib) {
        snprintf(n->why, sizeof n->why, "no libnvrtc.so.13 or .12 (%.150s)",
                 asked && asked[0] ? asked : "nor under /usr/local/cuda");
        return false;
    }
    const struct {
        const char *name;
        void *at;
    } fns[] = {{"nvrtcVersion", &n->version},
               {"nvrtcCreateProgram", &n->create},
               {"nvrtcCompileProgram", &n->compile},
               {"nvrtcDestroyProgram", &n->destroy},
               {"nvrtcGetCUBINSize", &n->cubin_size},
               {"nvrtcGetCUBIN", &n->cubin},
               {"nvrtcGetProgramLogSize", &n->log_size},
               {"nvrtcGetProgramLog", &n->log},
               {"nvrtcGetErrorString", &n->error}};
    for (int i = 0; i < COUNT(fns); i++) {
        void *f = dlsym(n->lib, fns[i].name);
        memcpy(fns[i].at, &f, sizeof f);
        if (f) continue;
        nvrtc_close(n);
        snprintf(n->why, sizeof n->why, "libnvrtc lacks %s", fns[i].name);
        return false;
    }
    if (n->version(&n->major, &n->minor) == 0) return true;
    nvrtc_close(n);
    snprintf(n->why, sizeof n->why, "libnvrtc does not tell its version");
    return false;
}

void nvrtc_close(Nvrtc *n) {
    if (n->lib) dlclose(n->lib);
    n->lib = NULL;
}

void nvrtc_options(const char *arch, bool loose, char *out, size_t cap) {
    size_t at = (size_t)snprintf(out, cap, "--gpu-architecture=%s%s", arch, loose ? " -DROWFOLD_LOOSE" : "");
    for (int i = 0; i < COUNT(fixed) && at < cap; i++) at += (size_t)snprintf(out + at, cap - at, " %s", fixed[i]);
}

/* The first lines of the compiler's own words. */
static void excerpt(const Nvrtc *n, const Alloc *al, NvrtcProgram *p, char *out, size_t cap) {
    size_t size = 0;
    out[0] = 0;
    if (n->log_size(p, &size) || size < 2 || size > MAX_LOG) return;
    char *log = al->get(al->user, size + 1);
    if (!log) return;
    log[0] = log[size] = 0;
    if (n->log(p, log) == 0) snprintf(out, cap, "%s", log);
    for (char *c = out; *c; c++)
        if ((unsigned char)*c < 0x20 && *c != '\n') *c = ' ';
    al->put(al->user, log);
}

bool nvrtc_build(const Nvrtc *n, const Alloc *al, const Unit *u, const char *arch, bool loose, char **cubin,
                 size_t *bytes, Fail *fail) {
    char target[64], said[1200] = "";
    const char *option[COUNT(fixed) + 3];
    int count = 0;
    snprintf(target, sizeof target, "--gpu-architecture=%s", arch);
    option[count++] = target;
    if (n->major >= 13) option[count++] = "--minimal"; /* without declarations that no unit needs: some ms */
    for (int i = 0; i < COUNT(fixed); i++) option[count++] = fixed[i];
    if (loose) option[count++] = "-DROWFOLD_LOOSE";
    *cubin = NULL;
    *bytes = 0;
    fail->slug = S_BUILD_FAILED;
    NvrtcProgram *p = NULL;
    int err = n->create(&p, u->text, "kernel.cu", 0, NULL, NULL);
    if (!err) err = n->compile(p, count, option);
    if (err && p) excerpt(n, al, p, said, sizeof said);
    if (!err) err = n->cubin_size(p, bytes);
    if (!err && (*bytes == 0 || *bytes > MAX_CUBIN)) {
        snprintf(said, sizeof said, "a cubin of %zu bytes", *bytes);
        err = 1;
    }
    if (!err) {
        *cubin = al->get(al->user, *bytes);
        if (!*cubin) fail->slug = S_OOM;
        err = *cubin ? n->cubin(p, *cubin) : 1;
    }
    if (p) n->destroy(&p);
    if (!err) return true;
    if (*cubin) al->put(al->user, *cubin);
    *cubin = NULL;
    snprintf(fail->text, sizeof fail->text, "NVRTC %d.%d for %s on `%s`: %s\n%s", n->major, n->minor, arch, u->entry,
             n->error(err), said);
    return false;
}

/* ---- what a cubin says ---- */

/* Section .nv.info is a list of (form, attribute, size, payload); of the 4-form ones the payload is a symbol's number
 * and a value (NVIDIA binary utilities, cuobjdump -elf). */
enum { FORM_PAIR = 4, ATTR_FRAME = 0x11, ATTR_MIN_STACK = 0x12, ATTR_REGISTERS = 0x2f };

static void read_info(const char *at, size_t n, int *registers, int *local) {
    for (size_t i = 0; i + 4 <= n;) {
        unsigned char form = (unsigned char)at[i], attr = (unsigned char)at[i + 1];
        uint16_t size;
        memcpy(&size, at + i + 2, 2);
        i += 4;
        if (form != FORM_PAIR) continue; /* the value is the size field itself */
        if (size > n - i) return;
        uint32_t pair[2];
        if (size >= sizeof pair) {
            memcpy(pair, at + i, sizeof pair);
            if (attr == ATTR_REGISTERS && (int)pair[1] > *registers) *registers = (int)pair[1];
            if ((attr == ATTR_FRAME || attr == ATTR_MIN_STACK) && (int)pair[1] > *local) *local = (int)pair[1];
        }
        i += size;
    }
}

/* Instructions are 16 bytes, the lowest 12 bits the operation: LDG, and LDGSTS, which copies into on-chip memory (read
 * off the disassembler for sm_80 to sm_120). */
static int count_loads(const char *at, size_t n) {
    enum { BYTES = 16, LDG = 0x981, LDGSTS = 0xfae };
    int loads = 0;
    for (size_t i = 0; i + BYTES <= n; i += BYTES) {
        uint16_t op;
        memcpy(&op, at + i, sizeof op);
        loads += (op & 0xfff) == LDG || (op & 0xfff) == LDGSTS;
    }
    return loads;
}

bool cubin_facts(const char *cubin, size_t bytes, int *registers, int *local, int *loads) {
    Elf64_Ehdr h;
    *registers = -1;
    *local = *loads = 0;
    if (bytes < sizeof h) return false;
    memcpy(&h, cubin, sizeof h);
    if (memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 || h.e_ident[EI_CLASS] != ELFCLASS64 ||
        h.e_shentsize != sizeof(Elf64_Shdr))
        return false;
    Elf64_Shdr names, s;
    if (h.e_shoff > bytes || (bytes - h.e_shoff) / sizeof s < h.e_shnum || h.e_shstrndx >= h.e_shnum) return false;
    memcpy(&names, cubin + h.e_shoff + h.e_shstrndx * sizeof s, sizeof s);
    for (size_t i = 0; i < h.e_shnum; i++) {
        memcpy(&s, cubin + h.e_shoff + i * sizeof s, sizeof s);
        size_t name = names.sh_offset + s.sh_name;
        if (name + 9 > bytes) continue;
        bool info = memcmp(cubin + name, ".nv.info", 9) == 0, code = memcmp(cubin + name, ".text.", 6) == 0;
        if (!info && !code) continue;
        if (s.sh_offset > bytes || s.sh_size > bytes - s.sh_offset) return false;
        if (info)
            read_info(cubin + s.sh_offset, s.sh_size, registers, local);
        else
            *loads += count_loads(cubin + s.sh_offset, s.sh_size);
    }
    return *registers >= 0;
}
