#!/usr/bin/env python3
"""Remakes the polynomial coefficients of src/gen/math.c: python3 scripts/minimax.py (needs numpy and mpmath).

Each polynomial is the best in the sense of the largest weighted error on a Chebyshev grid (Lawson's reweighted least squares). The
coefficients are rounded to f32 one at a time, lowest first, and the rest is fitted again after each, so that the higher ones make
up for the rounding of the lower. Printed with the error that the rounded polynomial reaches, as log2.
"""
import re

import mpmath as mp
import numpy as np

mp.mp.dps = 40


def best(x, target, weight, powers):
    """Coefficients of the powers of x that make the largest weight * |polynomial - target| small."""
    if not powers:
        return np.zeros(0)
    a = np.array([x**p for p in powers]).T
    lawson = np.full(len(x), 1.0 / len(x))
    least, found = np.inf, None
    for _ in range(200):
        w = np.sqrt(lawson) * weight
        norm = np.abs(a * w[:, None]).max(axis=0)
        c = np.linalg.lstsq(a * w[:, None] / norm, target * w, rcond=None)[0] / norm
        err = np.abs((a @ c - target) * weight)
        if err.max() < least:
            least, found = err.max(), c
        lawson = lawson * (err + 1e-3 * err.max())
        lawson /= lawson.sum()
    return found


def fit(name, lo, hi, degree, target, weight):
    """target and weight are functions of x in mpmath; the polynomial has powers 0 to degree."""
    t = np.cos(np.pi * (np.arange(1201) + 0.5) / 1201)
    x = (lo + hi) / 2 + (hi - lo) / 2 * t
    want = np.array([float(target(mp.mpf(v))) for v in x])
    weigh = np.array([float(weight(mp.mpf(v))) for v in x])
    done, rest = [], want.copy()
    for p in range(degree + 1):
        c = np.float64(np.float32(best(x, rest, weigh, list(range(p, degree + 1)))[0]))
        done.append(c)
        rest -= c * x**p
    print(f"{name}: error 2^{np.log2(np.abs(rest * weigh).max()):.1f}")
    print("    " + ", ".join(re.sub(r"\.?0*p", "p", float.hex(float(np.float32(c)))) for c in done))


ln2 = float(mp.log(2))
r2 = float(mp.sqrt(2))
# e^r = 1 + r + r^2 Q(r)
fit("exp", -0.50001 * ln2, 0.50001 * ln2, 4, lambda r: (mp.exp(r) - 1 - r) / r**2, lambda r: r**2 / mp.exp(r))
# the same with one term fewer, in ulps of the result, which are twice as large from 1 on: e^r = 1 + r Q(r)
fit("fast exp", -0.50001 * ln2, 0.50001 * ln2, 4, lambda r: (mp.exp(r) - 1) / r, lambda r: r * (2 if r < 0 else 1))
# 2^r = 1 + r Q(r)
fit("exp2", -0.50001, 0.50001, 5, lambda r: (mp.power(2, r) - 1) / r, lambda r: r / mp.power(2, r))
# log(1 + f) = f + f^2 (-1/2 + f Q(f))
fit("log", 1 / r2 - 1, r2 - 1, 7, lambda f: (mp.log1p(f) - f + f * f / 2) / f**3, lambda f: f**3 / mp.log1p(f))
# log2(1 + f) = f / ln 2 + f^2 Q(f)
fit("log2", 1 / r2 - 1, r2 - 1, 8, lambda f: (mp.log1p(f) - f) / f**2 / mp.log(2), lambda f: f**2 * mp.log(2) / mp.log1p(f))
# tanh(x) = x + x^3 Q(x^2)
fit("tanh", 1e-6, 0.625**2, 4, lambda s: (mp.tanh(mp.sqrt(s)) / mp.sqrt(s) - 1) / s, lambda s: s * mp.sqrt(s) / mp.tanh(mp.sqrt(s)))
# erf(x) = x + x Q(x^2)
fit("erf below", 1e-6, 0.93**2, 6, lambda s: mp.erf(mp.sqrt(s)) / mp.sqrt(s) - 1, lambda s: mp.sqrt(s) / mp.erf(mp.sqrt(s)))
# erf(x) = 1 - exp(Q(x))
fit("erf above", 0.92, 3.93, 6, lambda t: mp.log(mp.erfc(t)), lambda t: mp.erfc(t) / mp.erf(t))
# log2((1 + q) / (1 - q)) = 2 / ln 2 (q + q^3 (1/3 + q^2 Q(q^2)))
s = ((r2 - 1) / (r2 + 1)) ** 2
fit("pow", 1e-6, s * 1.001, 2, lambda s: ((mp.atanh(mp.sqrt(s)) / mp.sqrt(s) - 1) / s - mp.mpf(1) / 3) / s, lambda s: s * s)
