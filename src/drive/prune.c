/* An exhaustive search and a staged one of the same problem -> what the staging lost, and at which stage. */
#include "drive.h"

#include <math.h>

static void search_json(const Search *s, const char *name, Buf *b) {
    Buf plan = buf_new(b->a);
    plan_print(&s->trial[s->best].plan, &plan);
    buf_fmt(b, "\"%s\":{\"compile_s\":", name);
    buf_f64(b, (double)s->compile_ns / 1e9);
    buf_fmt(b, ",\"failed\":%lld,\"plan\":\"%s\",\"seconds\":", (long long)s->nfailed, plan.s);
    buf_f64(b, s->seconds);
    buf_fmt(b, ",\"stopped\":%s,\"timed\":%lld}", s->stopped ? "true" : "false", (long long)s->ntimed);
}

/* The stage of the staged search that the plan did not pass. */
static const char *lost_at(const Search *staged, const Trial *t) {
    if (t == &staged->trial[staged->best]) return "none";
    if (t->fate == FATE_RANKED) return "ranking";
    if (t->fate == FATE_FAILED || t->fate == FATE_REFUSED) return slug_text(t->slug);
    return t->finalist ? "finals" : "short times";
}

Err prune_audit(Cx *cx, Made *m) {
    Search *all = &m->search, *staged = &m->staged;
    /* both searches judged the same space: equal places are equal plans */
    Trial *winner = &all->trial[all->best], *pick = &all->trial[staged->best];
    double ratio = 1, least = 0;
    Err err = winner == pick ? OK : search_pair(cx, all, pick, winner, &ratio, &least);
    if (err) return err;
    Buf b = buf_new(cx->a);
    buf_fmt(&b, "{\"detectable\":");
    buf_f64(&b, least);
    buf_str(&b, ",");
    search_json(all, "exhaustive", &b);
    buf_fmt(&b, ",\"legal\":%lld,\"place\":%lld,\"points\":%lld,\"pruned_by\":\"%s\",\"regret\":",
            (long long)(all->ntrials - all->nrefused), (long long)winner->place, (long long)all->ntrials,
            lost_at(staged, &staged->trial[all->best]));
    buf_f64(&b, ratio - 1);
    buf_str(&b, ",");
    search_json(staged, "staged", &b);
    buf_fmt(&b, ",\"tie\":%s}", fabs(ratio - 1) <= least ? "true" : "false");
    m->pruning = b.s;
    return OK;
}
