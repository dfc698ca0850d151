/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Containers, pods and batch jobs, by the names that their managers give to cgroups
 *
 * Nobody is asked: neither a container engine, nor a kubelet, nor slurmctld. Each of them writes down in the path of a
 * cgroup what it started there, and those conventions are older and change less than their interfaces. Known are
 * Docker, Podman, containerd (of Kubernetes and by nerdctl), CRI-O, LXC, machines of systemd-machined (systemd-nspawn),
 * pods by the systemd and the cgroupfs driver, and steps of Slurm; each with the systemd driver's names and the plain
 * ones.
 *
 * A path can tell of several, one within the other: a node of "kind" is a container that has pods. container_parse()
 * tells all levels, the outermost first. Who may believe what: the outermost level was named by whoever manages the
 * host's cgroups, which is root, unless that one has given the cgroup away in which it is: which the path does not
 * tell (`end` is for who knows). What is `delegated` was named by the owner of a subtree, who can call it what he
 * likes: it can serve to lower, never to raise.
 */

#include "common/macro.h"

typedef enum ContainerEngine {
        CONTAINER_NONE,       /* of the pod or the job it is not known */
        CONTAINER_DOCKER,     /* also Kubernetes by cri-dockerd */
        CONTAINER_PODMAN,     /* libpod */
        CONTAINER_CONTAINERD, /* cri-containerd, nerdctl */
        CONTAINER_CRIO,
        CONTAINER_CRI,     /* in a pod of the cgroupfs driver, where the name does not say whose it is */
        CONTAINER_LXC,     /* also LXD and Incus */
        CONTAINER_MACHINE, /* systemd-nspawn, and what else registers with systemd-machined */
        _CONTAINER_ENGINE_MAX,
} ContainerEngine;

const char *container_engine_to_string(ContainerEngine v);
int container_engine_from_string(const char *s);

typedef enum PodQos {
        POD_QOS_NONE, /* no pod */
        POD_QOS_GUARANTEED,
        POD_QOS_BURSTABLE,
        POD_QOS_BEST_EFFORT,
        _POD_QOS_MAX,
} PodQos;

/* "", "guaranteed", "burstable", "besteffort": as the kubelet's cgroups are called. */
const char *pod_qos_to_string(PodQos v);
int pod_qos_from_string(const char *s);

#define CONTAINER_ID_MAX  129U /* with the terminating zero; a longer name is none */
#define CONTAINER_POD_MAX 37U
#define CONTAINER_JOB_MAX 33U

/* One level. What is not known is "". */
typedef struct Container {
        ContainerEngine engine;
        char id[CONTAINER_ID_MAX];   /* the full id, or the name of a machine */
        char pod[CONTAINER_POD_MAX]; /* the pod's uid, with its dashes */
        PodQos qos;
        char slurm_job[CONTAINER_JOB_MAX];  /* "4711" */
        char slurm_step[CONTAINER_JOB_MAX]; /* "0", "batch", "extern", "interactive" */
        bool delegated;
        size_t end; /* of the path: of the last name that tells of it */
} Container;

#define CONTAINER_LEVELS_MAX 4U

/* The levels that a cgroup's path tells of, outermost first; 0 when it tells of none. What is deeper than the maximum
 * is left out. */
size_t container_parse(const char *cgroup, Container levels[static CONTAINER_LEVELS_MAX]);

/* "docker:ID", "machine:NAME", ...; "" without an engine. Into buf, which is returned. For people, and for patterns to
 * match. */
#define CONTAINER_NAME_MAX (CONTAINER_ID_MAX + 16U)
const char *container_name(const Container *c, char buf[static CONTAINER_NAME_MAX]);

/* "4711", or "4711.batch" as Slurm writes a step; "" when there is none. */
#define CONTAINER_STEP_MAX ((size_t) 2 * CONTAINER_JOB_MAX)
const char *container_slurm_name(const Container *c, char buf[static CONTAINER_STEP_MAX]);

/* What people are told of a cgroup: of each fact the innermost that there is; "" of what there is none. */
typedef struct ContainerNames {
        char container[CONTAINER_NAME_MAX];
        char pod[CONTAINER_POD_MAX];
        const char *pod_qos;
        char slurm_job[CONTAINER_STEP_MAX];
} ContainerNames;

void container_names(const char *cgroup, ContainerNames *ret);
