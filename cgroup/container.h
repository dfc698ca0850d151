/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Containers, pods and batch jobs, by the names that their managers give to cgroups
 *
 * No container engine, kubelet or slurmctld is asked. Each of them names the cgroups of what it starts by conventions
 * that are older, and change less, than their interfaces. Known are Docker, Podman, containerd (of Kubernetes and by
 * nerdctl), CRI-O, LXC, machines of systemd-machined (systemd-nspawn), pods by the systemd and the cgroupfs driver, and
 * steps of Slurm; each with the systemd driver's names and the plain ones.
 *
 * A path can name several levels, one within the other: a node of "kind" is a container that has pods.
 * container_parse() returns all levels, the outermost first. Trust: the manager of the host's cgroups, which is root,
 * has named the outermost level, unless root has delegated the cgroup that it is in. The path does not show that; a
 * caller that knows compares `end`. A level with `delegated` was named by the owner of a subtree, at will: it may be
 * used to lower, never to raise.
 */

#include "common/macro.h"

typedef enum ContainerEngine {
        CONTAINER_NONE,       /* the engine of the pod or job is unknown */
        CONTAINER_DOCKER,     /* also Kubernetes by cri-dockerd */
        CONTAINER_PODMAN,     /* libpod */
        CONTAINER_CONTAINERD, /* cri-containerd, nerdctl */
        CONTAINER_CRIO,
        CONTAINER_CRI,     /* in a pod of the cgroupfs driver, whose names do not show the engine */
        CONTAINER_LXC,     /* also LXD and Incus */
        CONTAINER_MACHINE, /* systemd-nspawn, and others that register with systemd-machined */
        _CONTAINER_ENGINE_MAX,
} ContainerEngine;

const char *container_engine_to_string(ContainerEngine v);

typedef enum PodQos {
        POD_QOS_NONE, /* no pod */
        POD_QOS_GUARANTEED,
        POD_QOS_BURSTABLE,
        POD_QOS_BEST_EFFORT,
        _POD_QOS_MAX,
} PodQos;

/* "", "guaranteed", "burstable", "besteffort": the names of the kubelet's cgroups. */
const char *pod_qos_to_string(PodQos v);

#define CONTAINER_ID_MAX  129U /* with the terminating zero; a longer name is none */
#define CONTAINER_POD_MAX 37U
#define CONTAINER_JOB_MAX 33U

/* One level. Unknown members are "". */
typedef struct Container {
        ContainerEngine engine;
        char id[CONTAINER_ID_MAX];   /* the full id, or the name of a machine */
        char pod[CONTAINER_POD_MAX]; /* the pod's uid, with its dashes */
        PodQos qos;
        char slurm_job[CONTAINER_JOB_MAX];  /* "4711" */
        char slurm_step[CONTAINER_JOB_MAX]; /* "0", "batch", "extern", "interactive" */
        bool delegated;
        size_t end; /* bytes of the path up to the end of the last name of this level */
} Container;

#define CONTAINER_LEVELS_MAX 4U

/* Returns the number of levels in a cgroup's path, and the levels, outermost first. Levels beyond the maximum are left
 * out. */
size_t container_parse(const char *cgroup, Container levels[static CONTAINER_LEVELS_MAX]);

/* Writes "docker:ID", "machine:NAME", ... into buf and returns it; "" without an engine. For people, and for patterns
 * to match. */
#define CONTAINER_NAME_MAX (CONTAINER_ID_MAX + 16U)
const char *container_name(const Container *c, char buf[static CONTAINER_NAME_MAX]);

/* "4711", or "4711.batch" as Slurm writes a step; "" when there is none. */
#define CONTAINER_STEP_MAX ((size_t) 2 * CONTAINER_JOB_MAX)
const char *container_slurm_name(const Container *c, char buf[static CONTAINER_STEP_MAX]);

/* A summary of a cgroup for people: each fact from the innermost level that has it; "" for unknown ones. */
typedef struct ContainerNames {
        char container[CONTAINER_NAME_MAX];
        char pod[CONTAINER_POD_MAX];
        const char *pod_qos;
        char slurm_job[CONTAINER_STEP_MAX];
} ContainerNames;

void container_names(const char *cgroup, ContainerNames *ret);
