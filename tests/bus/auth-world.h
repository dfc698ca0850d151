/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Auth world: a service with two protected methods and a property, its caller, and a polkit that answers as the test
 * says, on a bus of their own. All three are connections of this process, in one event loop.
 *
 * The caller's uid is what the test says: sd_bus_creds_get_euid() is wrapped by the linker. So is sd_bus_call_async(),
 * for the time that polkit is given.
 */

#include <systemd/sd-bus.h>
#include <systemd/sd-event.h>

#include "common/macro.h"
#include "service/base/auth.h"
#include "tests/lib/private-bus.h"
#include "tests/lib/unit.h"

#define SERVICE_NAME "org.xsched.test.Service"
#define POLKIT_NAME  "org.freedesktop.PolicyKit1"

#define ALICE 4001U
#define BOB   4002U

/* The uid of the caller. */
extern uid_t sender;

/* The user that the caller counts as; UID_NONE: as the caller's own uid. */
extern uid_t sender_user;

typedef enum Answer {
        ANSWER_YES,
        ANSWER_NO,
        ANSWER_CHALLENGE,
        ANSWER_ERROR,
        ANSWER_NONSENSE,
        ANSWER_LATER, /* kept in `waiting` */
} Answer;

typedef struct World {
        PrivateBus daemon;
        sd_event *event;
        sd_bus *service, *caller, *polkit;
        Auth *auth;

        /* the service */
        unsigned n_entered, n_done;
        int property;

        /* polkit */
        Answer answers[8]; /* to the 1st, 2nd... question */
        unsigned n_asked;
        char asked[1024]; /* "action verb target interactive;" of each */
        sd_bus_message *waiting[128];
        unsigned n_waiting;
        unsigned n_taken_back;
        uint64_t patience_usec; /* for how long the service waits for it */
        bool hurry;             /* that time is over at once */

        /* the caller */
        char outcome[1024]; /* "ok;" or the error's name of each call, as they come back */
        unsigned n_outcomes;
} World;

/* A test's, before and after it. */
int world_setup(void **state);
int world_teardown(void **state);

sd_bus_message *new_call(World *w, const char *interface, const char *member);
void send_off(World *w, sd_bus_message *m);
void call_try(World *w, AuthAction action, bool interactive);

/* Runs the loop until n calls have come back, n questions are with polkit without an answer, or n were taken back. */
void run_until(World *w, unsigned n);
void run_until_waiting(World *w, unsigned n);
void run_until_taken_back(World *w, unsigned n);

void start_polkit(World *w);

/* Ends polkit, while another one waits for its name. */
void restart_polkit(World *w);

int answer(sd_bus_message *m, Answer a);
