/* Floor 6: the one loop: candidates of a space are judged, ranked, built, checked and timed; every one keeps its fate.
 */
#ifndef ROWFOLD_SEARCH_H
#define ROWFOLD_SEARCH_H

#include "../bench/bench.h"
#include "../cost/cost.h"
#include "../store/store.h"
#include "worker.h"

typedef enum Effort { EFFORT_ESTIMATE, EFFORT_MEASURE, EFFORT_EXHAUSTIVE, EFFORT_RECALL } Effort;
const char *effort_text(Effort e);
static inline bool effort_runs(Effort e) { /* are candidates run to choose? */
    return e == EFFORT_MEASURE || e == EFFORT_EXHAUSTIVE;
}
typedef enum Fate { FATE_REFUSED, FATE_RANKED, FATE_FAILED, FATE_TIMED } Fate; /* ranked: legal, but not tried */

typedef struct Trial {
    Plan plan;
    Fate fate;
    Slug slug; /* refused or failed */
    const char *why;
    Demand demand; /* of legal ones */
    Score score;
    Times times;              /* of timed ones */
    double worst;             /* largest error as a share of its bound */
    int64_t place;            /* in the ranking of the legal ones, from 1; 0: not ranked */
    bool finalist;            /* compared in turns */
    bool from_cache, resumed; /* resumed: not run now, but taken from the store */
    int64_t compile_ns;
} Trial;

typedef struct Recall {
    const char *how; /* NULL: not asked; exact, nearest or estimate */
    const char *why; /* of estimate */
    Wisdom from;     /* of the others */
} Recall;

typedef struct Progress {
    int64_t tried, total, refused, failed;
    double best_ns, elapsed_s, left_s; /* left: as it looks now, within the budgets; < 0: not known yet */
    const char *best_plan;
    const char *reasons; /* "plan.tail_not_exact=12,build.failed=1": refusals and failures, most frequent first */
} Progress;

/* How the finalists compared: in turns, A B C C B A, each round's ratio to the incumbent taken by itself. */
typedef struct Finals {
    int finalists, rounds; /* 0: there were none */
    int64_t incumbent;     /* its trial: what would be used without this search */
    bool remembered;       /* the incumbent comes from the store, else it is the cost policy's first choice */
    double gain;           /* of the fastest over the incumbent: 0.05 is 5 % less time */
    double detectable;     /* the least gain that these rounds could tell from nothing */
    bool tie;              /* no finalist was faster than the incumbent by that much: the incumbent stays */
    int replays;           /* rounds of the fastest and the incumbent alone, compiled anew; 0: a tie needs none */
    double replayed_gain, replayed_least; /* of the fastest there, and its lower bound */
    bool vetoed;                          /* that is not above zero: the incumbent stays */
    DevState before, after;
} Finals;

typedef struct Search {
    /* asked */
    const Problem *pb;
    Device *dev; /* NULL: a preset, estimate only */
    Effort effort;
    const char *pin, *open;
    const char *strategy; /* staged, exhaustive, random, beam; NULL: as the effort says */
    const char *joint;    /* every combination of these, each planned for itself; NULL: none */
    const CostPolicy *policy;
    const double *coef; /* of the policy; NULL: its defaults */
    int64_t max_candidates;
    double max_seconds, max_compile_seconds; /* 0: no limit */
    int threads, builders; /* builders: threads that compile ahead; 0: as suits the device, 1: none on a host */
    bool (*progress)(void *user, const Progress *p); /* true: stop with the best so far */
    void *user;
    Store *store; /* NULL: nothing is remembered */
    StoreKey key; /* when there is a store */
    uint64_t seed;
    bool resume;              /* trials that are in the store are not run again */
    const char *worker_path;  /* of the program that tries candidates; NULL: found; "": none, they are tried here */
    double max_trial_seconds; /* of one candidate; 0: two minutes */
    const Alloc *al;          /* of the worker's books; NULL: malloc and free */
    /* owned while it runs; search_free takes any stage */
    Bed *bed; /* made when it is needed in this process */
    Module *mod, *finalist[WORKER_SLOTS];
    Trial *finalist_of[WORKER_SLOTS]; /* modules of the fastest are kept, where there is no worker */
    Worker *worker;                   /* NULL: candidates are tried in this process */
    Ahead *ahead;
    struct Watch *watch; /* what is told of it while it runs; NULL: it does not */
    /* found */
    int64_t ntrials, nrefused, nfailed, ntimed;
    Trial *trial;
    int64_t best; /* index of the winner */
    int64_t nrecorded, nresumed;
    const char *note; /* what went less well than it might, or NULL */
    const Plan *only; /* the recalled plan: a space of one */
    Recall recall;
    Finals final;
    bool stopped;
    double seconds;
    int64_t compile_ns; /* spent on candidates; what a cache had counts nothing */
    Space space;
} Search;
Err search_run(Cx *cx, Search *s);
bool search_told(Search *s); /* tells how far it is; true: it is to stop */
void search_free(Search *s);

/* ---- judge.c ---- */
Launch search_launch(const Problem *pb, const Plan *plan); /* what a cost policy is told of a launch */
/* Scores or times of a kernel for a range, which is planned for its largest extent and is to be good for all of it
 * (what fits a cache at half of it need not at the whole): element for element, the half counts a quarter. (Both alike,
 * an H200 took 1.156 times as long over layernorm 32768x4096 of 1..4096 as by the plan for 4096 alone.) */
double search_over_range(const Shape *s, double whole, double half);
/* Makes the space and s->trial, one a point; *ranked: the legal ones, best score first. */
Err search_judge(Cx *cx, Search *s, Trial ***ranked, int64_t *nranked);
/* A trial's own failure: its first diagnostic, copied to where the trials live. */
void search_failed(Cx *cx, Trial *t, Fate fate, const Cx *own);
const char *search_reasons(Cx *cx, const Search *s);

/* ---- strategy.c: who is tried, and in which order ---- */
typedef struct Picks {
    Search *s;
    Trial **ranked;
    int64_t nranked, most;
    Trial **queue; /* chosen, in order; those before `at` were handed out */
    int64_t n, at;
    bool *chosen; /* by index of s->trial */
} Picks;
/* Settles s->strategy, and with it the effort. */
Err strategy_check(Cx *cx, Search *s);
/* first: is tried before the others; NULL: none. */
Err picks_new(Cx *cx, Search *s, Trial **ranked, int64_t nranked, Trial *first, Picks *out);
/* The next; NULL: none. `settled`: all that were handed out have their fate, so that a strategy that learns from them
 * may choose. NULL while it is false means: not yet. */
Trial *picks_next(Cx *cx, Picks *p, bool settled);
/* Whom a strategy that learns would choose next if what is under way taught it nothing: at most so many. */
int picks_guess(Cx *cx, const Picks *p, Trial **out, int most);
/* Has t a value of a dimension or hold that none of the list has? */
bool search_differs(const Space *s, Trial *const *list, int64_t n, const Trial *t);

/* ---- finals.c ---- */
int64_t finals_throttled(const Finals *f); /* between before and after; -1: not known */
void search_keep(Search *s, Trial *t);     /* s->mod is t's: among those of the fastest, or freed */
/* Two plans in turns, whatever became of them: time of a over that of b, and the least difference that shows. */
Err search_pair(Cx *cx, Search *s, Trial *a, Trial *b, double *ratio, double *detectable);
/* Makes ready to try candidates in this process. */
Err search_here(Cx *cx, Search *s);
/* The fastest few and the incumbent in turns, half of them for longer. The winner. */
Trial *search_finals(Cx *cx, Search *s, Trial **timed, int64_t n, Trial *incumbent);

/* ---- record.c ---- */
void search_record(Cx *cx, Search *s, const Trial *t, Stage stage, const Attempt *a);
bool search_resume(Cx *cx, Search *s, Trial *t, const char *unit_sha); /* true: t is filled */
Err search_recall(Cx *cx, Search *s);
/* The trial of the plan that is remembered for this very problem; NULL: none, or not in this space. */
Trial *search_remembered(Cx *cx, Search *s);
#endif
