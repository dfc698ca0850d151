/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Plays a recording again
 */

#include <inttypes.h>
#include <stdarg.h>

#include "otherwise.h"
#include "replay.h"
#include "simulate.h"

/* State of an entity while the recording is played. */
typedef struct Track {
        Stint stint;
        LoadEntity *load; /* NULL: no load is wanted */
        uint64_t run_ns;  /* when its burst began */
        uint64_t held_ns; /* in the middle of a burst; NSEC_INFINITY: it is not */
} Track;

_printf_(3, 4) static int say(Replay *p, int r, const char *format, ...) {
        va_list ap;

        va_start(ap, format);
        (void) vsnprintf(p->why, sizeof(p->why), format, ap);
        va_end(ap);
        return r;
}

static PolicyUsage usage_of(const PlayerEntity *e, uint64_t at) {
        PolicyUsage u;

        e->device->ops->entity_usage(e->entity, at, &u);
        return u;
}

static int on_added(PlayerEntity *e, uint64_t at, void *userdata) {
        Replay *p = userdata;
        Track *t = calloc(1, sizeof(*t));

        if (!t)
                return -ENOMEM;
        int r = stint_begin(&p->outcome, e->device->id, e->group, e->pid, e->queue, &t->stint);
        if (r >= 0 && replay_is_other(p)) {
                t->load = calloc(1, sizeof(*t->load));
                r = t->load ? 0 : -ENOMEM;
        }
        if (r < 0) {
                free(t);
                return r;
        }
        t->held_ns = NSEC_INFINITY;
        e->userdata = t;
        return 0;
}

static void on_removed(PlayerEntity *e, uint64_t at, void *userdata) {
        Track *t = e->userdata;
        PolicyUsage u = usage_of(e, at);

        if (!t)
                return;
        if (t->load && e->ready)
                load_entity_idle(t->load, at, u.run_ns - t->run_ns, true);
        stint_end(&t->stint, &u, at);
        free(t);
        e->userdata = NULL;
}

static void tell_asked(PlayerEntity *e, Stint *s) {
        AskStep steps[POLICY_DEPTH_MAX];
        size_t n = 0;

        for (const PlayerNode *node = e->node; node && n < ELEMENTSOF(steps); node = node->parent)
                steps[n++] = (AskStep){.name = node->name, .id = node->id, .weight = node->settings.weight};
        for (size_t i = 0; i < n / 2; i++) {
                AskStep other = steps[i];

                steps[i] = steps[n - 1 - i];
                steps[n - 1 - i] = other;
        }
        stint_asks(s, steps, n, e->settings.weight);
}

static void on_ready(PlayerEntity *e, uint64_t at, void *userdata) {
        Replay *p = userdata;
        Track *t = e->userdata;

        stint_ready(&t->stint, at);
        tell_asked(e, &t->stint);
        t->run_ns = usage_of(e, at).run_ns;
        t->held_ns = NSEC_INFINITY;
        if (t->load && load_entity_ready(t->load, at) < 0)
                p->outcome.failed = true;
}

static void on_idle(PlayerEntity *e, uint64_t at, void *userdata) {
        Track *t = e->userdata;

        stint_idle(&t->stint, at);
        if (t->load)
                load_entity_idle(t->load, at, usage_of(e, at).run_ns - t->run_ns, false);
}

static void on_drained(PlayerEntity *e, uint64_t at, void *userdata) {
        Track *t = e->userdata;

        if (!t->load || t->held_ns == NSEC_INFINITY)
                return;
        t->load->tails_ns += ns_sub(at, t->held_ns);
        t->load->n_tails++;
        t->held_ns = NSEC_INFINITY;
}

static void on_granted(PlayerEntity *e, const PolicyGrant *former, uint64_t at, void *userdata) {
        bool run = e->grant.verdict == VERDICT_RUN;
        Track *t = e->userdata;

        stint_granted(&t->stint, run, at);
        t->held_ns = !run && e->ready && former->verdict == VERDICT_RUN ? at : NSEC_INFINITY;
}

static const PlayerOps player_ops = {
                .entity_added = on_added,
                .entity_removed = on_removed,
                .ready = on_ready,
                .idle = on_idle,
                .drained = on_drained,
                .granted = on_granted,
};

bool replay_is_other(const Replay *p) {
        return p->otherwise.ops || p->otherwise.n_params > 0 || p->otherwise.n_sets > 0;
}

/* Returns the load of the entity that the record has just made. */
static LoadEntity *load_of(const Replay *p, const TapeRecord *r) {
        const PlayerDevice *d = player_device(&p->player, r->device);
        PlayerEntity *e = NULL;

        if (r->kind != TAPE_ENTITY || !d)
                return NULL;
        HASH_FIND(hh, d->entities, &r->entity, sizeof(r->entity), e);
        return e && e->userdata ? ((Track *) e->userdata)->load : NULL;
}

/* `whole`: with an end of line. Where the writer was killed, or the disk was full, the last record is a part of one. */
static int play_line(Replay *p, const char *line, bool whole) {
        const char *why;
        TapeRecord r;

        int k = tape_read(line, &r, &why);
        if (k == -EBADMSG && !whole && p->player.begun && !p->player.ended)
                return 0;
        if (k == -EBADMSG)
                return say(p, k, "record %" PRIu64 ": not a record: %s", p->at_line, why);
        if (k < 0)
                return say(p, k, "%s", strerror(-k));
        k = player_play(&p->player, &r);
        if (k > 0 && replay_is_other(p))
                k = load_add(&p->load, &r, p->player.last_ns, load_of(p, &r)) < 0 ? -ENOMEM : k;
        tape_record_done(&r);
        if (k == 0)
                return say(p, -EILSEQ, "record %" PRIu64 ": something else comes out: %s", p->at_line, p->player.why);
        if (k == -EBADMSG)
                return say(p, k, "record %" PRIu64 ": %s", p->at_line, p->player.why);
        if (k < 0 || p->outcome.failed)
                return say(p, -ENOMEM, "%s", strerror(ENOMEM));
        return 0;
}

/* Longer than any record: names in it are at most as long as paths. What has no end of lines is no recording. */
#define LINE_SIZE ((size_t) 256 * 1024)

/* Returns 1 for a line, 0 at the end, or -EBADMSG. */
static int read_line(FILE *f, char *ret, bool *ret_whole) {
        size_t n = 0;
        int c;

        while ((c = getc_unlocked(f)) != EOF && c != '\n') {
                if (c == '\0' || n + 1 == LINE_SIZE)
                        return -EBADMSG;
                ret[n++] = (char) c;
        }
        ret[n] = '\0';
        *ret_whole = c != EOF;
        return c != EOF || n > 0;
}

static int play(Replay *p, FILE *f) {
        _cleanup_free_ char *line = malloc(LINE_SIZE);
        int r = 0, more = line ? 1 : -ENOMEM;
        bool whole;

        while (r >= 0 && more > 0 && (more = read_line(f, line, &whole)) > 0) {
                p->at_line++;
                r = play_line(p, line, whole);
        }
        if (r >= 0 && more == -ENOMEM)
                r = say(p, more, "%s", strerror(ENOMEM));
        else if (r >= 0 && more < 0)
                r = say(p, more, "record %" PRIu64 ": not a record: no line of text", p->at_line + 1);
        if (r >= 0 && ferror(f))
                r = say(p, -EIO, "cannot be read: %m");
        if (r >= 0 && p->player.n_records == 0)
                r = say(p, -EBADMSG, "it is empty");
        return r;
}

int replay_run(Replay *p, FILE *f) {
        player_init(&p->player, &player_ops, p);
        int r = play(p, f);
        p->outcome.begin_ns = p->load.begin_ns = p->player.begin_ns;
        p->outcome.end_ns = p->load.end_ns = p->player.last_ns;
        p->load.n_records = p->player.n_records;
        player_done(&p->player);
        if (r < 0)
                return r;
        if (replay_is_other(p)) {
                outcome_done(&p->outcome);
                r = simulate(&p->load, &p->otherwise, &p->outcome, p->why, sizeof(p->why));
        }
        outcome_sort(&p->outcome);
        return r;
}

void replay_done(Replay *p) {
        player_done(&p->player);
        load_done(&p->load);
        outcome_done(&p->outcome);
        for (size_t i = 0; i < p->otherwise.n_sets; i++)
                free(p->otherwise.sets[i].group);
}

/* --- what is asked --- */

/* The last colon before the "=" ends the name: names of groups may have some. */
static int ask_set(Replay *p, const char *text) {
        const char *equals = strchr(text, '='), *colon = equals;
        PolicyNodeSettings node = POLICY_NODE_SETTINGS_DEFAULT;
        PolicySettings settings = POLICY_SETTINGS_DEFAULT;
        Otherwise *o = &p->otherwise;

        while (colon && colon > text && *colon != ':')
                colon--;
        if (!colon || colon == text)
                return say(p, -EINVAL, "--set=%s: not GROUP:KEY=VALUE", text);
        if (o->n_sets >= ELEMENTSOF(o->sets))
                return say(p, -EINVAL, "--set=: too many");
        o->sets[o->n_sets] = (ReplaySet){
                        .group = strndup(text, (size_t) (colon - text)),
                        .key = colon + 1,
                        .value = equals + 1,
        };
        if (!o->sets[o->n_sets].group)
                return say(p, -ENOMEM, "%s", strerror(ENOMEM));
        ReplaySet *set = o->sets + o->n_sets++;
        int r = otherwise_entity(o, set->group, &settings, p->why, sizeof(p->why));
        if (r >= 0)
                r = otherwise_node(o, set->group, &node, p->why, sizeof(p->why));
        set->known = set->has_key = false;
        return r;
}

int replay_ask(Replay *p, const char *policy, char *const *params, size_t n_params, const char *const *sets,
                size_t n_sets) {
        PolicyConfig config = POLICY_CONFIG_DEFAULT;

        p->otherwise.ops = policy ? policy_find(policy) : NULL;
        if (policy && !p->otherwise.ops)
                return say(p, -EINVAL, "--policy=%s: there is no such policy", policy);
        p->otherwise.params = params;
        p->otherwise.n_params = n_params;
        int r = otherwise_config(&p->otherwise, &config, p->why, sizeof(p->why));
        for (size_t i = 0; i < n_sets && r >= 0; i++)
                r = ask_set(p, sets[i]);
        return r;
}
