/* Shared by the files that judge plans. */
#ifndef ROWFOLD_LEGAL_H
#define ROWFOLD_LEGAL_H

#include "plan.h"

/* A figure no budget reaches, so that sums of 64 stripes in bytes of 1024 lanes stay within 63 bits. */
static const int64_t STRIPE_MOST = 1ll << 44;

/* Elements of the domain that stripes have room for. */
int64_t plan_reserved(const Problem *pb, const Plan *plan, const Domain *d);

/* legalshift.c */
Err plan_check_shift(Cx *cx, const Problem *pb, const Plan *plan, const Sched *sc);

/* legalchip.c */
Err plan_check_shared(Cx *cx, const Problem *pb, const Plan *plan, const Sched *sc);
Err plan_check_stages(Cx *cx, const Problem *pb, const Plan *plan, const Sched *sc);
Err plan_check_grid(Cx *cx, const Problem *pb, const Plan *plan, const Sched *sc);
#endif
