/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The functions of HIP that do work on a stream, as the program calls them: F(name, stream, (parameters), (what the
 * test passes), sum)
 *
 * `stream` is what names the stream; `sum` are the parameters, each times its place. Define F, and include this.
 */

#define SIX      uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint32_t e, uint32_t f
#define SIX_SUM  (2 * N(a) + 3 * N(b) + 4 * N(c) + 5 * N(d) + 6 * N(e) + 7 * N(f))
#define DIM(dim) (N((dim).x) + 2 * N((dim).y) + 3 * N((dim).z))
#define N(x)     ((uint64_t) (x))

F(hipLaunchKernel, s, (const void *k, HipDim3 g, HipDim3 b, void **p, size_t m, HipStream s),
                (P(1), D(2), D(3), P(4), 5, s), N(k) + 2 * DIM(g) + 3 * DIM(b) + 4 * N(p) + 5 * m)
F(hipLaunchKernel_spt, s, (const void *k, HipDim3 g, HipDim3 b, void **p, size_t m, HipStream s),
                (P(1), D(2), D(3), P(4), 5, s), N(k) + 2 * DIM(g) + 3 * DIM(b) + 4 * N(p) + 5 * m)
F(hipLaunchCooperativeKernel, s, (const void *k, HipDim3 g, HipDim3 b, void **p, unsigned m, HipStream s),
                (P(1), D(2), D(3), P(4), 5, s), N(k) + 2 * DIM(g) + 3 * DIM(b) + 4 * N(p) + 5 * N(m))
F(hipLaunchCooperativeKernel_spt, s, (const void *k, HipDim3 g, HipDim3 b, void **p, unsigned m, HipStream s),
                (P(1), D(2), D(3), P(4), 5, s), N(k) + 2 * DIM(g) + 3 * DIM(b) + 4 * N(p) + 5 * N(m))
F(hipExtLaunchKernel, s,
                (const void *k, HipDim3 g, HipDim3 b, void **p, size_t m, HipStream s, HipEvent x, HipEvent y, int z),
                (P(1), D(2), D(3), P(4), 5, s, P(7), P(8), 9),
                N(k) + 2 * DIM(g) + 3 * DIM(b) + 4 * N(p) + 5 * m + 7 * N(x) + 8 * N(y) + 9 * N(z))
F(hipLaunchKernelExC, l->stream, (const HipLaunchConfig *l, const void *k, void **p),
                (&(HipLaunchConfig){.grid = D(1), .shared = 2, .stream = s}, P(2), P(3)),
                DIM(l->grid) + N(l->shared) + 2 * N(k) + 3 * N(p))
F(hipModuleLaunchKernel, s, (void *k, SIX, unsigned m, HipStream s, void **p, void **x),
                (P(1), 2, 3, 4, 5, 6, 7, 8, s, P(10), P(11)), N(k) + SIX_SUM + 8 * N(m) + 10 * N(p) + 11 * N(x))
F(hipModuleLaunchCooperativeKernel, s, (void *k, SIX, unsigned m, HipStream s, void **p),
                (P(1), 2, 3, 4, 5, 6, 7, 8, s, P(10)), N(k) + SIX_SUM + 8 * N(m) + 10 * N(p))
F(hipExtModuleLaunchKernel, s,
                (void *k, SIX, size_t m, HipStream s, void **p, void **x, HipEvent y, HipEvent z, uint32_t w),
                (P(1), 2, 3, 4, 5, 6, 7, 8, s, P(10), P(11), P(12), P(13), 14),
                N(k) + SIX_SUM + 8 * m + 10 * N(p) + 11 * N(x) + 12 * N(y) + 13 * N(z) + 14 * N(w))
F(hipHccModuleLaunchKernel, s, (void *k, SIX, size_t m, HipStream s, void **p, void **x, HipEvent y, HipEvent z),
                (P(1), 2, 3, 4, 5, 6, 7, 8, s, P(10), P(11), P(12), P(13)),
                N(k) + SIX_SUM + 8 * m + 10 * N(p) + 11 * N(x) + 12 * N(y) + 13 * N(z))
F(hipDrvLaunchKernelEx, l->stream, (const HipDrvLaunchConfig *l, void *k, void **p, void **x),
                (&(HipDrvLaunchConfig){.grid = {1, 2, 3}, .shared = 2, .stream = s}, P(2), P(3), P(4)),
                N(l->grid[2]) + N(l->shared) + 2 * N(k) + 3 * N(p) + 4 * N(x))
F(hipGraphLaunch, s, (void *g, HipStream s), (P(1), s), N(g))
F(hipGraphLaunch_spt, s, (void *g, HipStream s), (P(1), s), N(g))

F(hipMemcpyAsync, s, (void *to, const void *from, size_t n, int kind, HipStream s), (P(1), P(2), 3, 4, s),
                N(to) + 2 * N(from) + 3 * n + 4 * N(kind))
F(hipMemcpyAsync_spt, s, (void *to, const void *from, size_t n, int kind, HipStream s), (P(1), P(2), 3, 4, s),
                N(to) + 2 * N(from) + 3 * n + 4 * N(kind))
F(hipMemcpyHtoDAsync, s, (void *to, const void *from, size_t n, HipStream s), (P(1), P(2), 3, s),
                N(to) + 2 * N(from) + 3 * n)
F(hipMemcpyDtoHAsync, s, (void *to, void *from, size_t n, HipStream s), (P(1), P(2), 3, s), N(to) + 2 * N(from) + 3 * n)
F(hipMemcpyDtoDAsync, s, (void *to, void *from, size_t n, HipStream s), (P(1), P(2), 3, s), N(to) + 2 * N(from) + 3 * n)
F(hipMemcpyPeerAsync, s, (void *to, int t, const void *from, int f, size_t n, HipStream s), (P(1), 2, P(3), 4, 5, s),
                N(to) + 2 * N(t) + 3 * N(from) + 4 * N(f) + 5 * n)
F(hipMemcpy2DAsync, s, (void *to, size_t tp, const void *from, size_t fp, size_t w, size_t h, int kind, HipStream s),
                (P(1), 2, P(3), 4, 5, 6, 7, s), N(to) + 2 * tp + 3 * N(from) + 4 * fp + 5 * w + 6 * h + 7 * N(kind))
F(hipMemcpy2DAsync_spt, s,
                (void *to, size_t tp, const void *from, size_t fp, size_t w, size_t h, int kind, HipStream s),
                (P(1), 2, P(3), 4, 5, 6, 7, s), N(to) + 2 * tp + 3 * N(from) + 4 * fp + 5 * w + 6 * h + 7 * N(kind))
F(hipMemcpy3DAsync, s, (const void *p, HipStream s), (P(1), s), N(p))
F(hipMemcpy3DAsync_spt, s, (const void *p, HipStream s), (P(1), s), N(p))
F(hipMemcpyParam2DAsync, s, (const void *p, HipStream s), (P(1), s), N(p))
F(hipDrvMemcpy3DAsync, s, (const void *p, HipStream s), (P(1), s), N(p))
F(hipMemcpyToSymbolAsync, s, (const void *y, const void *from, size_t n, size_t o, int kind, HipStream s),
                (P(1), P(2), 3, 4, 5, s), N(y) + 2 * N(from) + 3 * n + 4 * o + 5 * N(kind))
F(hipMemcpyToSymbolAsync_spt, s, (const void *y, const void *from, size_t n, size_t o, int kind, HipStream s),
                (P(1), P(2), 3, 4, 5, s), N(y) + 2 * N(from) + 3 * n + 4 * o + 5 * N(kind))
F(hipMemcpyFromSymbolAsync, s, (void *to, const void *y, size_t n, size_t o, int kind, HipStream s),
                (P(1), P(2), 3, 4, 5, s), N(to) + 2 * N(y) + 3 * n + 4 * o + 5 * N(kind))
F(hipMemcpyFromSymbolAsync_spt, s, (void *to, const void *y, size_t n, size_t o, int kind, HipStream s),
                (P(1), P(2), 3, 4, 5, s), N(to) + 2 * N(y) + 3 * n + 4 * o + 5 * N(kind))

F(hipMemsetAsync, s, (void *to, int v, size_t n, HipStream s), (P(1), 2, 3, s), N(to) + 2 * N(v) + 3 * n)
F(hipMemsetAsync_spt, s, (void *to, int v, size_t n, HipStream s), (P(1), 2, 3, s), N(to) + 2 * N(v) + 3 * n)
F(hipMemsetD8Async, s, (void *to, unsigned char v, size_t n, HipStream s), (P(1), 2, 3, s), N(to) + 2 * N(v) + 3 * n)
F(hipMemsetD16Async, s, (void *to, unsigned short v, size_t n, HipStream s), (P(1), 2, 3, s), N(to) + 2 * N(v) + 3 * n)
F(hipMemsetD32Async, s, (void *to, int v, size_t n, HipStream s), (P(1), 2, 3, s), N(to) + 2 * N(v) + 3 * n)
F(hipMemset2DAsync, s, (void *to, size_t p, int v, size_t w, size_t h, HipStream s), (P(1), 2, 3, 4, 5, s),
                N(to) + 2 * p + 3 * N(v) + 4 * w + 5 * h)
F(hipMemset2DAsync_spt, s, (void *to, size_t p, int v, size_t w, size_t h, HipStream s), (P(1), 2, 3, 4, 5, s),
                N(to) + 2 * p + 3 * N(v) + 4 * w + 5 * h)
F(hipMemset3DAsync, s, (HipPitched to, int v, HipExtent x, HipStream s),
                ((HipPitched){P(1), 2, 3, 4}, 5, (HipExtent){6, 7, 8}, s),
                N(to.ptr) + 2 * to.pitch + 3 * to.xsize + 4 * to.ysize + 5 * N(v) + 6 * x.width + 7 * x.height +
                                8 * x.depth)
F(hipMemset3DAsync_spt, s, (HipPitched to, int v, HipExtent x, HipStream s),
                ((HipPitched){P(1), 2, 3, 4}, 5, (HipExtent){6, 7, 8}, s),
                N(to.ptr) + 2 * to.pitch + 3 * to.xsize + 4 * to.ysize + 5 * N(v) + 6 * x.width + 7 * x.height +
                                8 * x.depth)

#undef SIX
#undef SIX_SUM
#undef DIM
#undef N
