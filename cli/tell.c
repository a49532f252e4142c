/* rowfold devices, explain and check: what is here, what a slug means, whether files are sound. */
#include "cli.h"

#include <string.h>

static void device_json(Text *t, const rowfold_device *d) {
    json_open(t, NULL, '{');
    json_str(t, "name", rowfold_device_name(d));
    json_str(t, "identity", rowfold_device_identity(d));
    json_open(t, "caps", '{');
    for (const char *p = rowfold_device_caps(d); *p;) {
        const size_t n = strcspn(p, " \n"), k = strcspn(p, "=");
        char key[64], value[128];
        if (k < n) {
            snprintf(key, sizeof key, "%.*s", (int)k, p);
            snprintf(value, sizeof value, "%.*s", (int)(n - k - 1), p + k + 1);
            json_str(t, key, value);
        }
        p += n + strspn(p + n, " \n");
    }
    json_close(t, '}');
    json_close(t, '}');
}

static void caps_print(const rowfold_device *d) {
    const char *caps = rowfold_device_caps(d);
    printf("      %.*s\n", (int)strcspn(caps, "\n"), caps);
}

static Rc preset_find(Cli *c, int i, rowfold_device **out) {
    const rowfold_status s = rowfold_device_find(c->ctx, cli_text(c, "preset:%s", rowfold_preset(i)), out);
    return s ? fail_library(c, s) : RC_OK;
}

/* The i-th device: those that rowfold counts, then OpenCL's, which it finds by name only; NULL: there are no more. */
static const rowfold_device *device_at(Cli *c, int i) {
    rowfold_device *d = rowfold_device_at(c->ctx, i);
    const int counted = rowfold_device_count(c->ctx);
    if (i < counted) return d;
    return rowfold_device_find(c->ctx, cli_text(c, "opencl:%d", i - counted), &d) == ROWFOLD_OK ? d : NULL;
}

Rc command_devices(Cli *c) {
    if (c->o.words.n) return fail(c, F_WORDS, NULL, "devices takes no words, and got \"%s\"", c->o.words.item[0]);
    Rc rc = cli_open(c);
    if (rc) return rc;
    rowfold_device *d;
    if (!c->o.json) {
        printf("Devices that are here:\n");
        const rowfold_device *here;
        for (int i = 0; (here = device_at(c, i)); i++) {
            printf("  %s: %s\n", rowfold_device_name(here), rowfold_device_identity(here));
            caps_print(here);
        }
        printf("Presets, to plan and emit for:\n");
        for (int i = 0; rowfold_preset(i); i++) {
            if ((rc = preset_find(c, i, &d)) != RC_OK) return rc;
            printf("  %s\n", rowfold_device_name(d));
            caps_print(d);
        }
        return RC_OK;
    }
    Text t = {0};
    json_open(&t, NULL, '{');
    json_open(&t, "devices", '[');
    int n = 0;
    for (const rowfold_device *here; (here = device_at(c, n)); n++) device_json(&t, here);
    json_close(&t, ']');
    json_open(&t, "presets", '[');
    for (int i = 0; rowfold_preset(i); i++) {
        if ((rc = preset_find(c, i, &d)) != RC_OK) return text_free(&t), rc;
        device_json(&t, d);
    }
    json_close(&t, ']');
    json_close(&t, '}');
    return json_print(c, &t);
}

static Rc explain_list(Cli *c) {
    Text t = {0};
    json_open(&t, NULL, '[');
    for (int i = 0; slug_at(i); i++) {
        if (!c->o.json) {
            printf("%s\n    %s\n", slug_at(i), slug_explain(slug_at(i)));
            continue;
        }
        json_open(&t, NULL, '{');
        json_str(&t, "slug", slug_at(i));
        json_str(&t, "text", slug_explain(slug_at(i)));
        json_close(&t, '}');
    }
    json_close(&t, ']');
    if (c->o.json) return json_print(c, &t);
    text_free(&t);
    return RC_OK;
}

Rc command_explain(Cli *c) {
    if (c->o.list && !c->o.words.n) return explain_list(c);
    if (c->o.words.n != 1 || c->o.list) return fail(c, F_WORDS, "one SLUG, or --list", "explain takes one slug");
    const char *slug = c->o.words.item[0], *why = slug_explain(slug);
    if (!why) {
        List all = {0};
        for (int i = 0; slug_at(i); i++) cli_list(c, &all, slug_at(i));
        const char *meant = near_word(slug, all.item, all.n);
        return fail(c, F_SLUG, NULL, "there is no slug \"%s\"%s", slug,
                    meant ? cli_text(c, "; did you mean %s?", meant) : "");
    }
    if (!c->o.json) return printf("%s: %s\n", slug, why), RC_OK;
    Text t = {0};
    json_open(&t, NULL, '{');
    json_str(&t, "slug", slug);
    json_str(&t, "text", why);
    json_close(&t, '}');
    return json_print(c, &t);
}

/* ---- check ---- */
/* All faults of all files are said; the exit code is that of the first. */
static void check_failed(Cli *c, rowfold_status s, Text *t, Rc *rc) {
    const rowfold_error *e = rowfold_last_error(c->ctx);
    fputs(e->text, stderr);
    json_raw(t, "errors", e->json);
    json_str(t, "hint", e->hint);
    if (!*rc) *rc = rc_of(s);
}

static void check_kernels(Cli *c, const char *path, const rowfold_source *source, Text *t, Rc *rc) {
    for (int i = 0; i < rowfold_source_count(source); i++) {
        const char *name = rowfold_source_kernel(source, i);
        rowfold_program *p = NULL;
        const rowfold_status s = rowfold_program_new(c->ctx, source, name, cli_types(c), c->o.consts, &p);
        json_open(t, NULL, '{');
        json_str(t, "file", path);
        json_str(t, "kernel", name);
        json_bool(t, "ok", s == ROWFOLD_OK);
        if (s) check_failed(c, s, t, rc);
        json_close(t, '}');
        if (!c->o.json) printf("%s: %s: %s\n", path, name, s ? "has errors" : "ok");
        rowfold_program_free(p);
    }
}

Rc command_check(Cli *c) {
    if (!c->o.words.n) return fail(c, F_WORDS, "FILE...", "a file of kernels is missing");
    Rc rc = cli_open(c);
    if (rc) return rc;
    Text t = {0};
    json_open(&t, NULL, '{');
    json_open(&t, "kernels", '[');
    for (int i = 0; i < c->o.words.n; i++) {
        const char *path = c->o.words.item[i];
        char *text;
        size_t n;
        rowfold_source *source = NULL;
        const Rc read = file_read_source(c, path, &text, &n);
        if (read) return text_free(&t), read;
        const rowfold_status s = rowfold_source_parse(c->ctx, path, text, n, &source);
        if (s) {
            json_open(&t, NULL, '{');
            json_str(&t, "file", path);
            json_bool(&t, "ok", false);
            check_failed(c, s, &t, &rc);
            json_close(&t, '}');
            if (!c->o.json) printf("%s: has errors\n", path);
        } else {
            check_kernels(c, path, source, &t, &rc);
        }
        rowfold_source_free(source);
    }
    json_close(&t, ']');
    json_bool(&t, "ok", rc == RC_OK);
    json_close(&t, '}');
    if (!c->o.json) return text_free(&t), rc;
    const Rc printed = json_print(c, &t);
    return rc ? rc : printed;
}
