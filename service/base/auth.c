/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Authorisation: asking polkit
 *
 * A Query is one message that waits for answers, or has them; its checks are the questions that its handler has asked
 * so far. Invariant: from the first question to the end of the last dispatch, the query holds a reference on the
 * message, so no other message has the pointer by which it is found. When an answer arrives the message goes back into
 * the bus's read queue. The query is freed by a deferred event: it runs right after the dispatch in which the handler
 * has taken the answer, and else (the handler found something else wrong, and did not come as far) when the loop has
 * nothing better to do; never while a new question of the same call is open.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <systemd/sd-event.h>
#include <uthash.h>

#include "askers.h"
#include "auth-sender.h"
#include "auth-table.h"
#include "auth.h"
#include "common/bus-names.h"
#include "common/time-util.h"
#include "log.h"

/* With a dialog, a person has two minutes to answer it. Without one, polkit has longer than 15 s: so long may a script
 * of its rules run, and polkit answers no caller meanwhile. polkit 122 now and then waits for these 15 s although the
 * script has long ended. Most callers wait 25 s. */
#define TIMEOUT_INTERACTIVE_USEC (120 * UINT64_C(1000000))
#define TIMEOUT_USEC             (20 * UINT64_C(1000000))

/* A call that waits for polkit costs memory, and any user can make such calls. */
#define QUERIES_MAX          1024U
#define QUERIES_PER_USER_MAX 64U
#define CHECKS_MAX           4U

typedef enum CheckState {
        CHECK_PENDING,
        CHECK_GRANTED,
        CHECK_DENIED,
} CheckState;

typedef struct Check {
        struct Query *query;
        AuthAction action;
        char *verb, *target;
        uid_t owner;
        CheckState state;
        bool interactive, again;
        uint64_t asked_as; /* polkit's name of the question; 0: it is to be asked */
        uint64_t asked_at_ns;
        uint64_t until_ns;  /* for how long the answer is waited for */
        sd_bus_error error; /* of a denial */
        sd_bus_slot *slot;
} Check;

typedef struct Query {
        Auth *auth;
        sd_bus_message *message; /* key */
        uid_t sender, user;      /* `user` is the one whose quota counts */
        AuthProcess process;
        Check checks[CHECKS_MAX];
        size_t n_checks;
        sd_event_source *done;
        UT_hash_handle hh;
} Query;

struct Auth {
        sd_bus *bus;
        bool polkit;
        uid_t service;
        Query *queries;
        uint64_t n_asked;              /* ever */
        Askers *askers;                /* users' questions that wait for their turn, and for how long */
        sd_event_source *turn;         /* fires when the first of them has its turn, if only time is missing */
        const sd_bus_message *granted; /* is being dispatched, and may change something; only compared */
        AuthGrant grant;
        void (*resumed)(sd_bus *bus, void *userdata); /* auth_on_resumed() */
        void *resumed_userdata;
};

static int deny(const AuthRequest *req, sd_bus_error *error) {
        return sd_bus_error_setf(error, SD_BUS_ERROR_ACCESS_DENIED, "Not authorised: %s needs %s", req->verb ?: "this",
                        auth_action_to_string(req->action));
}

/* Until an answer comes the bus keeps a place for it, so polkit is told to give up the question. */
static void check_cancel(const Check *c) {
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *call = NULL;
        char name[32];

        (void) snprintf(name, sizeof(name), "%" PRIu64, c->asked_as);
        int r = sd_bus_message_new_method_call(c->query->auth->bus, &call, POLKIT_NAME, POLKIT_PATH, POLKIT_INTERFACE,
                        "CancelCheckAuthorization");
        if (r >= 0)
                r = sd_bus_message_append(call, "s", name);
        if (r >= 0)
                r = sd_bus_message_set_expect_reply(call, false);
        if (r >= 0)
                r = sd_bus_message_set_auto_start(call, false);
        if (r >= 0)
                r = sd_bus_send(NULL, call, NULL);
        if (r < 0)
                log_debug_errno(r, "Failed to take a question to polkit back, ignoring: %m");
}

/* polkit no longer works on the question. `counts`: the time that it took is charged to the user; it is not when polkit
 * has left the bus. */
static void check_asked(Check *c, bool counts) {
        const Query *q = c->query;
        uint64_t now = now_ns();

        c->slot = sd_bus_slot_unref(c->slot);
        askers_end(q->auth->askers, q->user, c->interactive, now, counts ? ns_sub(now, c->asked_at_ns) : 0);
}

static void check_done(Check *c) {
        if (c->slot) {
                check_cancel(c);
                check_asked(c, true);
        }
        sd_bus_error_free(&c->error);
        free(c->verb);
        free(c->target);
}

static Query *query_free(Query *q) {
        if (!q)
                return NULL;
        HASH_DEL(q->auth->queries, q);
        for (size_t i = 0; i < q->n_checks; i++)
                check_done(q->checks + i);
        sd_event_source_disable_unref(q->done);
        sd_bus_message_unref(q->message);
        free(q);
        return NULL;
}

static Query *query_find(Auth *a, sd_bus_message *m) {
        Query *q = NULL;
        HASH_FIND_PTR(a->queries, &m, q);
        return q;
}

bool auth_is_waiting(Auth *a, sd_bus_message *m) {
        return a && query_find(a, m);
}

static bool query_is_pending(const Query *q) {
        for (size_t i = 0; i < q->n_checks; i++)
                if (q->checks[i].state == CHECK_PENDING)
                        return true;
        return false;
}

static unsigned user_queries(const Auth *a, uid_t uid) {
        unsigned n = 0;

        for (const Query *q = a->queries; q; q = q->hh.next)
                n += q->user == uid;
        return n;
}

static int too_many(sd_bus_error *error) {
        return sd_bus_error_set(error, SD_BUS_ERROR_LIMITS_EXCEEDED, "Too many calls wait for authorisation");
}

/* Returns the last waiting call of the user who has the most, and more than `than`. */
static Query *most_patient(Auth *a, unsigned than) {
        Query *found = NULL;
        uid_t last = UID_NONE, most = UID_NONE;

        for (Query *q = a->queries; q; q = q->hh.next) {
                if (!query_is_pending(q))
                        continue;
                if (q->user != last && q->user != most) {
                        unsigned n = user_queries(a, q->user);
                        if (n > than) {
                                than = n;
                                most = q->user;
                        }
                }
                last = q->user;
                if (q->user == most)
                        found = q;
        }
        return found;
}

/* Makes room for one more call of the user: where there is none, a call of the user with most is refused. */
static int make_room(Auth *a, uid_t user, sd_bus_error *error) {
        _cleanup_(sd_bus_error_free)
        sd_bus_error late = SD_BUS_ERROR_NULL;
        unsigned n = user_queries(a, user);

        if (n >= QUERIES_PER_USER_MAX)
                return too_many(error);
        if (HASH_COUNT(a->queries) < QUERIES_MAX)
                return 0;
        Query *q = most_patient(a, n + 1);
        if (!q)
                return too_many(error);
        (void) too_many(&late);
        (void) sd_bus_reply_method_error(q->message, &late);
        query_free(q);
        return 0;
}

static void ask_waiting(Auth *a);

static int on_turn(sd_event_source *source, uint64_t usec, void *userdata) {
        ask_waiting(userdata);
        return 0;
}

/* Makes the event source when the first question waits: before that, the bus is in no event loop. */
static int make_turn(Auth *a) {
        if (a->turn)
                return 0;
        int r = sd_event_add_time(sd_bus_get_event(a->bus), &a->turn, CLOCK_MONOTONIC, UINT64_MAX, 1, on_turn, a);
        if (r >= 0)
                r = sd_event_source_set_enabled(a->turn, SD_EVENT_OFF);
        return r;
}

static void wait_until(Auth *a, uint64_t at) {
        (void) sd_event_source_set_time(a->turn, at == UINT64_MAX ? at : DIV_ROUND_UP(at, NSEC_PER_USEC));
        (void) sd_event_source_set_enabled(a->turn, at == UINT64_MAX ? SD_EVENT_OFF : SD_EVENT_ONESHOT);
}

static int query_new(Auth *a, sd_bus_message *m, uid_t sender, sd_bus_error *error, Query **ret) {
        uid_t user = auth_sender_user(m, sender);
        int r = make_room(a, user, error);
        if (r >= 0)
                r = make_turn(a);
        if (r < 0)
                return r;

        Query *q = calloc(1, sizeof(Query));
        if (!q)
                return -ENOMEM;
        r = auth_sender_process(m, &q->process);
        if (r < 0) {
                free(q);
                return r;
        }
        q->auth = a;
        q->message = sd_bus_message_ref(m);
        q->sender = sender;
        q->user = user;
        HASH_ADD_PTR(a->queries, message, q);
        *ret = q;
        return 0;
}

static Check *query_find_check(Query *q, const AuthRequest *req) {
        for (size_t i = 0; i < q->n_checks; i++) {
                Check *c = q->checks + i;
                if (c->action == req->action && c->owner == req->owner && streq_ptr(c->verb, req->verb) &&
                                streq_ptr(c->target, req->target))
                        return c;
        }
        return NULL;
}

static int query_on_done(sd_event_source *source, void *userdata) {
        Query *q = userdata;

        if (!query_is_pending(q))
                query_free(q);
        return 0;
}

/* Called after the dispatch: the handler has used the answer, and the query can be freed. */
static void query_taken(Query *q) {
        if (q->done)
                (void) sd_event_source_set_priority(q->done, SD_EVENT_PRIORITY_IMPORTANT);
}

/* Dispatches the message again, and has the query freed after that. */
static void query_resume(Query *q) {
        sd_bus *bus = sd_bus_message_get_bus(q->message);
        int r = sd_bus_enqueue_for_read(bus, q->message);
        if (r >= 0 && bus != q->auth->bus && q->auth->resumed)
                q->auth->resumed(bus, q->auth->resumed_userdata);
        if (r >= 0 && !q->done)
                r = sd_event_add_defer(sd_bus_get_event(q->auth->bus), &q->done, query_on_done, q);
        if (r >= 0)
                r = sd_event_source_set_priority(q->done, SD_EVENT_PRIORITY_IDLE);
        if (r >= 0)
                r = sd_event_source_set_enabled(q->done, SD_EVENT_ONESHOT);
        if (r >= 0)
                return;
        /* A guest may have hung up meanwhile: that is no error. */
        if (r != -ENOTCONN)
                log_warning_errno(r, "Failed to go on with a call after authorisation: %m");
        (void) sd_bus_reply_method_errno(q->message, r, NULL);
        query_free(q);
}

static bool polkit_is_absent(const sd_bus_error *e) {
        return sd_bus_error_has_names(e, SD_BUS_ERROR_SERVICE_UNKNOWN, SD_BUS_ERROR_NAME_HAS_NO_OWNER,
                        DRIVER_ERROR("Spawn.ServiceNotFound"), SYSTEMD_NAME ".NoSuchUnit", SYSTEMD_NAME ".UnitMasked");
}

/* Whether polkit has left the bus, as it does in an upgrade. Its successor is then asked, in the time that is left. */
static bool polkit_has_left(const Check *c, const sd_bus_error *e) {
        return sd_bus_error_has_name(e, SD_BUS_ERROR_NO_REPLY) && !c->again && now_ns() < c->until_ns;
}

/* (bba{ss}): authorised, a dialog would help, details. */
static void check_read_answer(Check *c, sd_bus_message *reply, const AuthRequest *req) {
        int authorised = 0, challenge = 0;

        int r = sd_bus_message_enter_container(reply, 'r', "bba{ss}");
        if (r >= 0)
                r = sd_bus_message_read(reply, "bb", &authorised, &challenge);
        if (r < 0) {
                sd_bus_error_set(&c->error, SD_BUS_ERROR_ACCESS_DENIED, "Not authorised: polkit's answer is invalid");
                return;
        }
        if (authorised)
                c->state = CHECK_GRANTED;
        else if (challenge && sd_bus_message_get_allow_interactive_authorization(c->query->message) <= 0)
                sd_bus_error_set(&c->error, SD_BUS_ERROR_INTERACTIVE_AUTHORIZATION_REQUIRED,
                                "Interactive authorisation required");
        else
                deny(req, &c->error);
}

static int check_on_answer(sd_bus_message *reply, void *userdata, sd_bus_error *ret_error) {
        Check *c = userdata;
        Query *q = c->query;
        const AuthRequest req = {.action = c->action, .verb = c->verb};
        const sd_bus_error *e = sd_bus_message_get_error(reply);

        Auth *a = q->auth;
        bool left = e && polkit_has_left(c, e);

        check_asked(c, !left);
        if (left) {
                c->again = true;
                c->asked_as = 0;
                ask_waiting(a);
                return 1;
        }
        c->state = CHECK_DENIED;
        if (!e)
                check_read_answer(c, reply, &req);
        else if (polkit_is_absent(e)) {
                if (auth_decide(c->action, q->sender, c->owner, q->auth->service))
                        c->state = CHECK_GRANTED;
                else
                        deny(&req, &c->error);
        } else {
                check_cancel(c); /* the error may be our own time limit */
                log_warning("polkit could not answer: %s", strempty(e->message));
                sd_bus_error_setf(&c->error, SD_BUS_ERROR_ACCESS_DENIED, "Not authorised: polkit could not answer: %s",
                                strempty(e->message));
        }
        query_resume(q);
        ask_waiting(a);
        return 1;
}

static int append_details(sd_bus_message *call, const AuthRequest *req) {
        int r = sd_bus_message_open_container(call, 'a', "{ss}");
        if (r >= 0 && req->verb)
                r = sd_bus_message_append(call, "{ss}", "verb", req->verb);
        if (r >= 0 && req->target)
                r = sd_bus_message_append(call, "{ss}", "target", req->target);
        return r < 0 ? r : sd_bus_message_close_container(call);
}

static int check_ask(Check *c) {
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *call = NULL;
        const AuthRequest req = {.verb = c->verb, .target = c->target};
        Auth *a = c->query->auth;
        uint64_t now = now_ns();
        char name[32];

        if (!c->again)
                c->until_ns = now + (c->interactive ? TIMEOUT_INTERACTIVE_USEC : TIMEOUT_USEC) * NSEC_PER_USEC;
        if (c->until_ns < now + NSEC_PER_USEC)
                return -ETIMEDOUT;
        c->asked_as = ++a->n_asked;
        (void) snprintf(name, sizeof(name), "%" PRIu64, c->asked_as);
        int r = sd_bus_message_new_method_call(
                        a->bus, &call, POLKIT_NAME, POLKIT_PATH, POLKIT_INTERFACE, "CheckAuthorization");
        if (r >= 0)
                r = auth_append_subject(call, c->query->message, c->query->sender, &c->query->process);
        if (r >= 0)
                r = sd_bus_message_append(call, "s", auth_action_to_string(c->action));
        if (r >= 0)
                r = append_details(call, &req);
        if (r >= 0)
                r = sd_bus_message_append(call, "us", (uint32_t) c->interactive, name);
        if (r >= 0)
                r = askers_begin(a->askers, c->query->user, c->interactive, now);
        if (r < 0)
                return r;
        c->asked_at_ns = now;
        r = sd_bus_call_async(a->bus, &c->slot, call, check_on_answer, c, (c->until_ns - now) / NSEC_PER_USEC);
        if (r < 0)
                check_asked(c, false);
        return r;
}

/* Returns whether the call still waits. If not, it is dispatched, and its query may be freed. */
static bool check_try(Check *c, uint64_t now, uint64_t *at) {
        const Query *q = c->query;

        if (c->state != CHECK_PENDING || c->asked_as > 0)
                return true;
        uint64_t when = askers_when(q->auth->askers, q->user, c->interactive, now);
        if (when > now) {
                *at = MIN(*at, when);
                return true;
        }
        int r = check_ask(c);
        if (r >= 0)
                return true;
        c->state = CHECK_DENIED;
        sd_bus_error_set_errnof(&c->error, r, "Not authorised: polkit could not be asked");
        query_resume(c->query);
        return false;
}

/* Asks the questions whose turn it is, in the order in which they came. */
static void ask_waiting(Auth *a) {
        uint64_t now = now_ns(), at = UINT64_MAX;

        for (Query *q = a->queries, *next; q; q = next) {
                next = q->hh.next;
                for (size_t i = 0; i < q->n_checks && check_try(q->checks + i, now, &at); i++)
                        ;
        }
        wait_until(a, at);
}

static int query_ask(Query *q, const AuthRequest *req) {
        if (q->n_checks >= CHECKS_MAX)
                return -E2BIG;
        int interactive = sd_bus_message_get_allow_interactive_authorization(q->message);
        if (interactive < 0)
                return interactive;

        Check *c = q->checks + q->n_checks;
        *c = (Check){
                        .query = q,
                        .action = req->action,
                        .verb = req->verb ? strdup(req->verb) : NULL,
                        .target = req->target ? strdup(req->target) : NULL,
                        .owner = req->owner,
                        .interactive = interactive > 0,
                        .state = CHECK_PENDING,
        };
        q->n_checks++;
        if ((req->verb && !c->verb) || (req->target && !c->target))
                return -ENOMEM;
        ask_waiting(q->auth);
        return 0;
}

/* Returns the request that polkit is asked about: to change other users' objects takes the administrator's right. */
static AuthRequest effective_request(const AuthRequest *req, uid_t sender) {
        AuthRequest e = *req;

        if (e.action == AUTH_MANAGE_OWN && (e.owner == UID_NONE || e.owner != sender))
                e.action = AUTH_MANAGE;
        if (e.action != AUTH_MANAGE_OWN)
                e.owner = UID_NONE;
        return e;
}

bool auth_is_for_owner(const Auth *a, sd_bus_message *m, const AuthRequest *req) {
        uid_t sender;

        return req->action == AUTH_MANAGE_OWN && auth_sender_uid(m, &sender) >= 0 && sender != 0 &&
                        sender != a->service && sender == req->owner;
}

void auth_on_resumed(Auth *a, void (*resumed)(sd_bus *bus, void *userdata), void *userdata) {
        a->resumed = resumed;
        a->resumed_userdata = userdata;
}

void auth_begin(Auth *a, sd_bus_message *m) {
        a->granted = NULL;
}

int auth_grant(Auth *a, sd_bus_message *m) {
        a->granted = m;
        return 1;
}

bool auth_is_granted(const Auth *a, const sd_bus_message *m) {
        return a && a->granted && a->granted == m;
}

const AuthGrant *auth_last_grant(const Auth *a) {
        return &a->grant;
}

int auth_take(Auth *a, sd_bus_message *m, sd_bus_error *error) {
        if (!auth_is_granted(a, m))
                return sd_bus_error_set(error, SD_BUS_ERROR_ACCESS_DENIED,
                                "Not authorised: polkit was not asked about this call");
        a->granted = NULL;
        return 0;
}

static int check_request(Auth *a, sd_bus_message *m, const AuthRequest *req, sd_bus_error *error) {
        uid_t sender;
        int r = auth_sender_uid(m, &sender);
        if (r < 0)
                return sd_bus_error_setf(error, SD_BUS_ERROR_ACCESS_DENIED,
                                "Not authorised: the bus does not say who is calling");

        AuthRequest e = effective_request(req, sender);
        bool privileged = sender == 0 || sender == a->service;
        a->grant = (AuthGrant){
                        .uid = sender,
                        .administrators = privileged || e.action == AUTH_MANAGE || e.action == AUTH_SUSPEND,
        };
        if (privileged)
                return 1;
        if (!a->polkit)
                return auth_decide(e.action, sender, e.owner, a->service) ? 1 : deny(&e, error);

        Query *q = query_find(a, m);
        const Check *c = q ? query_find_check(q, &e) : NULL;
        if (c && c->state == CHECK_PENDING)
                return 0;
        if (c) {
                query_taken(q);
                return c->state == CHECK_GRANTED ? 1 : sd_bus_error_copy(error, &c->error);
        }
        if (!q) {
                r = query_new(a, m, sender, error, &q);
                if (r < 0)
                        return r;
        }
        r = query_ask(q, &e);
        if (r < 0) {
                query_free(q);
                return r;
        }
        return 0;
}

int auth_check(Auth *a, sd_bus_message *m, const AuthRequest *req, sd_bus_error *error) {
        int r = check_request(a, m, req, error);
        return r > 0 ? auth_grant(a, m) : r;
}

int auth_new(sd_bus *bus, bool polkit, Auth **ret) {
        _cleanup_(askers_freep)
        Askers *askers = NULL;

        int r = askers_new(&askers);
        if (r < 0)
                return r;
        Auth *a = malloc(sizeof(Auth));
        if (!a)
                return -ENOMEM;
        *a = (Auth){
                        .bus = sd_bus_ref(bus),
                        .polkit = polkit,
                        .askers = TAKE_PTR(askers),
                        .service = geteuid(),
                        .grant.uid = UID_NONE,
        };
        *ret = a;
        return 0;
}

Auth *auth_free(Auth *a) {
        if (!a)
                return NULL;
        for (Query *q, *next = a->queries; (q = next);) {
                next = q->hh.next;
                query_free(q);
        }
        askers_free(a->askers);
        sd_event_source_disable_unref(a->turn);
        sd_bus_unref(a->bus);
        free(a);
        return NULL;
}
