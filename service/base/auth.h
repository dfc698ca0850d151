/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Authorisation: may a caller do what it asks for?
 *
 * polkit decides. It is asked over the same bus, without waiting: the first auth_check() of a call sends the question
 * and returns 0, and the call waits. When the answer arrives the same message is dispatched again, its handler starts
 * from the top, and auth_check() with the same request returns the result. So auth_check() is called before anything is
 * changed: by a check of the gate (gate.h), which every call passes first.
 *
 * A permission is a grant for one dispatch of one message. The handler that makes the change takes the grant, once, and
 * refuses without one.
 *
 * An answer is valid for its message and its request only, and is forgotten when that message is done.
 *
 * Root and the user that the service runs as are always allowed, without a question. Where polkit is not used (a
 * private bus) or not available (its name has no owner, and none can be started), the table of auth_decide() takes its
 * place: owners may lower their own things, everybody may register, all else is denied.
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

typedef struct AuthRequest {
        AuthAction action;
        const char *verb;   /* what is done, for the dialog and for rules: "set", "suspend", "reload"; may be NULL */
        const char *target; /* to what: a group's name, a device's id; may be NULL */
        uid_t owner;        /* of the target, for AUTH_MANAGE_OWN; UID_NONE (or 0): it has none */
} AuthRequest;

typedef struct Auth Auth;

/* `polkit`: whether it may be asked. On the system bus only: on a private bus any process can own polkit's name. */
int auth_new(sd_bus *bus, bool polkit, Auth **ret);
Auth *auth_free(Auth *a); /* pending questions are dropped, their calls end without an answer; returns NULL */
DEFINE_TRIVIAL_CLEANUP_FUNC(Auth *, auth_free);

/* > 0: authorised. 0: asked. < 0: not authorised, *error is set (AccessDenied, InteractiveAuthorizationRequired,
 * LimitsExceeded, or what went wrong). */
int auth_check(Auth *a, sd_bus_message *m, const AuthRequest *req, sd_bus_error *error);

/* Calls that do not come over the bus (guests.h) wait for polkit, too. `resumed` is called with the connection that is
 * to be processed, because one of its calls goes on. */
void auth_on_resumed(Auth *a, void (*resumed)(sd_bus *bus, void *userdata), void *userdata);

/* A message is about to be dispatched: nothing of it is granted so far. */
void auth_begin(Auth *a, sd_bus_message *m);

/* Grants the message without a question, where a check has found that the caller may (its own process, its own queue).
 * Returns 1, as auth_check() would. */
int auth_grant(Auth *a, sd_bus_message *m);

bool auth_is_granted(const Auth *a, const sd_bus_message *m);

/* Before the change: 0, or AccessDenied where this message was granted nothing, or it has been taken already. */
int auth_take(Auth *a, sd_bus_message *m, sd_bus_error *error);

/* Whether the request was granted because the target is the caller's own: then the change may only lower. */
bool auth_is_for_owner(const Auth *a, sd_bus_message *m, const AuthRequest *req);

/* The last grant: to which uid, and whether it needed the rights of an administrator (root, or polkit's). */
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
