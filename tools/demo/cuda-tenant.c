/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * xsched-demo-cuda: a tenant of a CUDA device by the driver's own interface, without a toolkit
 *
 * xsched-demo-cuda steps SIZE        a tensor, a product of matrices, a convolution and a small model, one after the
 *                                    other; a line of JSON for each
 * xsched-demo-cuda small SIZE        the model each PERIOD_NS, until standard input ends
 * xsched-demo-cuda large SIZE STEPS  so many products of matrices, each of the one before
 *
 * The last two say that they are ready, and begin when they have read a line. Matrices are SIZE x SIZE. Each result is
 * compared with what the CPU computes, all of it where that is quick, else at some places, and its digest is printed.
 * It knows nothing of xsched, but that it says what the layer has seen of its launches, where the layer is loaded.
 */

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <time.h>

#include "common/time-util.h"
#include "tools/demo/cuda-driver.h"
#include "tools/demo/json-writer.h"

#define PERIOD_NS    (25 * NSEC_PER_MSEC)
#define LAYERS       4U
#define SMALL        128U /* results up to this size are compared as a whole */
#define PLACES       64U  /* number of places at which larger results are compared */
#define PICTURES_MAX 65536U

/* --- the same on the CPU --- */

static uint32_t *numbers(size_t n, uint32_t seed) {
        uint32_t *x = calloc(n, sizeof(uint32_t));

        if (!x)
                cuda_die("out of memory");
        for (size_t i = 0; i < n; i++)
                x[i] = seed = seed * 1664525 + 1013904223;
        return x;
}

static uint32_t matmul_at(const uint32_t *a, const uint32_t *b, unsigned n, unsigned i) {
        uint32_t sum = 0;

        for (unsigned k = 0; k < n; k++)
                sum += a[i / n * n + k] * b[k * n + i % n];
        return sum;
}

static uint32_t convolve_at(const uint32_t *in, const uint32_t *w, unsigned n, unsigned i) {
        uint32_t sum = 0;

        for (unsigned y = 0; y < 3; y++)
                for (unsigned x = 0; x < 3; x++) {
                        unsigned r = i / n + y - 1, c = i % n + x - 1;
                        if (r < n && c < n)
                                sum += in[r * n + c] * w[3 * y + x];
                }
        return sum;
}

static uint64_t digest(const uint32_t *x, size_t n) {
        uint64_t h = UINT64_C(0xcbf29ce484222325);

        for (size_t i = 0; i < n; i++)
                h = (h ^ x[i]) * UINT64_C(0x100000001b3);
        return h;
}

/* --- what is computed --- */

typedef struct Model {
        unsigned n;
        uint32_t *in, *weights, *matrix; /* the CPU's */
        uint32_t *out;
        CudaMemory m_in, m_weights[LAYERS], m_matrix, m_a, m_b;
} Model;

static Model model_new(unsigned n) {
        size_t all = (size_t) n * n;
        Model m = {.n = n,
                        .in = numbers(all, 1),
                        .weights = numbers(9 * (size_t) LAYERS, 2),
                        .matrix = numbers(all, 3)};

        m.out = numbers(all, 0);
        m.m_in = cuda_put(m.in, all);
        m.m_matrix = cuda_put(m.matrix, all);
        m.m_a = cuda_put(NULL, all);
        m.m_b = cuda_put(NULL, all);
        for (unsigned i = 0; i < LAYERS; i++)
                m.m_weights[i] = cuda_put(m.weights + 9 * (size_t) i, 9);
        return m;
}

static void model_free(Model *m) {
        CUDA_CHECK(cuda.wait(cuda_stream));
        for (unsigned i = 0; i < LAYERS; i++)
                CUDA_CHECK(cuda.free(m->m_weights[i]));
        CUDA_CHECK(cuda.free(m->m_in));
        CUDA_CHECK(cuda.free(m->m_matrix));
        CUDA_CHECK(cuda.free(m->m_a));
        CUDA_CHECK(cuda.free(m->m_b));
        free(m->in);
        free(m->weights);
        free(m->matrix);
        free(m->out);
}

static void model_run(Model *m) {
        CudaMemory from = m->m_in, to = m->m_a, other = m->m_b;
        unsigned all = m->n * m->n;

        for (unsigned i = 0; i < LAYERS; i++) {
                cuda_convolve(to, from, m->m_weights[i], m->n);
                cuda_clip(to, all);
                from = to;
                to = other;
                other = from;
        }
        cuda_matmul(to, from, m->m_matrix, m->n);
        cuda_scale(to, all, 5, 7);
        cuda_get(m->out, to, all);
}

static bool model_is_right(const Model *m) {
        size_t all = (size_t) m->n * m->n;
        uint32_t *a = numbers(all, 0), *b = numbers(all, 0);
        bool right = true;

        memcpy(a, m->in, all * sizeof(*a));
        for (unsigned l = 0; l < LAYERS; l++) {
                for (unsigned i = 0; i < all; i++)
                        b[i] = convolve_at(a, m->weights + 9 * (size_t) l, m->n, i);
                for (unsigned i = 0; i < all; i++)
                        a[i] = b[i] >> 31 ? 0 : b[i];
        }
        unsigned step = m->n <= SMALL ? 1 : (unsigned) (all / PLACES);
        for (unsigned i = 0; i < all; i += step)
                right &= m->out[i] == 5 * matmul_at(a, m->matrix, m->n, i) + 7;
        free(a);
        free(b);
        return right;
}

/* --- what is said --- */

static void say(JsonWriter *w, json_object *line) {
        if (json_writer_end(w, line, stdout) < 0 || fflush(stdout) != 0)
                cuda_die("cannot say what was found");
}

static void add_digest(JsonWriter *w, json_object *line, uint64_t d) {
        char text[17];

        (void) snprintf(text, sizeof(text), "%016" PRIx64, d);
        json_writer_add_string(w, line, "digest", text);
}

static void say_with_launches(JsonWriter *w, json_object *line) {
        json_writer_add_uint(w, line, "launches", cuda_n_launches);
        json_writer_add_int(w, line, "seen", cuda_n_seen());
        say(w, line);
}

static void say_step(const char *name, const uint32_t *x, size_t n, bool right) {
        json_object *line = json_object_new_object();
        JsonWriter w = {0};

        if (!right)
                cuda_die("%s: the result is wrong", name);
        json_writer_add_string(&w, line, "step", name);
        add_digest(&w, line, digest(x, n));
        say_with_launches(&w, line);
}

static void wait_for_word(void) {
        json_object *ready = json_object_new_object();
        JsonWriter w = {0};
        char line[16];

        json_writer_add_string(&w, ready, "device", cuda_device_name);
        say(&w, ready);
        if (!fgets(line, sizeof(line), stdin))
                exit(EXIT_FAILURE);
}

/* --- what it is started for --- */

static void step_tensor(unsigned n) {
        size_t all = (size_t) n * n;
        uint32_t *x = numbers(all, 4), *out = numbers(all, 0);
        CudaMemory m = cuda_put(x, all);
        bool right = true;

        cuda_scale(m, (unsigned) all, 3, 1);
        cuda_scale(m, (unsigned) all, 5, 2);
        cuda_get(out, m, all);
        for (size_t i = 0; i < all; i++)
                right &= out[i] == 5 * (3 * x[i] + 1) + 2;
        say_step("tensor", out, all, right);
        CUDA_CHECK(cuda.free(m));
        free(x);
        free(out);
}

static void step_product(const char *name, unsigned n, bool convolves) {
        size_t all = (size_t) n * n;
        uint32_t *a = numbers(all, 5), *b = numbers(all, 6), *out = numbers(all, 0);
        CudaMemory ma = cuda_put(a, all), mb = cuda_put(b, all), mc = cuda_put(NULL, all);
        unsigned step = n <= SMALL ? 1 : (unsigned) (all / PLACES);
        bool right = true;

        (convolves ? cuda_convolve : cuda_matmul)(mc, ma, mb, n);
        cuda_get(out, mc, all);
        for (unsigned i = 0; i < all; i += step)
                right &= out[i] == (convolves ? convolve_at : matmul_at)(a, b, n, i);
        say_step(name, out, all, right);
        CUDA_CHECK(cuda.free(ma));
        CUDA_CHECK(cuda.free(mb));
        CUDA_CHECK(cuda.free(mc));
        free(a);
        free(b);
        free(out);
}

static void steps(unsigned n) {
        step_tensor(n);
        step_product("matmul", n, false);
        step_product("convolution", n, true);
        Model m = model_new(n);
        model_run(&m);
        say_step("model", m.out, (size_t) n * n, model_is_right(&m));
        model_free(&m);
}

static bool input_has_ended(void) {
        struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};

        return poll(&p, 1, 0) != 0;
}

static void small(unsigned n) {
        Model m = model_new(n);
        static double ms[PICTURES_MAX];
        unsigned pictures = 0;

        model_run(&m);
        if (!model_is_right(&m))
                cuda_die("the model's result is wrong");
        uint64_t first = digest(m.out, (size_t) n * n);
        wait_for_word();
        for (uint64_t due = now_ns(); pictures < PICTURES_MAX && !input_has_ended(); pictures++) {
                struct timespec ts = ns_to_timespec(due);
                while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
                        ;
                uint64_t began = now_ns();
                model_run(&m);
                ms[pictures] = (double) (now_ns() - began) / 1e6;
                if (digest(m.out, (size_t) n * n) != first)
                        cuda_die("picture %u: the model's result is wrong", pictures);
                due = MAX(due + PERIOD_NS, now_ns());
        }
        json_object *line = json_object_new_object();
        JsonWriter w = {0};
        add_digest(&w, line, first);
        json_object *each = json_writer_add(&w, line, "ms", json_object_new_array());
        for (unsigned i = 0; i < pictures; i++)
                json_writer_add_double(&w, each, NULL, ms[i], 3);
        say_with_launches(&w, line);
        model_free(&m);
}

static void large(unsigned n, unsigned n_steps) {
        size_t all = (size_t) n * n;
        uint32_t *a = numbers(all, 7), *b = numbers(all, 8), *out = numbers(all, 0);
        CudaMemory from = cuda_put(a, all), by = cuda_put(b, all), to = cuda_put(NULL, all);
        bool right = true;

        cuda_matmul(to, from, by, n);
        cuda_get(out, to, all);
        for (unsigned i = 0; i < all; i += (unsigned) MAX(all / PLACES, (size_t) 1))
                right &= out[i] == matmul_at(a, b, n, i);
        if (!right)
                cuda_die("the product is wrong");
        wait_for_word();
        uint64_t began = now_ns();
        for (unsigned i = 0; i < n_steps; i++) {
                cuda_matmul(to, from, by, n);
                CudaMemory was = from;
                from = to;
                to = was;
                if (i % 4 == 3)
                        CUDA_CHECK(cuda.wait(cuda_stream));
        }
        cuda_get(out, from, all);
        uint64_t took = now_ns() - began;
        json_object *line = json_object_new_object();
        JsonWriter w = {0};
        add_digest(&w, line, digest(out, all));
        json_writer_add_double(&w, line, "seconds", (double) took / 1e9, 3);
        json_writer_add_uint(&w, line, "steps", n_steps);
        say_with_launches(&w, line);
        free(a);
        free(b);
        free(out);
}

int main(int argc, char *argv[]) {
        unsigned n = argc > 2 ? (unsigned) strtoul(argv[2], NULL, 10) : 0;

        if (n < 4 || n > 8192)
                cuda_die("usage: steps|small SIZE, or large SIZE STEPS");
        cuda_open();
        if (streq(argv[1], "steps"))
                steps(n);
        else if (streq(argv[1], "small"))
                small(n);
        else if (streq(argv[1], "large") && argc > 3)
                large(n, (unsigned) strtoul(argv[3], NULL, 10));
        else
                cuda_die("there is no %s", argv[1]);
        return EXIT_SUCCESS;
}
