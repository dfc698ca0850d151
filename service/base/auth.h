/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Who may do what
 *
 * polkit decides, asked over the same bus without waiting: the first auth_check() of a call sends the question, returns
 * 0, and the call waits; when the answer is there the same message is dispatched again, everything starts from its top,
 * and auth_check() with the same request now tells the result. So what calls auth_check() changes nothing before: it is
 * a check of the gate (gate.h), which every call passes before it can change anything.
 *
 * What was allowed is a grant for one dispatch of one message. Who makes the change takes it, once: without one he
 * refuses.
 *
 * An answer holds for its message only and for the request that it was asked for, and is forgotten when that message is
 * done.
 *
 * Always allowed, without a question: root, and the user that the service runs as. Where polkit is not in use (a
 * private bus) or not there (no owner of its name, none can be started) the table of auth_decide() takes its place:
 * owners may do to their own things what only lowers, everybody may register, all else is denied.
 */

#include <stdbool.h>
#include <sys/types.h>
#include <systemd/sd-bus.h>

#include "common/macro.h"

typedef enum AuthAction {
        AUTH_REGISTER,   /* org.xsched.register: be a client */
        AUTH_MANAGE_OWN, /* org.xsched.manage-own: lower what is one's own; for others' things it becomes AUTH_MANAGE */
        AUTH_MANAGE,     /* org.xsched.manage: anything else that changes settings */
        AUTH_SUSPEND,    /* org.xsched.suspend: stop and let go */
        _AUTH_ACTION_MAX,
} AuthAction;

#define AUTH_NO_OWNER ((uid_t) -1)

typedef struct AuthRequest {
        AuthAction action;
        const char *verb;   /* what is done, for the dialog and for rules: "set", "suspend", "reload"; may be NULL */
        const char *target; /* to what: a group's name, a device's id; may be NULL */
        uid_t owner;        /* whose thing it is, for AUTH_MANAGE_OWN; AUTH_NO_OWNER (or 0) when it has no owner */
} AuthRequest;

typedef struct Auth Auth;

/* polkit: whether it may be asked at all. Yes on the system bus only: on a bus that somebody made for himself, the
 * owner of polkit's name is any process that took it. */
int auth_new(sd_bus *bus, bool polkit, Auth **ret);
Auth *auth_free(Auth *a); /* pending questions are dropped, their calls end without an answer; returns NULL */
DEFINE_TRIVIAL_CLEANUP_FUNC(Auth *, auth_free);

/* > 0: authorised. 0: asked. < 0: not authorised, *error is set (AccessDenied, InteractiveAuthorizationRequired,
 * LimitsExceeded, or what went wrong). */
int auth_check(Auth *a, sd_bus_message *m, const AuthRequest *req, sd_bus_error *error);

/* Calls that do not come by the bus (guests.h) wait for polkit, too: whose connection is to be processed, because one
 * of its calls goes on. */
void auth_on_resumed(Auth *a, void (*resumed)(sd_bus *bus, void *userdata), void *userdata);

/* A message is about to be dispatched: nothing of it is granted so far. */
void auth_begin(Auth *a, sd_bus_message *m);

/* Without a question, by who has found out that the caller may (his own process, his own queue). Returns 1, as
 * auth_check() would. */
int auth_grant(Auth *a, sd_bus_message *m);

bool auth_is_granted(const Auth *a, const sd_bus_message *m);

/* Before the change: 0, or AccessDenied where this message was granted nothing, or it has been taken already. */
int auth_take(Auth *a, sd_bus_message *m, sd_bus_error *error);

/* Whether a request that was granted was so because the thing is the caller's own: then it must give him nothing. */
bool auth_is_for_owner(const Auth *a, sd_bus_message *m, const AuthRequest *req);

/* Of what was granted last: to whom, and whether it took more than everybody has (root, or what polkit allows
 * administrators). */
typedef struct AuthGrant {
        uid_t uid;
        bool administrators;
} AuthGrant;

const AuthGrant *auth_last_grant(const Auth *a);

/* pid 0: the bus knows. */
typedef struct AuthProcess {
        pid_t pid;
        uint64_t start_time;
} AuthProcess;

/* The message waits for an answer of polkit, or has it and is dispatched again. */
bool auth_is_waiting(Auth *a, sd_bus_message *m);
