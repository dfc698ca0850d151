/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Answers
 */

#include <sys/mman.h>
#include <unistd.h>
#include <utlist.h>

#include "answer.h"
#include "service/core/turn.h"

/* A text piece has a mapping of its own, whose pages come and go with it. A shorter text is copied as a whole. */
#define PIECE_SIZE (256U << 10)
#define COPY_SIZE  (32U << 10)

/* Limits of one step: so many objects, and no further one after this time. Edges wait until the step ends. */
#define STEP_OBJECTS 8U
#define STEP_NS      (30 * NSEC_PER_USEC)

struct TextPiece {
        TextPiece *prev, *next;
        size_t n, n_copied;
        char bytes[];
};

#define PIECE_ROOM (PIECE_SIZE - offsetof(TextPiece, bytes))

/* --- texts --- */

static void text_drop(AnswerText *t) {
        TextPiece *piece = t->pieces;

        DL_DELETE(t->pieces, piece);
        (void) munmap(piece, PIECE_SIZE);
}

/* Returns the last piece if it has room, or a new one. */
static TextPiece *text_piece(AnswerText *t) {
        if (t->pieces && t->pieces->prev->n < PIECE_ROOM)
                return t->pieces->prev;
        TextPiece *piece = mmap(NULL, PIECE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (piece == MAP_FAILED)
                return NULL;
        DL_APPEND(t->pieces, piece);
        return piece;
}

static ssize_t text_write(void *cookie, const char *bytes, size_t n) {
        AnswerText *t = cookie;

        if (!utf8_check(&t->check, bytes, n)) {
                errno = EINVAL;
                return 0;
        }
        for (size_t done = 0; done < n;) {
                TextPiece *piece = text_piece(t);
                if (!piece)
                        return 0;
                size_t k = MIN(n - done, PIECE_ROOM - piece->n);
                memcpy(piece->bytes + piece->n, bytes + done, k);
                piece->n += k;
                done += k;
        }
        t->size += n;
        return (ssize_t) n;
}

static void text_done(AnswerText *t) {
        while (t->pieces)
                text_drop(t);
        safe_close(t->fd);
}

/* --- answers --- */

static Answer *answer_free(Answer *a) {
        if (!a)
                return NULL;
        walk_end(&a->walk);
        if (a->file)
                (void) fclose(a->file);
        text_done(&a->text);
        sd_bus_message_unref(a->reply);
        sd_bus_message_unref(a->message);
        free(a);
        return NULL;
}
DEFINE_TRIVIAL_CLEANUP_FUNC(Answer *, answer_free);

static void free_answer(void *userdata) {
        (void) answer_free(userdata);
}

static int answer_table(Answer *a) {
        WalkTable table = a->ops->tables[a->table];

        walk_end(&a->walk);
        walk_begin(&a->walk, a->manager, table);
        a->n = 0;
        a->begun = true;
        return a->ops->begin ? a->ops->begin(a, table) : 0;
}

static int answer_count(Answer *a, int r) {
        if (r < 0)
                return r;
        a->size = a->file ? a->text.size : a->size + (size_t) r;
        return a->size > ANSWER_SIZE_MAX ? -EMSGSIZE : 0;
}

static int send_memfd(Answer *a) {
        if (lseek(a->text.fd, 0, SEEK_SET) < 0)
                return negative_errno();
        int r = sd_bus_reply_method_return(a->message, "h", a->text.fd);
        return MIN(r, 0);
}

static int text_step(Answer *a) {
        AnswerText *t = &a->text;
        TextPiece *piece = t->pieces;
        const char *bytes = piece->bytes + piece->n_copied;
        size_t size = MIN(piece->n - piece->n_copied, COPY_SIZE);

        if (t->as_memfd) {
                ssize_t n = write(t->fd, bytes, size);
                if (n < 0)
                        return negative_errno();
                size = (size_t) n;
        } else
                memcpy(t->space + t->n, bytes, size);
        t->n += size;
        piece->n_copied += size;
        if (piece->n_copied == piece->n)
                text_drop(t);
        if (t->pieces)
                return 1;
        if (t->as_memfd)
                return send_memfd(a);
        call_sends(a->manager, t->size);
        int r = sd_bus_message_send(a->reply);
        return MIN(r, 0);
}

static int step(void *userdata) {
        Answer *a = userdata;
        uint64_t until = now_ns() + STEP_NS;
        int r;

        if (a->text.ended)
                return text_step(a);
        if (!a->begun) {
                if (a->table == a->ops->n_tables)
                        return a->ops->end(a);
                r = answer_count(a, answer_table(a));
                if (r < 0)
                        return r;
        }
        for (unsigned i = 0; i < STEP_OBJECTS && (i == 0 || now_ns() < until); i++) {
                void *object = walk_next(&a->walk);
                if (!object) {
                        a->table++;
                        a->begun = false;
                        return 1;
                }
                r = answer_count(a, a->ops->object(a, a->walk.table, object));
                if (r < 0)
                        return r;
                a->n++;
                turn_look(a->manager);
        }
        return 1;
}

static Answer *answer_new(Manager *m, sd_bus_message *message, const AnswerOps *ops) {
        Answer *a = malloc(sizeof(*a));

        if (!a)
                return NULL;
        *a = (Answer){
                        .manager = m,
                        .ops = ops,
                        .message = sd_bus_message_ref(message),
                        .text.fd = -EBADF,
        };
        return a;
}

static int answer_go_on(Answer *a) {
        const CallWork work = {step, free_answer, a};

        return call_go_on(a->manager, a->message, &work);
}

int answer_list(Manager *m, sd_bus_message *message, const AnswerOps *ops, const char *contents) {
        _cleanup_(answer_freep)
        Answer *a = answer_new(m, message, ops);

        if (!a)
                return -ENOMEM;
        int r = sd_bus_message_new_method_return(message, &a->reply);
        if (r >= 0)
                r = sd_bus_message_open_container(a->reply, SD_BUS_TYPE_ARRAY, contents);
        return r < 0 ? r : answer_go_on(TAKE_PTR(a));
}

static int text_new(Manager *m, sd_bus_message *message, const AnswerOps *ops, Answer **ret) {
        static const cookie_io_functions_t functions = {.write = text_write};
        _cleanup_(answer_freep)
        Answer *a = answer_new(m, message, ops);

        if (!a)
                return -ENOMEM;
        a->file = fopencookie(&a->text, "w", functions);
        if (!a->file)
                return negative_errno();
        *ret = TAKE_PTR(a);
        return 0;
}

int answer_text(Manager *m, sd_bus_message *message, const AnswerOps *ops, const char *prefix) {
        Answer *a;

        int r = text_new(m, message, ops, &a);
        if (r < 0)
                return r;
        a->prefix = prefix;
        return answer_go_on(a);
}

int answer_memfd(Manager *m, sd_bus_message *message, const AnswerOps *ops) {
        Answer *a;

        int r = text_new(m, message, ops, &a);
        if (r < 0)
                return r;
        a->text.as_memfd = true;
        return answer_go_on(a);
}

int answer_send(Answer *a) {
        call_sends(a->manager, a->size);
        int r = sd_bus_message_close_container(a->reply);
        if (r >= 0)
                r = sd_bus_message_send(a->reply);
        return r < 0 ? r : 0;
}

static int text_end(Answer *a) {
        FILE *f = TAKE_PTR(a->file);
        bool failed = ferror(f);

        if (fclose(f) != 0 || failed)
                return utf8_check_is_failed(&a->text.check) ? -EINVAL : -ENOMEM;
        a->text.ended = true;
        return utf8_check_is_complete(&a->text.check) && a->text.size > 0 ? 0 : -EINVAL;
}

int answer_send_text(Answer *a) {
        AnswerText *t = &a->text;

        int r = text_end(a);
        if (r < 0)
                return r;
        if (t->as_memfd) {
                t->fd = memfd_create("xsched-dump", MFD_CLOEXEC);
                return t->fd < 0 ? negative_errno() : 1;
        }
        r = sd_bus_message_new_method_return(a->message, &a->reply);
        if (r >= 0)
                r = sd_bus_message_append_string_space(a->reply, t->size, &t->space);
        return r < 0 ? r : 1;
}
