/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Containers, pods and batch jobs, by the names of their cgroups
 *
 * One pass over the components of the path. A component is taken by the first rule that knows it; what no rule knows
 * lies between, as "system.slice", "user" and "init.scope" do.
 */

#include <stdio.h>

#include "cgroup/container.h"
#include "common/cgroup-text.h"

static const char *const container_engine_table[_CONTAINER_ENGINE_MAX] = {
                [CONTAINER_NONE] = "",
                [CONTAINER_DOCKER] = "docker",
                [CONTAINER_PODMAN] = "podman",
                [CONTAINER_CONTAINERD] = "containerd",
                [CONTAINER_CRIO] = "crio",
                [CONTAINER_CRI] = "cri",
                [CONTAINER_LXC] = "lxc",
                [CONTAINER_MACHINE] = "machine",
};
DEFINE_STRING_TABLE_TO_STRING(container_engine, ContainerEngine);

static const char *const pod_qos_table[_POD_QOS_MAX] = {
                [POD_QOS_NONE] = "",
                [POD_QOS_GUARANTEED] = "guaranteed",
                [POD_QOS_BURSTABLE] = "burstable",
                [POD_QOS_BEST_EFFORT] = "besteffort",
};
DEFINE_STRING_TABLE_TO_STRING(pod_qos, PodQos);

#define HEX           "0123456789abcdef"
#define ID_LENGTH_MIN 12U /* the short form of an id; no engine names a cgroup by less */
#define POD_LENGTH    36U /* of a uid */
#define STATIC_POD    32U /* a static pod has a hash in its place */

typedef struct Walk {
        const char *cgroup;
        Container *levels;
        size_t n;          /* levels begun */
        bool user;         /* below a user's own manager */
        bool slurm;        /* below something of Slurm's */
        bool pods;         /* below the kubelet's root, cgroupfs driver */
        PodQos qos;        /* of that */
        const char *above; /* the component before */
        size_t above_n;
        size_t end; /* of this component, in the path */
} Walk;

/* --- text --- */

static bool equals(const char *s, size_t n, const char *what) {
        return strlen(what) == n && memcmp(s, what, n) == 0;
}

static bool cut_prefix(const char **s, size_t *n, const char *prefix) {
        size_t l = strlen(prefix);

        if (*n < l || memcmp(*s, prefix, l) != 0)
                return false;
        *s += l;
        *n -= l;
        return true;
}

static bool cut_suffix(const char *s, size_t *n, const char *suffix) {
        size_t l = strlen(suffix);

        if (*n < l || memcmp(s + *n - l, suffix, l) != 0)
                return false;
        *n -= l;
        return true;
}

static bool consists_of(const char *s, size_t n, const char *characters) {
        for (size_t i = 0; i < n; i++)
                if (!strchr(characters, s[i]))
                        return false;
        return n > 0;
}

static bool is_id(const char *s, size_t n) {
        return n >= ID_LENGTH_MIN && n <= 64 && consists_of(s, n, HEX);
}

static bool copy(char *buf, size_t size, const char *s, size_t n) {
        if (n == 0 || n >= size)
                return false;
        memcpy(buf, s, n);
        buf[n] = '\0';
        return true;
}

static int unhex(char c) {
        const char *p = c ? strchr(HEX, c) : NULL;
        return p ? (int) (p - (const char *) HEX) : -1;
}

/* systemd's \xNN, in place, where it means a character that can be printed. */
static void unescape(char *s) {
        char *out = s;

        while (*s) {
                int c = -1;

                if (s[0] == '\\' && s[1] == 'x' && unhex(s[2]) >= 0 && unhex(s[3]) >= 0)
                        c = unhex(s[2]) * 16 + unhex(s[3]);
                if (c >= ' ' && c < 0x7f) {
                        *out++ = (char) c;
                        s += 4;
                } else
                        *out++ = *s++;
        }
        *out = '\0';
}

/* --- levels --- */

static Container *current(const Walk *w) {
        return w->n > 0 ? w->levels + w->n - 1 : NULL;
}

/* The level that the next fact belongs to: a job comes before its pods, a pod before its container; what comes after a
 * container lies within it. NULL: too deep. */
static Container *level(Walk *w) {
        if (w->n > 0 && w->levels[w->n - 1].engine == CONTAINER_NONE) {
                w->levels[w->n - 1].end = w->end;
                return w->levels + w->n - 1;
        }
        if (w->n >= CONTAINER_LEVELS_MAX)
                return NULL;
        Container *c = w->levels + w->n++;
        *c = (Container){.delegated = w->user || w->n > 1, .end = w->end};
        return c;
}

static bool take_container(Walk *w, ContainerEngine engine, const char *id, size_t n) {
        char text[CONTAINER_ID_MAX];

        if (!copy(text, sizeof(text), id, n))
                return false;
        Container *c = level(w);
        if (!c)
                return true;
        if (engine == CONTAINER_MACHINE)
                unescape(text);
        c->engine = engine;
        memcpy(c->id, text, sizeof(text));
        /* Within a step the subtree is the job's. */
        if (c->slurm_job[0] != '\0')
                c->delegated = true;
        w->pods = w->slurm = false;
        return true;
}

static bool take_pod(Walk *w, PodQos qos, const char *uid, size_t n) {
        char text[CONTAINER_POD_MAX];

        if ((n != POD_LENGTH && n != STATIC_POD) || !consists_of(uid, n, HEX "-_") || !copy(text, sizeof(text), uid, n))
                return false;
        Container *c = level(w);
        if (!c)
                return true;
        for (char *p = text; *p; p++)
                if (*p == '_')
                        *p = '-';
        memcpy(c->pod, text, sizeof(text));
        c->qos = qos;
        return true;
}

/* --- rules --- */

/* "docker-ID.scope" of the systemd driver; without the suffix, and under names of the plain one. */
static bool scan_container(Walk *w, const char *s, size_t n) {
        static const struct {
                const char *prefix;
                ContainerEngine engine;
        } engines[] = {
                        {"docker-", CONTAINER_DOCKER},
                        {"libpod-", CONTAINER_PODMAN},
                        {"libpod-payload-", CONTAINER_PODMAN},
                        {"cri-containerd-", CONTAINER_CONTAINERD},
                        {"nerdctl-", CONTAINER_CONTAINERD},
                        {"crio-", CONTAINER_CRIO},
        };

        (void) cut_suffix(s, &n, ".scope");
        for (size_t i = 0; i < ELEMENTSOF(engines); i++) {
                const char *id = s;
                size_t l = n;
                if (cut_prefix(&id, &l, engines[i].prefix) && is_id(id, l))
                        return take_container(w, engines[i].engine, id, l);
        }
        if (!is_id(s, n))
                return false;
        if (equals(w->above, w->above_n, "docker"))
                return take_container(w, CONTAINER_DOCKER, s, n);
        const Container *c = current(w);
        if (w->pods && c && c->engine == CONTAINER_NONE && c->pod[0] != '\0')
                return take_container(w, CONTAINER_CRI, s, n);
        return false;
}

static bool scan_machine(Walk *w, const char *s, size_t n) {
        const char *name = s;
        size_t l = n;

        if (cut_suffix(name, &l, ".service") && cut_prefix(&name, &l, "systemd-nspawn@"))
                return take_container(w, CONTAINER_MACHINE, name, l);
        l = n;
        if (cut_suffix(name, &l, ".scope") && cut_prefix(&name, &l, "machine-"))
                return take_container(w, CONTAINER_MACHINE, name, l);
        /* LXC's names are anything, so only its own places are looked at. */
        if (cut_prefix(&s, &n, "lxc.payload.") || equals(w->above, w->above_n, "lxc.payload") ||
                        (equals(w->above, w->above_n, "lxc") && w->above == w->cgroup + 1))
                return take_container(w, CONTAINER_LXC, s, n);
        return false;
}

/* "[PARENT-]kubepods[-QOS]-podUID.slice", and "…slice:cri-containerd:ID" where kubelet and containerd disagree about
 * the driver. */
static bool scan_pod_slice(Walk *w, const char *s, size_t n) {
        const char *root = memmem(s, n, "kubepods", strlen("kubepods")), *end = s + n;
        PodQos qos = POD_QOS_GUARANTEED;

        if (!root || (root > s && root[-1] != '-'))
                return false;
        s = root + strlen("kubepods");
        const char *id = memchr(s, ':', (size_t) (end - s));
        size_t slice = (size_t) ((id ?: end) - s);
        if (!cut_suffix(s, &slice, ".slice"))
                return false;
        if (cut_prefix(&s, &slice, "-burstable"))
                qos = POD_QOS_BURSTABLE;
        else if (cut_prefix(&s, &slice, "-besteffort"))
                qos = POD_QOS_BEST_EFFORT;
        if (!cut_prefix(&s, &slice, "-pod") || !take_pod(w, qos, s, slice))
                return false;
        if (!id)
                return true;

        size_t l = (size_t) (end - id);
        if (cut_prefix(&id, &l, ":cri-containerd:") && is_id(id, l))
                (void) take_container(w, CONTAINER_CONTAINERD, id, l);
        return true;
}

/* "kubepods/QOS/podUID" */
static bool scan_pod_directory(Walk *w, const char *s, size_t n) {
        if (equals(s, n, "kubepods")) {
                w->pods = true;
                w->qos = POD_QOS_GUARANTEED;
                return true;
        }
        if (!w->pods)
                return false;
        if (equals(s, n, "burstable"))
                w->qos = POD_QOS_BURSTABLE;
        else if (equals(s, n, "besteffort"))
                w->qos = POD_QOS_BEST_EFFORT;
        else
                return cut_prefix(&s, &n, "pod") && take_pod(w, w->qos, s, n);
        return true;
}

/* "slurmstepd.scope/job_N/step_M/user/task_K", with the job's SLUID for job_N since Slurm 26.05, and
 * "slurm/uid_N/job_N/step_M" of the older layout. */
static bool scan_slurm(Walk *w, const char *s, size_t n) {
        Container *c;

        if (memmem(s, n, "slurm", strlen("slurm"))) {
                w->slurm = true;
                return true;
        }
        if (!w->slurm)
                return false;
        if (cgroup_name_is_sluid(s, n) || (cut_prefix(&s, &n, "job_") && consists_of(s, n, "0123456789"))) {
                c = level(w);
                if (c)
                        (void) copy(c->slurm_job, sizeof(c->slurm_job), s, n);
                return true;
        }
        c = current(w);
        if (c && c->slurm_job[0] != '\0' && c->engine == CONTAINER_NONE && cut_prefix(&s, &n, "step_")) {
                c->end = w->end;
                return copy(c->slurm_step, sizeof(c->slurm_step), s, n);
        }
        return false;
}

static void scan(Walk *w, const char *s, size_t n) {
        const char *uid = s;
        size_t l = n;

        if (cut_prefix(&uid, &l, "user@") && cut_suffix(uid, &l, ".service"))
                w->user = true;
        else if (!scan_pod_slice(w, s, n) && !scan_container(w, s, n) && !scan_machine(w, s, n) &&
                        !scan_pod_directory(w, s, n))
                (void) scan_slurm(w, s, n);
}

size_t container_parse(const char *cgroup, Container levels[static CONTAINER_LEVELS_MAX]) {
        Walk w = {.cgroup = cgroup, .levels = levels, .above = ""};

        for (const char *p = cgroup; *p;) {
                p += strspn(p, "/");
                size_t n = strcspn(p, "/");
                w.end = (size_t) (p - cgroup) + n;
                scan(&w, p, n);
                w.above = p;
                w.above_n = n;
                p += n;
        }
        return w.n;
}

const char *container_name(const Container *c, char buf[static CONTAINER_NAME_MAX]) {
        buf[0] = '\0';
        if (c->engine != CONTAINER_NONE)
                (void) snprintf(buf, CONTAINER_NAME_MAX, "%s:%s", container_engine_to_string(c->engine), c->id);
        return buf;
}

const char *container_slurm_name(const Container *c, char buf[static CONTAINER_STEP_MAX]) {
        (void) snprintf(buf, CONTAINER_STEP_MAX, "%s%s%s", c->slurm_job, c->slurm_step[0] == '\0' ? "" : ".",
                        c->slurm_step);
        return buf;
}

void container_names(const char *cgroup, ContainerNames *ret) {
        Container levels[CONTAINER_LEVELS_MAX];

        *ret = (ContainerNames){.pod_qos = ""};
        size_t n = container_parse(cgroup, levels);
        for (size_t i = 0; i < n; i++) {
                const Container *c = levels + i;
                if (c->engine != CONTAINER_NONE)
                        (void) container_name(c, ret->container);
                if (c->pod[0] != '\0') {
                        memcpy(ret->pod, c->pod, sizeof(ret->pod));
                        ret->pod_qos = pod_qos_to_string(c->qos);
                }
                if (c->slurm_job[0] != '\0')
                        (void) container_slurm_name(c, ret->slurm_job);
        }
}
