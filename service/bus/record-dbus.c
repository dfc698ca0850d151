/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The record on the bus
 *
 * The answer holds the frames that there were when it was begun, and names each group once: frames say which by its
 * place among the names.
 */

#include "record-dbus.h"
#include "calls.h"
#include "manager-dbus.h"
#include "service/core/recorder.h"

#define STEP_NS (30 * NSEC_PER_USEC)

typedef struct AnswerName {
        const RecordName *name;
        uint32_t place;
        UT_hash_handle hh;
} AnswerName;

typedef struct RecordAnswer {
        Recorder *recorder;
        sd_bus_message *message, *reply;
        uint64_t since_us;
        bool begun;
        RecordFrame **frames;
        size_t n_frames, i;
        AnswerName *names; /* uthash, in the order of their places */
} RecordAnswer;

static void record_answer_free(void *userdata) {
        RecordAnswer *a = userdata;
        AnswerName *n, *tmp;

        HASH_ITER(hh, a->names, n, tmp) {
                HASH_DEL(a->names, n);
                free(n);
        }
        for (size_t i = 0; i < a->n_frames; i++)
                record_unref(a->recorder->record, a->frames[i]);
        free(a->frames);
        sd_bus_message_unref(a->reply);
        sd_bus_message_unref(a->message);
        free(a);
}

/* The name of "the others" has place 0. */
static int name_place(RecordAnswer *a, const RecordName *name, uint32_t *ret) {
        AnswerName *n = NULL;

        if (name)
                HASH_FIND_PTR(a->names, &name, n);
        if (name && !n) {
                n = malloc(sizeof(*n));
                if (!n)
                        return -ENOMEM;
                *n = (AnswerName){.name = name, .place = HASH_COUNT(a->names) + 1};
                HASH_ADD_PTR(a->names, name, n);
        }
        *ret = n ? n->place : 0;
        return 0;
}

static int append_group(RecordAnswer *a, const RecordGroup *g) {
        uint32_t place;

        int r = name_place(a, g->name, &place);
        if (r < 0)
                return r;
        return sd_bus_message_append(a->reply, "(uttttt)", place, g->us[RECORD_RUN], g->us[RECORD_KEPT],
                        g->us[RECORD_WAIT], g->us[RECORD_DRAIN], g->us[RECORD_SERVICE]);
}

static int append_device(RecordAnswer *a, const RecordFrame *f, const RecordDevice *d) {
        int r = sd_bus_message_open_container(a->reply, 'r', "sttta(uttttt)");
        if (r >= 0)
                r = sd_bus_message_append(a->reply, "sttt", d->name->text, d->us[RECORD_BUSY],
                                d->us[RECORD_DEVICE_KEPT], d->us[RECORD_IDLE]);
        if (r >= 0)
                r = sd_bus_message_open_container(a->reply, 'a', "(uttttt)");
        for (unsigned i = 0; r >= 0 && i < d->n; i++)
                r = append_group(a, f->groups + d->first + i);
        if (r >= 0)
                r = sd_bus_message_close_container(a->reply);
        return r < 0 ? r : sd_bus_message_close_container(a->reply);
}

static int append_frame(RecordAnswer *a, const RecordFrame *f) {
        int r = sd_bus_message_open_container(a->reply, 'r', "tta(sttta(uttttt))");
        if (r >= 0)
                r = sd_bus_message_append(a->reply, "tt", f->begin_us, f->end_us);
        if (r >= 0)
                r = sd_bus_message_open_container(a->reply, 'a', "(sttta(uttttt))");
        for (unsigned i = 0; r >= 0 && i < f->n_devices; i++)
                r = append_device(a, f, f->devices + i);
        if (r >= 0)
                r = sd_bus_message_close_container(a->reply);
        return r < 0 ? r : sd_bus_message_close_container(a->reply);
}

static int begin(RecordAnswer *a) {
        int r = record_get(a->recorder->record, a->since_us, &a->frames, &a->n_frames);
        if (r >= 0)
                r = sd_bus_message_new_method_return(a->message, &a->reply);
        if (r >= 0)
                r = sd_bus_message_append(a->reply, "t", record_begin_us(a->recorder->record));
        if (r >= 0)
                r = sd_bus_message_open_container(a->reply, 'a', "(tta(sttta(uttttt)))");
        a->begun = true;
        return r;
}

static int end(RecordAnswer *a) {
        int r = sd_bus_message_close_container(a->reply);
        if (r >= 0)
                r = sd_bus_message_open_container(a->reply, 'a', "s");
        if (r >= 0)
                r = sd_bus_message_append(a->reply, "s", "");
        for (const AnswerName *n = a->names; r >= 0 && n; n = n->hh.next)
                r = sd_bus_message_append(a->reply, "s", n->name->text);
        if (r >= 0)
                r = sd_bus_message_close_container(a->reply);
        if (r >= 0)
                r = sd_bus_message_send(a->reply);
        return r < 0 ? r : 0;
}

static int step(void *userdata) {
        uint64_t until = now_ns() + STEP_NS;
        RecordAnswer *a = userdata;
        int r = 0;

        if (!a->begun && recorder_step(a->recorder) > 0)
                return 1;
        if (!a->begun)
                r = begin(a);
        for (; r >= 0 && a->i < a->n_frames && now_ns() < until; a->i++)
                r = append_frame(a, a->frames[a->i]);
        if (r < 0)
                return r;
        return a->i < a->n_frames ? 1 : end(a);
}

int method_get_record(sd_bus_message *message, void *userdata, sd_bus_error *error) {
        Manager *m = userdata;
        uint64_t since_us, flags;

        int r = sd_bus_message_read(message, "tt", &since_us, &flags);
        if (r >= 0)
                r = bus_check_flags(flags, error);
        if (r < 0)
                return r;
        RecordAnswer *a = malloc(sizeof(*a));
        if (!a)
                return -ENOMEM;
        *a = (RecordAnswer){
                        .recorder = m->recorder,
                        .message = sd_bus_message_ref(message),
                        .since_us = since_us,
        };
        return call_go_on(m, message, &(CallWork){step, record_answer_free, a});
}
