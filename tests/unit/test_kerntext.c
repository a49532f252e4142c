/* The text of a kern, out and in, and every rule of its verifier. */
#include "kern_hand.h"

/* ---- text ---- */

static const char *print(Fix *f, const Kern *k) {
    Buf b = buf_new(f->arena);
    kern_print(k, &b);
    return b.s;
}

static void test_text(void **state) {
    (void)state;
    bool seen[K_COUNT] = {false};
    Fix *f = fix_new();
    for (int i = 0; i < ALL_KERNS; i++) {
        Kern *k = kern_number(f, i, small), *again = NULL;
        k->node[0].note = "a note, with # and words";
        const char *text = print(f, k);
        assert_ok(f, kern_read(&f->cx, &f->prog, text, strlen(text), &again));
        assert_string_equal(text, print(f, again));
        assert_string_equal(k->node[0].note, again->node[0].note);
        assert_int_equal(k->nins, again->nins);
        for (int j = 0; j < k->nins; j++) {
            seen[k->ins[j].k] = true;
            assert_int_equal(k->ins[j].k, again->ins[j].k);
        }
        Tensors t = tensors(f, k, 3), u = tensors(f, k, 3); /* and does the same */
        KernRun kr;
        assert_ok(f, run(f, k, &t, &kr));
        assert_ok(f, run(f, again, &u, &kr));
        assert_memory_equal(t.y, u.y, (size_t)(ROWS * small.n) * 4);
        assert_memory_equal(t.z, u.z, (size_t)(ROWS * small.n * small.g) * 2);
        assert_memory_equal(t.s, u.s, ROWS * 4);
    }
    for (int j = 0; j < K_COUNT; j++) assert_true(seen[j]); /* no instruction that these tests do not know */
    fix_free(f);
}

/* Constants keep their bits. */
static void test_text_numbers(void **state) {
    (void)state;
    static const struct {
        Ty ty;
        uint64_t bits;
    } nums[] = {{TY_F32, 0x7FC00000},
                {TY_F32, 0xFFC12345},
                {TY_F32, 0x7F800000},
                {TY_F32, 0x80000000},
                {TY_F32, 1},
                {TY_F32, 0x3DCCCCCD},
                {TY_F64, 0x7FF8000000000000},
                {TY_F64, 0xFFF8000000000001},
                {TY_F64, 0x8000000000000000},
                {TY_F64, 0x3FB999999999999A},
                {TY_I64, (uint64_t)INT64_MIN},
                {TY_U64, UINT64_MAX},
                {TY_I32, (uint64_t)(int64_t)-5},
                {TY_U32, UINT32_MAX},
                {TY_BOOL, 1},
                {TY_BOOL, 0}};
    Fix *f = fix_new();
    Kern *k = kern_new(f, small), *again;
    int loop = -1;
    BLOCK();
    for (int i = 0; i < COUNT(nums); i++) {
        Num c = {0};
        uint32_t low = (uint32_t)nums[i].bits;
        if (nums[i].ty == TY_F32)
            memcpy(&c.f, &low, 4);
        else if (nums[i].ty == TY_BOOL)
            c.b = nums[i].bits;
        else
            c.u = nums[i].bits;
        INS(.k = K_CONST, .ty = nums[i].ty, .c = c);
    }
    const char *text = print(f, k);
    assert_ok(f, kern_read(&f->cx, &f->prog, text, strlen(text), &again));
    for (int i = 0; i < k->nins; i++) assert_memory_equal(&k->ins[i].c, &again->ins[i].c, sizeof(Num));
    fix_free(f);
}

static void test_text_refused(void **state) {
    (void)state;
    static const char *const from_to[][2] = {
        {"kern", "kernel"},
        {"machine", "host"},
        {"poly 0", "poly 2"},
        {"domain d0", "domain d7"},
        {"mapped n", "mapped q"},
        {"cell c0 f32", "cell c0 e32"},
        {"block {", "block"},
        {"sweep d0", "sweep 0"},
        {"loadp", "loadq"},
        {"elem x plain", "elem w plain"},
        {"plain %", "never %"},
        {"fold.add", "fold.sum"},
        {"fold.add", "fold"},
        {"%0 = rowidx", "rowidx"},
        {"%0 = rowidx", "%1 = rowidx"},
        {"init f32 c0 0", "init f32 c0 zero"},
        {"init", "%3 = init"},
        {"slot i64 row", "slot i64 rod"},
        {"}\n", "}}\n"},
        {"rowidx i64 row", "rowidx i64 row 5"},
        {"shape rows -1", "shape rows x"},
        {"counts", "count"},
        {"}\n", "\n"},
    };
    Fix *f = fix_new();
    const char *text = print(f, kern_sum(f, small));
    for (int i = 0; i < COUNT(from_to); i++) {
        const char *at = strstr(text, from_to[i][0]);
        if (!at) fail_msg("no \"%s\" in\n%s", from_to[i][0], text);
        char *bad =
            arena_printf(f->arena, "%.*s%s%s", (int)(at - text), text, from_to[i][1], at + strlen(from_to[i][0]));
        Kern *k;
        assert_slug(f, kern_read(&f->cx, &f->prog, bad, strlen(bad), &k), S_KERN_SYNTAX);
    }
    fix_free(f);
}

static int word_at(const char *s, int at) { /* where the word begins that stands there */
    while (at > 0 && s[at - 1] != ' ' && s[at - 1] != '\n') at--;
    return at;
}

/* Any bytes: an error, or a kern whose text reads back. Words are put elsewhere, bytes changed, stretches cut and
 * repeated. */
static void test_text_hostile(void **state) {
    (void)state;
    static const char *const words[] = {"%0", "-1", "99999999999", "}",       "loop 3 {\n", "_",
                                        "\n", "#",  "nan",         "to bf16", "2147483647"};
    Rng r = {20};
    int kept = 0;
    for (int round = 0; round < 4000; round++) {
        Fix *f = fix_new();
        const char *text = print(f, kern_number(f, rng_int(&r, ALL_KERNS), small));
        int size = (int)strlen(text), n = size;
        char *s = arena_get(f->arena, (size_t)n + 4096);
        memcpy(s, text, (size_t)n);
        for (int edits = 1 + rng_int(&r, 2); edits > 0; edits--) {
            int at = rng_int(&r, n), cut = rng_int(&r, 60), more = rng_int(&r, 60), kind = rng_int(&r, 6) - 2;
            const char *put = text + rng_int(&r, size - 60);
            char byte = (char)rng_int(&r, 256);
            if (kind < 2) { /* a word for a word */
                at = word_at(s, at), put = text + word_at(text, (int)(put - text));
                for (int tries = 0; kind && tries < 100 && *put != s[at]; tries++) /* mostly of the same sort */
                    put = text + word_at(text, rng_int(&r, size - 60));
                if (!kind) put = words[rng_int(&r, COUNT(words))];
                cut = (int)strcspn(s + at, " \n"), more = (int)strcspn(put, " \n");
            } else if (kind == 2) {
                put = &byte, cut = more = 1;
            } else if (rng_int(&r, 2)) {
                more = 0;
            }
            if (at + cut > n) cut = n - at;
            memmove(s + at + more, s + at + cut, (size_t)(n - at - cut));
            memcpy(s + at, put, (size_t)more);
            n += more - cut;
            s[n] = 0;
        }
        Kern *k = NULL, *again = NULL;
        if (kern_read(&f->cx, &f->prog, s, (size_t)n, &k) == OK) {
            const char *one = print(f, k);
            Demand d;
            kern_count(&f->cx, k, &d);
            assert_ok(f, kern_verify(&f->cx, k));
            assert_ok(f, kern_read(&f->cx, &f->prog, one, strlen(one), &again));
            assert_string_equal(one, print(f, again));
            kept++;
        } else {
            assert_non_null(f->cx.first);
        }
        fix_free(f);
    }
    assert_in_range(kept, 200, 3600); /* else the edits say nothing about good kerns, or nothing about bad ones */
}

/* ---- the verifier ---- */

typedef enum Base { SUM, ARGMAX, SOFTMAX = 4, SERIAL, STEPS } Base;
#define RULE(name, base, slug, ...) \
    static void name(Kern *k) {     \
        __VA_ARGS__;                \
    }                               \
    enum { name##_base = base, name##_slug = slug };
/* One edit of a good kern for each rule and way to break it. */
RULE(r_next, SUM, S_KERN_STRUCTURE, k->node[2].next = 0)
RULE(r_node, SUM, S_KERN_STRUCTURE, k->node[0].next = 17)
RULE(r_lost, SUM, S_KERN_STRUCTURE, k->node[1].next = -1)
RULE(r_gap, SUM, S_KERN_STRUCTURE, k->node[1].i0++)
RULE(r_past, SUM, S_KERN_STRUCTURE, k->node[2].i1++)
RULE(r_kind, SUM, S_KERN_STRUCTURE, k->node[1].kind = (NodeKind)9)
RULE(r_sweeps, SUM, S_KERN_STRUCTURE, k->nsweeps = 2)
RULE(r_reds, SUM, S_KERN_STRUCTURE, k->nreds = -1)
RULE(r_w, SUM, S_KERN_PLAN, k->plan.W = 0)
RULE(r_exchange, SUM, S_KERN_PLAN, k->plan.exchange = EXCHANGE_BYTES)
RULE(r_flight, SUM, S_KERN_PLAN, k->plan.flight = 0)
RULE(r_subgroup, SUM, S_KERN_PLAN, k->subgroup = 0)
RULE(r_elements, SUM, S_KERN_DOMAIN, k->domain[0].n_mapped++)
RULE(r_points, SERIAL, S_KERN_DOMAIN, k->domain[1].n_serial++)
RULE(r_both, SERIAL, S_KERN_DOMAIN, k->domain[1].serial |= k->domain[1].mapped)
RULE(r_axis, SUM, S_KERN_DOMAIN, k->domain[0].axes |= 1u << 11)
RULE(r_huge, SUM, S_KERN_DOMAIN, k->shape.n[A_N] = k->domain[0].n_mapped = k->domain[1].n_mapped = INT64_MAX)
RULE(r_domains, SUM, S_KERN_DOMAIN, k->ndomains = MAX_DOMAINS + 1)
RULE(r_home, SOFTMAX, S_KERN_STRIPE, k->stripe[0].home = HOLD_REGISTER32)
RULE(r_stripe_ty, SOFTMAX, S_KERN_STRIPE, k->stripe[0].ty = TY_NONE)
RULE(r_life, SOFTMAX, S_KERN_STRIPE, k->stripe[0].last = 3)
RULE(r_short, SOFTMAX, S_KERN_STRIPE, k->stripe[0].last = 1)
RULE(r_late, SOFTMAX, S_KERN_STRIPE, k->stripe[0].first = 1)
RULE(r_output, SOFTMAX, S_KERN_STRIPE, k->stripe[0].home = HOLD_OUTPUT; k->stripe[0].param = P_Y)
RULE(r_no_output, SOFTMAX, S_KERN_STRIPE, k->stripe[0].home = HOLD_OUTPUT; k->stripe[0].param = P_X)
RULE(r_other_map, SOFTMAX, S_KERN_STRIPE_DOMAIN, k->domain[1] = (Domain){1u << A_G, 0, 1u << A_G, 1, 3};
     k->stripe[0].domain = 1)
RULE(r_no_point, SERIAL, S_KERN_STRIPE_DOMAIN, nth(k, K_GET, 0)->a[0] = -1)
RULE(r_point, SOFTMAX, S_KERN_STRIPE_DOMAIN, nth(k, K_GET, 0)->a[0] = 0)
RULE(r_cell_ty, SUM, S_KERN_CELL, k->cell[0].ty = TY_BF16)
RULE(r_cell_acc, SUM, S_KERN_CELL, k->cell[0].acc = 0)
RULE(r_array, SERIAL, S_KERN_ARRAY, k->array[0].n = -1)
RULE(r_loops, SERIAL, S_KERN_LOOP, k->node[k->node[1].child].kind = NODE_LOOP; k->node[k->node[1].child].child = -1)
RULE(r_rounds, SERIAL, S_KERN_LOOP, k->node[1].count = 2)
RULE(r_backwards, SERIAL, S_KERN_LOOP, k->node[1].count = -1)
RULE(r_unlooped, SUM, S_KERN_LOOP, k->node[1].domain = 1)
RULE(r_serial, SUM, S_KERN_LOOP, k->ins[0].k = K_SERIAL)
RULE(r_missing, SUM, S_KERN_OPERAND, nth(k, K_FOLD, 0)->a[0] = -1)
RULE(r_beyond, SUM, S_KERN_OPERAND, nth(k, K_FOLD, 0)->a[0] = 1000)
RULE(r_effect, SUM, S_KERN_OPERAND, nth(k, K_FOLD, 0)->a[0] = number(k, K_INIT, 0))
RULE(r_guard, STEPS, S_KERN_OPERAND, nth(k, K_LOAD1, 0)->a[2] = -1)
RULE(r_fill, STEPS, S_KERN_OPERAND, nth(k, K_LOAD1, 0)->a[1] = -1)
RULE(r_later, SUM, S_KERN_ORDER, nth(k, K_LOADP, 0)->a[0] = number(k, K_JOIN, 0))
RULE(r_sweep_scope, SOFTMAX, S_KERN_SCOPE, nth(k, K_JOIN, 0)->a[0] = number(k, K_LOADP, 0))
RULE(r_sweep_to_sweep, SOFTMAX, S_KERN_SCOPE, nth(k, K_OP, 4)->a[0] = number(k, K_LOADP, 0))
RULE(r_loop_scope, SERIAL, S_KERN_SCOPE, nth(k, K_GET, 0)->a[0] = number(k, K_SERIAL, 0))
RULE(r_fold_place, SUM, S_KERN_PLACE, nth(k, K_INIT, 0)->k = K_FOLD)
RULE(r_init_place, SUM, S_KERN_PLACE, nth(k, K_FOLD, 0)->k = K_INIT)
RULE(r_ins, SUM, S_KERN_OPERATOR, k->ins[2].k = K_COUNT)
RULE(r_fold_op, SUM, S_KERN_OPERATOR, nth(k, K_FOLD, 0)->op = OP_SUB)
RULE(r_pair_op, ARGMAX, S_KERN_OPERATOR, nth(k, K_FOLD2, 0)->op = OP_ADD)
RULE(r_factor, SUM, S_KERN_OPERAND, nth(k, K_FOLD, 0)->op = OP_FMA)
RULE(r_join_op, SUM, S_KERN_OPERATOR, nth(k, K_JOIN, 0)->op = OP_FMA)
RULE(r_leaf_op, SUM, S_KERN_OPERATOR, nth(k, K_OP, 0)->op = OP_IDX)
RULE(r_no_op, SUM, S_KERN_OPERATOR, nth(k, K_OP, 0)->op = OP_COUNT)
RULE(r_cell, SUM, S_KERN_INDEX, nth(k, K_FOLD, 0)->imm = 1)
RULE(r_stripe, SOFTMAX, S_KERN_INDEX, nth(k, K_GET, 0)->imm = 1)
RULE(r_row_array, SERIAL, S_KERN_INDEX, nth(k, K_ROWGET, 0)->imm = -1)
RULE(r_slot, SUM, S_KERN_INDEX, nth(k, K_SLOT, 0)->imm = 1000)
RULE(r_param, SUM, S_KERN_INDEX, nth(k, K_LOADP, 0)->param = 7)
RULE(r_acc, SUM, S_KERN_INDEX, nth(k, K_CELL, 0)->acc = 2)
RULE(r_load_policy, SUM, S_KERN_INDEX, nth(k, K_LOADP, 0)->policy = 4)
RULE(r_store_policy, SUM, S_KERN_INDEX, nth(k, K_STORE1, 0)->policy = 2)
RULE(r_domain, SUM, S_KERN_INDEX, k->node[1].domain = 2)
RULE(r_no_index_cell, ARGMAX, S_KERN_INDEX, nth(k, K_FOLD2, 0)->imm = 1)
RULE(r_sweep_acc, STEPS, S_KERN_INDEX, k->cell[0].acc = 2; nth(k, K_CELL, 0)->acc = 1)
RULE(r_load_out, SUM, S_KERN_DIRECTION, nth(k, K_LOADP, 0)->param = P_Y)
RULE(r_load_scalar, SUM, S_KERN_DIRECTION, nth(k, K_LOADP, 0)->param = P_EPS)
RULE(r_store_in, SOFTMAX, S_KERN_DIRECTION, nth(k, K_STOREP, 0)->param = P_X)
RULE(r_pointer, SUM, S_KERN_TYPE, nth(k, K_SLOT, 0)->imm = 0)
RULE(r_row_ty, SUM, S_KERN_TYPE, k->ins[0].ty = TY_I32)
RULE(r_storage_ty, SUM, S_KERN_TYPE, nth(k, K_LOADP, 0)->ty = TY_BF16)
RULE(r_mixed, SUM, S_KERN_TYPE, nth(k, K_SLOT, 0)->ty = TY_F64)
RULE(r_load_ty, SUM, S_KERN_TYPE, nth(k, K_LOADP, 0)->ty = TY_I32)
RULE(r_address, STEPS, S_KERN_TYPE, nth(k, K_LOADP, 0)->a[0] = number(k, K_OP, 4))
RULE(r_op_ty, SUM, S_KERN_TYPE, nth(k, K_OP, 0)->ty = TY_F32)
RULE(r_cast, STEPS, S_KERN_TYPE, nth(k, K_OP, 4)->to = TY_F64)
RULE(r_bits, STEPS, S_KERN_TYPE, nth(k, K_OP, 4)->op = OP_BITS)
RULE(r_fold_ty, SUM, S_KERN_TYPE, k->cell[0].ty = TY_F64)
RULE(r_logic, SUM, S_KERN_TYPE, nth(k, K_FOLD, 0)->op = OP_AND)
RULE(r_pair_ty, ARGMAX, S_KERN_TYPE, nth(k, K_ELEM, 0)->ty = TY_I32)
RULE(r_index_cell, ARGMAX, S_KERN_TYPE, k->cell[1].ty = TY_F32; *nth(k, K_INIT, 1) = *nth(k, K_INIT, 0);
     nth(k, K_INIT, 1)->imm = 1)
RULE(r_guard_ty, STEPS, S_KERN_TYPE, nth(k, K_LOAD1, 0)->a[1] = number(k, K_ELEM, 0))
RULE(r_fill_ty, STEPS, S_KERN_TYPE, nth(k, K_LOAD1, 0)->a[2] = 0)
RULE(r_active_ty, STEPS, S_KERN_TYPE, nth(k, K_ACTIVE, 0)->ty = TY_I64)
RULE(r_stripe_value, SOFTMAX, S_KERN_TYPE, k->stripe[0].ty = TY_I32)
RULE(r_array_value, SERIAL, S_KERN_TYPE, k->array[0].ty = TY_F64)
RULE(r_rank, SUM, S_KERN_RANK, nth(k, K_LOADP, 0)->rank = RANK_ROW)
RULE(r_op_rank, SOFTMAX, S_KERN_RANK, nth(k, K_OP, 3)->rank = RANK_LANE)
RULE(r_cell_rank, SUM, S_KERN_RANK, nth(k, K_CELL, 0)->rank = RANK_ROW)
RULE(r_join_rank, SUM, S_KERN_RANK, nth(k, K_JOIN, 0)->rank = RANK_LANE)
RULE(r_join_row, STEPS, S_KERN_RANK, nth(k, K_JOIN, 1)->a[0] = number(k, K_JOIN, 0))
RULE(r_base, STEPS, S_KERN_RANK, *nth(k, K_PACKFOLD, 0) = (Ins){.k = K_ELEM, .ty = TY_I64, .rank = RANK_ELEM};
     *nth(k, K_CELL,
          0) = (Ins){.k = K_LOADP, .ty = TY_F32, .rank = RANK_ELEM, .a = {number(k, K_ELEM, 0), -1, -1}, .param = P_X})
RULE(r_store_lane, SUM, S_KERN_RANK, nth(k, K_STORE1, 0)->a[2] = number(k, K_CELL, 0))
RULE(r_one_address, STEPS, S_KERN_RANK, nth(k, K_STORE1, 0)->a[0] = 0)
RULE(r_set_elem, STEPS, S_KERN_RANK, nth(k, K_SETCELL, 0)->a[0] = number(k, K_LOADP, 0))
RULE(r_layout_param, SUM, S_KERN_LAYOUT, nth(k, K_LOADP, 0)->param = P_T)
RULE(r_layout_order, SERIAL, S_KERN_LAYOUT, k->node[node_end(k, k->node[1].child) - 1].domain = 0;
     k->domain[0] = (Domain){6, 0, 6, 1, 111})
RULE(r_layout_last, SERIAL, S_KERN_LAYOUT, ((Prog *)k->prog)->param[P_Z].axis[1] = A_N;
     ((Prog *)k->prog)->param[P_Z].axis[2] = A_G; nth(k, K_LOADP, 0)->a[1] = -1)
RULE(r_get_first, SOFTMAX, S_KERN_UNFILLED,
     *nth(k, K_PUT, 0) = (Ins){.k = K_GET, .ty = TY_F32, .rank = RANK_ELEM, .a = {-1, -1, -1}})
RULE(r_array_first, SERIAL, S_KERN_UNFILLED, nth(k, K_ROWPUT, 0)->k = K_ROWGET)
RULE(r_unset, SUM, S_KERN_UNSET, *nth(k, K_INIT, 0) = (Ins){.k = K_CONST, .ty = TY_F32})
RULE(r_unset_index, ARGMAX, S_KERN_UNSET, nth(k, K_INIT, 1)->ty = TY_F32; nth(k, K_INIT, 1)->imm = 0)
RULE(r_unset_after, SERIAL, S_KERN_UNSET, *nth(k, K_ROWGET, 0) = (Ins){.k = K_CELL, .ty = TY_F32, .rank = RANK_LANE})
RULE(r_pair, ARGMAX, S_KERN_PAIR, *nth(k, K_JOIN2I, 0) = (Ins){.k = K_ROWIDX, .ty = TY_I64})
RULE(r_pair_first, ARGMAX, S_KERN_PAIR, *nth(k, K_JOIN2, 0) = (Ins){.k = K_CONST, .ty = TY_F32})

#define ROW(name) \
    { #name, name, name##_base, name##_slug }
static const struct {
    const char *name;
    void (*edit)(Kern *);
    int base, slug;
} rules[] = {
    ROW(r_next),          ROW(r_node),           ROW(r_lost),
    ROW(r_gap),           ROW(r_past),           ROW(r_kind),
    ROW(r_sweeps),        ROW(r_reds),           ROW(r_w),
    ROW(r_exchange),      ROW(r_flight),         ROW(r_subgroup),
    ROW(r_elements),      ROW(r_points),         ROW(r_both),
    ROW(r_axis),          ROW(r_huge),           ROW(r_domains),
    ROW(r_home),          ROW(r_stripe_ty),      ROW(r_life),
    ROW(r_short),         ROW(r_late),           ROW(r_output),
    ROW(r_no_output),     ROW(r_other_map),      ROW(r_no_point),
    ROW(r_point),         ROW(r_cell_ty),        ROW(r_cell_acc),
    ROW(r_array),         ROW(r_loops),          ROW(r_rounds),
    ROW(r_backwards),     ROW(r_unlooped),       ROW(r_serial),
    ROW(r_missing),       ROW(r_beyond),         ROW(r_effect),
    ROW(r_guard),         ROW(r_fill),           ROW(r_later),
    ROW(r_sweep_scope),   ROW(r_sweep_to_sweep), ROW(r_loop_scope),
    ROW(r_fold_place),    ROW(r_init_place),     ROW(r_ins),
    ROW(r_fold_op),       ROW(r_pair_op),        ROW(r_factor),
    ROW(r_join_op),       ROW(r_leaf_op),        ROW(r_no_op),
    ROW(r_cell),          ROW(r_stripe),         ROW(r_row_array),
    ROW(r_slot),          ROW(r_param),          ROW(r_acc),
    ROW(r_load_policy),   ROW(r_store_policy),   ROW(r_domain),
    ROW(r_no_index_cell), ROW(r_sweep_acc),      ROW(r_load_out),
    ROW(r_load_scalar),   ROW(r_store_in),       ROW(r_pointer),
    ROW(r_row_ty),        ROW(r_storage_ty),     ROW(r_mixed),
    ROW(r_load_ty),       ROW(r_address),        ROW(r_op_ty),
    ROW(r_cast),          ROW(r_bits),           ROW(r_fold_ty),
    ROW(r_logic),         ROW(r_pair_ty),        ROW(r_index_cell),
    ROW(r_guard_ty),      ROW(r_fill_ty),        ROW(r_active_ty),
    ROW(r_stripe_value),  ROW(r_array_value),    ROW(r_rank),
    ROW(r_op_rank),       ROW(r_cell_rank),      ROW(r_join_rank),
    ROW(r_join_row),      ROW(r_base),           ROW(r_store_lane),
    ROW(r_one_address),   ROW(r_set_elem),       ROW(r_layout_param),
    ROW(r_layout_order),  ROW(r_layout_last),    ROW(r_get_first),
    ROW(r_array_first),   ROW(r_unset),          ROW(r_unset_index),
    ROW(r_unset_after),   ROW(r_pair),           ROW(r_pair_first),
};

static void test_verify(void **state) {
    (void)state;
    for (int i = 0; i < COUNT(rules); i++) {
        Fix *f = fix_new();
        Kern *k = kern_number(f, rules[i].base, small);
        assert_ok(f, kern_verify(&f->cx, k));
        rules[i].edit(k);
        print(f, k); /* whatever is wrong, it can be shown */
        Err e = kern_verify(&f->cx, k);
        if (e == OK || f->cx.first->slug != (Slug)rules[i].slug)
            fail_msg("%s: got %s (%s)\n%s", rules[i].name, e ? slug_text(f->cx.first->slug) : "no error",
                     e ? f->cx.first->msg : "", print(f, k));
        fix_free(f);
    }
}

/* An output that is a stripe's home may be loaded. */
static void test_verify_home(void **state) {
    (void)state;
    Fix *f = fix_new();
    Kern *k = kern_sum(f, small);
    nth(k, K_LOADP, 0)->param = P_Y;
    add_stripe(f, k, (Stripe){.ty = TY_F32, .home = HOLD_OUTPUT, .param = P_Y});
    assert_ok(f, kern_verify(&f->cx, k));
    fix_free(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),         cmocka_unit_test(test_text_numbers), cmocka_unit_test(test_text_refused),
        cmocka_unit_test(test_text_hostile), cmocka_unit_test(test_verify),       cmocka_unit_test(test_verify_home),
    };
    return cmocka_run_group_tests_name("kerntext", tests, NULL, NULL);
}
