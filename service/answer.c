/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Answers
 */

#include "answer.h"
#include "wakes.h"

/* A step: objects, and time beyond which no further one is begun. Edges wait for its end. */
#define STEP_OBJECTS 8U
#define STEP_NS      (30 * NSEC_PER_USEC)

static Answer *answer_free(Answer *a) {
        if (!a)
                return NULL;
        walk_end(&a->walk);
        if (a->file)
                (void) fclose(a->file);
        free(a->text);
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
        a->size += (size_t) r;
        return a->size > ANSWER_SIZE_MAX ? -EMSGSIZE : 0;
}

static int step(void *userdata) {
        Answer *a = userdata;
        uint64_t until = now_ns() + STEP_NS;
        int r;

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
                wakes_look(a->manager);
        }
        return 1;
}

static Answer *answer_new(Manager *m, sd_bus_message *message, const AnswerOps *ops) {
        Answer *a = malloc(sizeof(*a));

        if (!a)
                return NULL;
        *a = (Answer){.manager = m, .ops = ops, .message = sd_bus_message_ref(message)};
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

int answer_text(Manager *m, sd_bus_message *message, const AnswerOps *ops, const char *prefix) {
        _cleanup_(answer_freep)
        Answer *a = answer_new(m, message, ops);

        if (!a)
                return -ENOMEM;
        a->prefix = prefix;
        a->file = open_memstream(&a->text, &a->text_size);
        return a->file ? answer_go_on(TAKE_PTR(a)) : negative_errno();
}

int answer_send(Answer *a) {
        int r = sd_bus_message_close_container(a->reply);
        if (r >= 0)
                r = sd_bus_message_send(a->reply);
        return r < 0 ? r : 0;
}

int answer_finish_text(Answer *a) {
        FILE *f = TAKE_PTR(a->file);
        bool failed = ferror(f);

        return fclose(f) != 0 || failed ? -ENOMEM : 0;
}

/* Each of this takes as long as the text is. */
int answer_send_text(Answer *a) {
        int r = answer_finish_text(a);
        wakes_look(a->manager);
        if (r >= 0)
                r = sd_bus_message_new_method_return(a->message, &a->reply);
        if (r >= 0)
                r = sd_bus_message_append_basic(a->reply, SD_BUS_TYPE_STRING, a->text);
        wakes_look(a->manager);
        if (r >= 0)
                r = sd_bus_message_send(a->reply);
        return MIN(r, 0);
}
