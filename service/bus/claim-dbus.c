/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Claims on the bus: HoldPriority
 */

#include "claim-dbus.h"
#include "answer.h"
#include "audit.h"
#include "calls.h"
#include "common/bus-names.h"
#include "manager-dbus.h"
#include "service/core/claim.h"

/* Approximate size of a list's element without its strings. */
#define CLAIM_SIZE 64

typedef struct ClaimArguments {
        const char *class, *reason;
        Settings settings;
        uint64_t flags;
} ClaimArguments;

static int read_arguments(Manager *m, sd_bus_message *message, ClaimArguments *ret, sd_bus_error *error) {
        ClaimArguments a = {.settings = SETTINGS_NULL};

        int r = sd_bus_message_read(message, "sst", &a.class, &a.reason, &a.flags);
        if (r < 0)
                return r;
        r = bus_check_known_flags(a.flags, HOLD_FLAG_DESCENDANTS, error);
        if (r < 0)
                return r;
        r = bus_check_string("The reason", a.reason, error);
        if (r < 0)
                return r;
        if (settings_set_class(&a.settings, a.class) < 0)
                return sd_bus_error_set(error, BUS_ERROR("NoSuchClass"), "That cannot be the name of a class");
        r = bus_check_class(m, &a.settings, error);
        if (r < 0)
                return r;
        *ret = a;
        return 0;
}

/* Makes the request for the claim, and finds the calling process. */
static int claim_request(Manager *m, sd_bus_message *message, const ClaimArguments *a, Peer *ret_peer, AuthRequest *ret,
                sd_bus_error *error) {
        int r = peer_from_sender(m->connections, message, ret_peer);
        if (r < 0)
                return bus_peer_error(r, error);
        *ret = bus_own_request(m, &a->settings, ret_peer->uid, a->class);
        return 0;
}

int check_hold_priority(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error) {
        _cleanup_(peer_done)
        Peer peer = PEER_NULL;
        Manager *m = userdata;
        AuthRequest request = {0};
        ClaimArguments a = {0};

        int r = read_arguments(m, message, &a, error);
        if (r >= 0)
                r = claim_request(m, message, &a, &peer, &request, error);
        return r < 0 ? r : auth_check(m->auth, message, &request, error);
}

/* A HoldPriority call until the claim has reached all its clients. */
typedef struct ClaimCall {
        sd_bus_message *message;
        ClaimBegin begin;
        int fd;
} ClaimCall;

static void claim_call_free(void *userdata) {
        ClaimCall *call = userdata;

        claim_begin_done(&call->begin);
        sd_bus_message_unref(call->message);
        safe_close(call->fd);
        free(call);
}

static int claim_call_step(void *userdata) {
        ClaimCall *call = userdata;

        if (claim_begin_step(&call->begin))
                return 1;
        return MIN(bus_answer(call->begin.claim->manager, call->message, "h", call->fd), 0);
}

static int claim_go_on(Manager *m, sd_bus_message *message, const Peer *peer, const ClaimParameters *p) {
        ClaimCall *call = malloc(sizeof(*call));
        Claim *claim;

        if (!call)
                return -ENOMEM;
        *call = (ClaimCall){.fd = -EBADF};
        int r = claim_new(m, peer, p, &claim, &call->fd);
        if (r < 0) {
                free(call);
                return r;
        }
        call->message = sd_bus_message_ref(message);
        claim_begin(&call->begin, claim);
        const CallWork work = {claim_call_step, claim_call_free, call};
        return call_go_on(m, message, &work);
}

BUS_MANAGER_CHANGE(method_hold_priority) {
        _cleanup_(peer_done)
        Peer peer = PEER_NULL;
        AuthRequest request = {0};
        ClaimArguments a = {0};

        int r = read_arguments(m, message, &a, error);
        if (r >= 0)
                r = claim_request(m, message, &a, &peer, &request, error);
        if (r < 0)
                return r;
        const AuditObject o = {.fields.pid = peer.pid, .name = peer.command, .how = " (hold)"};
        const ClaimParameters p = {
                        .reason = a.reason,
                        .settings = a.settings,
                        .lowers = bus_only_lowers(&request, peer.uid),
                        .descendants = a.flags & HOLD_FLAG_DESCENDANTS,
        };
        r = claim_go_on(m, message, &peer, &p);
        if (r < 0)
                return bus_error_from_errno(r, error);
        audit_own(m, message, &o, &p.settings, p.lowers);
        return r;
}

static int append_claim(Answer *a, WalkTable table, void *object) {
        const Claim *c = object;

        int r = sd_bus_message_append(a->reply, "(uusssb)", (uint32_t) c->pid, (uint32_t) c->uid, c->command,
                        c->settings.class, c->reason, (int) c->descendants);
        return r < 0 ? r : CLAIM_SIZE + (int) (strlen(c->command) + strlen(c->reason));
}

int method_list_holds(sd_bus_message *message, void *userdata, sd_bus_error *error) {
        static const AnswerOps ops = {
                        .object = append_claim,
                        .end = answer_send,
                        .tables = {WALK_CLAIMS},
                        .n_tables = 1,
        };
        return answer_list(userdata, message, &ops, "(uusssb)");
}
