/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * SDMA: the copies of a runtime
 *
 * A ring of packets of differing length, of which both indices and the doorbell count bytes. The packets that ROCr
 * builds for copies are known: wait for a word of memory, take the time, flush, copy bytes or a rectangle, add to the
 * signal or write it, raise the event. A copy takes no simulated time, and has its turn as kernels have. Any other
 * packet stops the queue, as nonsense stops one of the hardware.
 *
 * Everything here reads and writes memory of the process that the queue belongs to, so only its own engine may call it.
 */

#include <stdio.h>

#include "sim.h"

enum {
        OP_NOP = 0,
        OP_COPY = 1,
        OP_FENCE = 5,
        OP_TRAP = 6,
        OP_POLL = 8,
        OP_ATOMIC = 10,
        OP_TIMESTAMP = 13,
        OP_CACHE = 17, /* gfx10 and newer */
};

#define SUB_COPY_LINEAR 0U
#define SUB_COPY_RECT   4U
#define ATOMIC_ADD64    47U
#define POLL_EQUAL      3U
#define POLL_MEMORY     (1U << 31)
#define COPY_COUNT      0x3fffffU
#define COPY_COUNT_LONG 0x3fffffffU
#define TRAP_CONTEXT    0xfffffffU
#define WORDS_MAX       13U

typedef struct Packet {
        uint32_t words[WORDS_MAX];
        uint32_t n; /* 0: not known */
} Packet;

static uint32_t sub_op(uint32_t header) {
        return header >> 8 & 0xff;
}

static uint32_t copy_words(uint32_t header) {
        if (sub_op(header) == SUB_COPY_RECT)
                return 13;
        return sub_op(header) == SUB_COPY_LINEAR ? 7 : 0;
}

static uint32_t packet_words(uint32_t header) {
        switch (header & 0xff) {
        case OP_NOP:
                return 1;
        case OP_COPY:
                return copy_words(header);
        case OP_FENCE:
                return 4;
        case OP_TRAP:
                return 2;
        case OP_POLL:
                return 6;
        case OP_ATOMIC:
                return header >> 25 == ATOMIC_ADD64 ? 8 : 0;
        case OP_TIMESTAMP:
                return 3;
        case OP_CACHE:
                return 5;
        default:
                return 0;
        }
}

static uint64_t read_bytes(const SimQueue *q) {
        return __atomic_load_n((uint64_t *) (uintptr_t) q->read_pointer, __ATOMIC_ACQUIRE);
}

static Packet packet_read(const SimQueue *q) {
        const uint32_t *ring = (void *) (uintptr_t) q->ring;
        uint64_t n_words = q->ring_size / sizeof(uint32_t), first = read_bytes(q) / sizeof(uint32_t);
        Packet p = {.n = packet_words(__atomic_load_n(ring + first % n_words, __ATOMIC_ACQUIRE))};

        for (uint32_t i = 0; i < p.n; i++)
                p.words[i] = ring[(first + i) % n_words];
        return p;
}

static uint64_t number(const Packet *p, uint32_t word) {
        return p->words[word] | (uint64_t) p->words[word + 1] << 32;
}

static void *address(const Packet *p, uint32_t word) {
        return sim_memory_find(number(p, word));
}

/* Prints once why the queue has stopped, because programs may wait for it in vain. */
static void complain(uint32_t header) {
        static _Atomic bool said;

        if (!atomic_exchange(&said, true))
                (void) fprintf(stderr, "kfdsim: an SDMA queue stands at a packet that is not modelled: %#x\n", header);
}

bool sim_sdma_is_ready(const SimQueue *q) {
        if (q->ring_size < sizeof(uint32_t) || read_bytes(q) >= atomic_load(&q->rung))
                return false;
        Packet p = packet_read(q);
        if (p.n == 0) {
                complain(*((uint32_t *) (uintptr_t) q->ring + read_bytes(q) % q->ring_size / sizeof(uint32_t)));
                return false;
        }
        /* A poll of a register is a flush. */
        if ((p.words[0] & 0xff) != OP_POLL || !(p.words[0] & POLL_MEMORY))
                return true;
        uint32_t value = __atomic_load_n((uint32_t *) address(&p, 1), __ATOMIC_ACQUIRE) & p.words[4];
        return (p.words[0] >> 28 & 7) != POLL_EQUAL || value == p.words[3];
}

/* Returns the size of a copy, which the packet has less 1. The number of bits in the field depends on the ISA, as in
 * ROCr. */
static size_t copy_size(const Packet *p, const SimGpu *g) {
        uint32_t v = g->gfx_target_version;
        bool is_long = v >= 100300 || (v >= 90010 && v < 100000);

        return (size_t) (p->words[1] & (is_long ? COPY_COUNT_LONG : COPY_COUNT)) + 1;
}

/* The widths of a rectangle's fields, which gfx12 has changed. */
typedef struct RectBits {
        unsigned x; /* of y, too */
        unsigned z;
        unsigned pitch_shift; /* the rest of its word is the pitch */
        unsigned slice;
} RectBits;

static const RectBits *rect_bits(const SimGpu *g) {
        static const RectBits old = {.x = 14, .z = 11, .pitch_shift = 13, .slice = 28},
                              gfx12 = {.x = 16, .z = 14, .pitch_shift = 16, .slice = 32};

        return g->gfx_target_version >= 120000 ? &gfx12 : &old;
}

static uint64_t field(uint32_t word, unsigned shift, unsigned width) {
        return (uint64_t) word >> shift & ((UINT64_C(1) << width) - 1);
}

typedef struct Side {
        uint8_t *base;
        uint64_t pitch, slice; /* bytes */
} Side;

/* From the word of its address on. Sizes and offsets are counted in elements, sizes from 0. */
static Side side_read(const Packet *p, uint32_t word, const RectBits *b, unsigned element) {
        const uint32_t *w = p->words + word;
        Side s = {
                        .base = address(p, word),
                        .pitch = (field(w[3], b->pitch_shift, 32 - b->pitch_shift) + 1) << element,
                        .slice = (field(w[4], 0, b->slice) + 1) << element,
        };

        s.base += (field(w[2], 0, b->x) << element) + field(w[2], 16, b->x) * s.pitch + field(w[3], 0, b->z) * s.slice;
        return s;
}

static void copy_rect(const Packet *p, const SimGpu *g) {
        const RectBits *b = rect_bits(g);
        unsigned element = p->words[0] >> 29;
        Side from = side_read(p, 1, b, element), to = side_read(p, 6, b, element);
        uint64_t width = (field(p->words[11], 0, b->x) + 1) << element, height = field(p->words[11], 16, b->x) + 1,
                 depth = field(p->words[12], 0, b->z) + 1;

        for (uint64_t z = 0; z < depth; z++)
                for (uint64_t y = 0; y < height; y++)
                        memmove(to.base + z * to.slice + y * to.pitch, from.base + z * from.slice + y * from.pitch,
                                        width);
}

static void packet_execute(const Packet *p, const SimGpu *g) {
        switch (p->words[0] & 0xff) {
        case OP_COPY:
                if (sub_op(p->words[0]) == SUB_COPY_RECT)
                        copy_rect(p, g);
                else
                        memmove(address(p, 5), address(p, 3), copy_size(p, g));
                break;
        case OP_FENCE:
                __atomic_store_n((uint32_t *) address(p, 1), p->words[3], __ATOMIC_RELEASE);
                break;
        case OP_TRAP:
                sim_event_raise(p->words[1] & TRAP_CONTEXT);
                break;
        case OP_ATOMIC:
                __atomic_fetch_add((uint64_t *) address(p, 1), number(p, 3), __ATOMIC_ACQ_REL);
                break;
        case OP_TIMESTAMP:
                __atomic_store_n((uint64_t *) address(p, 1), sim_gpu_clock(now_ns()), __ATOMIC_RELEASE);
                break;
        default:
                break; /* nothing that would show in memory */
        }
}

/* Advances the index first: a thread that sees the effect of the packet finds the index up to date. */
void sim_sdma_retire(SimQueue *q) {
        Packet p = packet_read(q);

        __atomic_fetch_add((uint64_t *) (uintptr_t) q->read_pointer, p.n * sizeof(uint32_t), __ATOMIC_ACQ_REL);
        packet_execute(&p, sim_world()->gpus + q->gpu);
}
