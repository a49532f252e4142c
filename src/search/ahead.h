/* Units that are compiled before they are needed, by threads of their own. */
#ifndef ROWFOLD_AHEAD_H
#define ROWFOLD_AHEAD_H

#include "../rt/rt.h"

typedef struct Ahead Ahead;
enum { AHEAD_MOST = 16 }; /* units that wait, are built or lie ready */

/* How many units should be handed over together, by `threads` (0: as many as suit the device) that build them; 1: there
 * is nothing to be won (one thread, or an allocator that is not known to bear several). On a host a compiler takes the
 * very cores that a kernel is timed on, so there a batch is handed over when none is left, and nothing is timed until
 * all of it is built (ahead_wait). Elsewhere the threads build on while the device measures.
 * (On two cores, softmax 1024x4096 with 24 candidates, in pairs beside other people's work: 0.81, 0.84 and 1.19 of the
 * time that one after the other takes.) */
int ahead_batch(Device *dev, int threads);
/* NULL: a batch of 1, or no memory for it; then every unit is built when it is needed. */
Ahead *ahead_new(Device *dev, int threads);
void ahead_free(Ahead *a); /* ends what is being compiled; what nobody took goes. NULL is fine */
/* Takes over a copy of the unit. One that is there already, or finds no room, is passed over. guess: it may be that
 * nobody will take it, so that it is built after those that are no guesses, and makes room for any. */
void ahead_add(Ahead *a, const Unit *u, const char *sha, bool guess);
void ahead_wait(Cx *cx, Ahead *a); /* hosts: until all are built, or given up; else it returns at once */
/* False: nobody asked for that unit, or another one has its name. Else the module, or the error that building it gave,
 * as mod_build would have. */
bool ahead_take(Cx *cx, Ahead *a, const Unit *u, const char *sha, Err *err, Module **mod);
#endif
