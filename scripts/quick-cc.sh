#!/bin/sh
# A C compiler for tests that care for bits, not for speed: gcc without optimization, a fifth of the time. -march=native is for portable text, whose
# fused products are calls otherwise, and half of what such a kernel takes. gcc 12 ends in an internal error on some texts at -O0; those are
# compiled as they were meant to be.
native=-march=native
case "$*" in
*--version*) exec gcc "$@" ;;
*-mfma*) native='' ;;
esac
gcc "$@" -O0 $native 2>/dev/null || exec gcc "$@"
