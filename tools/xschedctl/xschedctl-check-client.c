/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * check: what the service knows of a process
 */

#include "xschedctl-check-client.h"

#include <inttypes.h>

#include "common/macro.h"
#include "tools/shared/ctl-bus.h"
#include "tools/xschedctl/xschedctl-check-findings.h"
#include "tools/xschedctl/xschedctl-waits.h"

static bool is_of(const Object *queue, const Object *client) {
        return object_id_from_path(object_get_string(queue, "Client")) == object_get_uint(client, "Id");
}

/* xschedctl register gives its client one such queue; no layer makes any. */
static bool is_without_runtime(const Object *queue) {
        return streq(object_get_string(queue, "Backend"), "none");
}

bool client_is_registered_only(const Snapshot *s, const Object *client) {
        const Object *q;
        bool any = false;

        SNAPSHOT_FOREACH(q, s, OBJECT_QUEUE) {
                if (!is_of(q, client))
                        continue;
                if (!is_without_runtime(q))
                        return false;
                any = true;
        }
        return any;
}

/* Tells how the queue's launches are seen, where that is less than each launch at the gate. */
static void check_hooked(Check *k, const Object *q) {
        const char *hooked = object_get_string(q, "Hooked");
        const Value *unheld = object_get(q, "Unheld");
        uint64_t id = object_get_uint(q, "Id");
        bool none = streq(hooked, "none"), is_unheld = unheld->type == VALUE_BOOL && unheld->b;

        if (is_without_runtime(q))
                check_add(k, "hooked", is_unheld ? CHECK_FAILED : CHECK_OK,
                                "queue:%" PRIu64 " counts as if it had work all the time, and %s", id,
                                is_unheld ? "nothing holds it: see PrivilegedPreemption= in xsched.conf(5)"
                                          : "the service itself holds it");
        else if (is_unheld)
                check_add(k, "hooked", CHECK_FAILED,
                                "queue:%" PRIu64 " launches past the gate (%s), and cannot be taken off its device: "
                                "nothing holds it",
                                id, hooked);
        else if (none || streq(hooked, "poll"))
                check_add(k, "hooked", CHECK_WARNING,
                                "queue:%" PRIu64
                                " launches past the gate (%s): it is held by being taken off its device%s",
                                id, hooked, none ? ", and never counts as ready" : "");
}

/* Returns the version of NVIDIA's kernel driver in the buffer. */
static const char *nvidia_version(char *buf, size_t size) {
        FILE *f = fopen("/sys/module/nvidia/version", "re");

        if (!f || !fgets(buf, (int) size, f))
                (void) snprintf(buf, size, "unknown");
        if (f)
                (void) fclose(f);
        buf[strcspn(buf, "\n")] = '\0';
        return buf;
}

/* Kernels of CUDA programs can be stopped with some versions of the driver only. */
static void check_level(Check *k, const Object *q) {
        _cleanup_free_ char *wanted = NULL;
        uint64_t id = object_get_uint(q, "Id");
        char version[64];

        if (!streq(object_get_string(q, "Backend"), "cuda"))
                return;
        if (object_get_uint(q, "MaxLevel") > 1) {
                check_add(k, "level", CHECK_OK, "queue:%" PRIu64 " can be held by stopping its kernels", id);
                return;
        }
        if (check_get_variable(k, "XSCHED_CUDA_STOP", &wanted) >= 0 && streq_ptr(wanted, "0"))
                check_add(k, "level", CHECK_OK,
                                "queue:%" PRIu64 " is held at the gate alone, see xsched-cuda(7): the program was "
                                "started with XSCHED_CUDA_STOP=0",
                                id);
        else
                check_add(k, "level", CHECK_OK,
                                "queue:%" PRIu64 " is held at the gate alone, see xsched-cuda(7): its kernels "
                                "are not stopped with this driver (version %s, XSCHED_CUDA_STOP=%s), or its channels "
                                "were not seen",
                                id, nvidia_version(version, sizeof(version)), strempty(wanted));
}

/* Prints the counts of each interception point. */
static void check_hooks(Check *k, const Snapshot *s, const Object *client) {
        uint64_t expired = object_get_uint(client, "LeaseExpired");
        const Object *q;
        bool any = false;
        char held[32];

        SNAPSHOT_FOREACH(q, s, OBJECT_QUEUE) {
                uint64_t submitted = object_get_uint(q, "Submitted");

                if (!is_of(q, client))
                        continue;
                any = true;
                check_add(k, "queue", submitted > 0 ? CHECK_OK : CHECK_WARNING,
                                "queue:%" PRIu64 " (%s) on %s: %" PRIu64 " launches, %" PRIu64
                                " seen complete, %s at the gate",
                                object_get_uint(q, "Id"), object_get_string(q, "Backend"),
                                object_get_string(q, "Device"), submitted, object_get_uint(q, "Completed"),
                                format_usec(held, sizeof(held), object_get_uint(q, "HeldUSec")));
                check_hooked(k, q);
                check_level(k, q);
        }
        if (!any)
                check_add(k, "queue", CHECK_WARNING, "no queue yet: nothing to schedule");
        if (expired > 0)
                check_add(k, "lease", CHECK_WARNING,
                                "%" PRIu64 " launches passed a held gate: the service was silent too long", expired);
}

/* A wait is no fault, but may be what the user looks for. */
static void check_waits(Check *k, const Object *client) {
        const Value *waits = object_get(client, "Waits");

        for (size_t i = 0; i < waits->n_items; i++) {
                _cleanup_free_ char *why = wait_describe(waits->items + i);

                if (why)
                        check_add(k, "waits", CHECK_WARNING, "on %s: %s", wait_device(waits->items + i), why);
        }
        if (waits->n_items == 0)
                check_add(k, "waits", CHECK_OK, "for nothing: %s", object_get_string(client, "State"));
}

/* (source, "Setting: how it came about", value), as Explain has it. A wish for what is there anyway is no mistake, and
 * one of a queue for what its process has is none of its own. */
static void check_wish(Check *k, const Object *client, const Object *queue, const Value *link) {
        const char *text = link->n_items == 3 ? value_get_string(link->items + 1) : NULL;
        const char *how = text ? strchr(text, ':') : NULL;

        if (!how || !streq_ptr(value_get_string(link->items), "wish") || !queue != !strstr(how, " for queue "))
                return;
        bool lowers = !startswith(how, ": lowers nothing");
        _cleanup_free_ char *name = strndup(text, (size_t) (how - text)), *value = value_format(link->items + 2),
                            *given = name ? value_format(object_get(client, name)) : NULL;
        if (!value || !given || streq(value, given))
                return;
        if (queue && lowers)
                check_add(k, "hints", CHECK_OK, "queue:%" PRIu64 " has the hint %s=%s, the process has %s",
                                object_get_uint(queue, "Id"), name, value, given);
        else if (queue)
                check_add(k, "hints", CHECK_WARNING,
                                "%s=%s of queue:%" PRIu64 " lowers nothing: the process was given %s, and hints only "
                                "lower",
                                name, value, object_get_uint(queue, "Id"), given);
        else if (!lowers)
                check_add(k, "hints", CHECK_WARNING,
                                "%s=%s lowers nothing: the process was given %s, and hints only lower", name, value,
                                given);
}

/* Names hints that have no effect, of the process or (not NULL) of one of its queues; and hints of that queue that make
 * it differ from the process. */
static void check_wishes(Check *k, const Object *client, const Object *queue) {
        _cleanup_(sd_bus_error_free)
        sd_bus_error error = SD_BUS_ERROR_NULL;
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *reply = NULL;
        _cleanup_(value_done)
        Value chain = {};

        if (ctl_call_method(k->ctl, NULL, NULL, "ExplainObject", &error, &reply, "o", (queue ?: client)->path) < 0 ||
                        value_read(reply, &chain) < 0)
                return; /* it has ended, or the service is an older one */
        for (size_t i = 0; i < chain.n_items; i++)
                check_wish(k, client, queue, chain.items + i);
}

void check_registered(Check *k, const Snapshot *s, const Object *client) {
        const Object *q;

        check_add(k, "registered", CHECK_OK, "client:%" PRIu64 " in group %s", object_get_uint(client, "Id"),
                        object_get_string(client, "Group"));
        check_hooks(k, s, client);
        check_wishes(k, client, NULL);
        SNAPSHOT_FOREACH(q, s, OBJECT_QUEUE)
        if (is_of(q, client))
                check_wishes(k, client, q);
        check_waits(k, client);
}
