/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Containers by the names of their cgroups: paths from real hosts
 */

#include "cgroup/container.h"
#include "tests/lib/unit.h"

#define ID   "3dc1c7b5e5f8b1f6a7d2c9e0b4a3928170fedcba98765432100123456789abcd"
#define ID2  "b93afc0d2a4c55ad8e4d7c6b5a493827160f1e2d3c4b5a69788796a5b4c3d2e1"
#define UID  "2bb4e2b5-9b5c-4f2c-8c4c-ab06a8ef8e35"
#define UID_ "2bb4e2b5_9b5c_4f2c_8c4c_ab06a8ef8e35"
#define HASH "a4f1d1a3ab9a5c8d31d0f59d0e1f0d2b"

typedef struct Expected {
        ContainerEngine engine;
        const char *id, *pod;
        PodQos qos;
        const char *slurm;
        bool delegated;
} Expected;

typedef struct Sample {
        const char *path;
        Expected levels[CONTAINER_LEVELS_MAX];
        size_t n;
} Sample;

#define NAMED(e, i)                                                                                                    \
        { .engine = (e), .id = (i) }
#define OF_POD(e, i, uid, q)                                                                                           \
        { .engine = (e), .id = (i), .pod = (uid), .qos = (q) }
#define STEP(s)                                                                                                        \
        { .slurm = (s) }
#define INNER(e, i)                                                                                                    \
        { .engine = (e), .id = (i), .delegated = true }

static const Sample samples[] = {
                /* no container */
                {"/", {}, 0},
                {"/system.slice/train.service", {}, 0},
                {"/user.slice/user-1000.slice/user@1000.service/app.slice/app-gnome-x.scope", {}, 0},
                {"/system.slice/docker.service", {}, 0},
                {"/system.slice/docker-cleanup.service", {}, 0},
                {"/machine.slice", {}, 0},
                {"/kubepods.slice", {}, 0},
                {"/kubepods.slice/kubepods-burstable.slice", {}, 0},
                {"/system.slice/slurmd.service", {}, 0},
                {"/system.slice/job_1/step_2", {}, 0},
                {"/docker/buildkit", {}, 0},
                {"/lxc.monitor.web", {}, 0},
                /* the monitors of containers are not in them */
                {"/machine.slice/libpod-conmon-" ID ".scope", {}, 0},
                {"/system.slice/crio-conmon-" ID ".scope", {}, 0},

                /* Docker: systemd driver, cgroupfs driver, with systemd inside, rootless */
                {"/system.slice/docker-" ID ".scope", {NAMED(CONTAINER_DOCKER, ID)}, 1},
                {"/docker/" ID, {NAMED(CONTAINER_DOCKER, ID)}, 1},
                {"/docker/" ID "/init.scope", {NAMED(CONTAINER_DOCKER, ID)}, 1},
                {"/gpu-batch.slice/docker-" ID ".scope", {NAMED(CONTAINER_DOCKER, ID)}, 1},
                {"/user.slice/user-1000.slice/user@1000.service/user.slice/docker-" ID ".scope",
                                {INNER(CONTAINER_DOCKER, ID)}, 1},
                /* Docker in Docker */
                {"/docker/" ID "/docker/" ID2, {NAMED(CONTAINER_DOCKER, ID), INNER(CONTAINER_DOCKER, ID2)}, 2},

                /* Podman: root's, rootless, cgroupfs, a pod, a quadlet */
                {"/machine.slice/libpod-" ID ".scope/container", {NAMED(CONTAINER_PODMAN, ID)}, 1},
                {"/machine.slice/libpod-" ID ".scope", {NAMED(CONTAINER_PODMAN, ID)}, 1},
                {"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID ".scope/container",
                                {INNER(CONTAINER_PODMAN, ID)}, 1},
                {"/libpod_parent/libpod-" ID, {NAMED(CONTAINER_PODMAN, ID)}, 1},
                {"/machine.slice/machine-libpod_pod_" ID2 ".slice/libpod-" ID ".scope/container",
                                {NAMED(CONTAINER_PODMAN, ID)}, 1},
                {"/system.slice/infer.service/libpod-payload-" ID, {NAMED(CONTAINER_PODMAN, ID)}, 1},

                /* containerd alone */
                {"/system.slice/nerdctl-" ID ".scope", {NAMED(CONTAINER_CONTAINERD, ID)}, 1},

                /* Kubernetes, systemd driver */
                {"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_ ".slice/cri-containerd-" ID
                 ".scope",
                                {OF_POD(CONTAINER_CONTAINERD, ID, UID, POD_QOS_BURSTABLE)}, 1},
                {"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" UID_ ".slice/crio-" ID
                 ".scope/container",
                                {OF_POD(CONTAINER_CRIO, ID, UID, POD_QOS_BEST_EFFORT)}, 1},
                {"/kubepods.slice/kubepods-pod" UID_ ".slice/docker-" ID ".scope",
                                {OF_POD(CONTAINER_DOCKER, ID, UID, POD_QOS_GUARANTEED)}, 1},
                {"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" HASH ".slice/cri-containerd-" ID
                 ".scope",
                                {OF_POD(CONTAINER_CONTAINERD, ID, HASH, POD_QOS_BURSTABLE)}, 1},
                {"/kubepods.slice/kubepods-pod" UID_ ".slice", {OF_POD(CONTAINER_NONE, NULL, UID, POD_QOS_GUARANTEED)},
                                1},
                /* kubelet with the systemd driver, containerd without it */
                {"/system.slice/containerd.service/kubepods-besteffort-pod" UID_ ".slice:cri-containerd:" ID,
                                {OF_POD(CONTAINER_CONTAINERD, ID, UID, POD_QOS_BEST_EFFORT)}, 1},
                /* Kubernetes, cgroupfs driver */
                {"/kubepods/burstable/pod" UID "/" ID, {OF_POD(CONTAINER_CRI, ID, UID, POD_QOS_BURSTABLE)}, 1},
                {"/kubepods/besteffort/pod" UID "/" ID, {OF_POD(CONTAINER_CRI, ID, UID, POD_QOS_BEST_EFFORT)}, 1},
                {"/kubepods/pod" UID "/" ID, {OF_POD(CONTAINER_CRI, ID, UID, POD_QOS_GUARANTEED)}, 1},
                {"/kubepods/pod" UID "/crio-" ID, {OF_POD(CONTAINER_CRIO, ID, UID, POD_QOS_GUARANTEED)}, 1},
                /* kind: a node is a container */
                {"/system.slice/docker-" ID2 ".scope/kubelet.slice/kubelet-kubepods.slice/"
                 "kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod" UID_ ".slice/cri-containerd-" ID
                 ".scope",
                                {NAMED(CONTAINER_DOCKER, ID2),
                                                {.engine = CONTAINER_CONTAINERD,
                                                                .id = ID,
                                                                .pod = UID,
                                                                .qos = POD_QOS_BURSTABLE,
                                                                .delegated = true}},
                                2},
                {"/docker/" ID2 "/kubelet/kubepods/besteffort/pod" UID "/" ID,
                                {NAMED(CONTAINER_DOCKER, ID2),
                                                {.engine = CONTAINER_CRI,
                                                                .id = ID,
                                                                .pod = UID,
                                                                .qos = POD_QOS_BEST_EFFORT,
                                                                .delegated = true}},
                                2},

                /* Slurm: the layout of v2, with several slurmd on a host, and the older one */
                {"/system.slice/slurmstepd.scope/job_4711/step_0/user/task_3", {STEP("4711.0")}, 1},
                {"/system.slice/slurmstepd.scope/job_4711/step_batch/user/task_0", {STEP("4711.batch")}, 1},
                {"/system.slice/node3_slurmstepd.scope/job_12/step_extern/slurm", {STEP("12.extern")}, 1},
                {"/system.slice/slurmstepd.scope/job_4711", {STEP("4711")}, 1},
                {"/system.slice/slurmstepd.scope/sD6SM85E6NGA00/step_0/user", {STEP("sD6SM85E6NGA00.0")}, 1},
                {"/system.slice/slurmstepd.scope/sD6SM85E6NGAI0/step_0/user", {}, 0},
                {"/system.slice/sD6SM85E6NGA00/step_0/user", {}, 0},
                {"/slurm/uid_1000/job_77/step_interactive/task_0", {STEP("77.interactive")}, 1},
                {"/slurm_node2/uid_1000/job_77/step_1", {STEP("77.1")}, 1},
                {"/system.slice/slurmstepd.scope/job_x/step_0", {}, 0},
                /* a container in a step, steps in a pod */
                {"/system.slice/slurmstepd.scope/job_9/step_0/user/libpod-" ID ".scope",
                                {{.engine = CONTAINER_PODMAN, .id = ID, .slurm = "9.0", .delegated = true}}, 1},
                {"/kubepods.slice/kubepods-pod" UID_ ".slice/cri-containerd-" ID
                 ".scope/system.slice/slurmstepd.scope/job_9/step_0/user/task_0",
                                {OF_POD(CONTAINER_CONTAINERD, ID, UID, POD_QOS_GUARANTEED),
                                                {.slurm = "9.0", .delegated = true}},
                                2},

                /* machines and LXC */
                {"/machine.slice/systemd-nspawn@web.service/payload/system.slice/nginx.service",
                                {NAMED(CONTAINER_MACHINE, "web")}, 1},
                {"/machine.slice/machine-gpu\\x2dbox.scope/payload", {NAMED(CONTAINER_MACHINE, "gpu-box")}, 1},
                {"/machine.slice/machine-a\\xffb.scope", {NAMED(CONTAINER_MACHINE, "a\\xffb")}, 1},
                {"/machine.slice/machine-web.scope/payload/system.slice/docker-" ID ".scope",
                                {NAMED(CONTAINER_MACHINE, "web"), INNER(CONTAINER_DOCKER, ID)}, 2},
                {"/lxc.payload.web/system.slice/nginx.service", {NAMED(CONTAINER_LXC, "web")}, 1},
                {"/lxc.payload/web", {NAMED(CONTAINER_LXC, "web")}, 1},
                {"/lxc/101/ns/init.scope", {NAMED(CONTAINER_LXC, "101")}, 1},
                {"/system.slice/my.service/lxc/101", {}, 0},

                /* names that only look like a container's */
                {"/system.slice/docker-" ID "00.scope", {}, 0},
                {"/system.slice/docker-xyz.scope", {}, 0},
                {"/kubepods.slice/kubepods-burstable-pod123.slice/cri-containerd-" ID ".scope",
                                {NAMED(CONTAINER_CONTAINERD, ID)}, 1},
                {"/mykubepods-pod" UID_ ".slice", {}, 0},
                {"//docker//" ID "/", {NAMED(CONTAINER_DOCKER, ID)}, 1},
};

static void check_level(const char *path, const Container *c, const Expected *e) {
        char slurm[CONTAINER_STEP_MAX];

        if (c->engine != e->engine || !streq(c->id, strempty(e->id)) || !streq(c->pod, strempty(e->pod)) ||
                        c->qos != e->qos || !streq(container_slurm_name(c, slurm), strempty(e->slurm)) ||
                        c->delegated != e->delegated)
                fail_msg("%s: %s '%s' pod '%s' (%s) slurm '%s'%s", path, container_engine_to_string(c->engine), c->id,
                                c->pod, pod_qos_to_string(c->qos), slurm, c->delegated ? " delegated" : "");
}

static void test_samples(void **state) {
        for (size_t i = 0; i < ELEMENTSOF(samples); i++) {
                Container levels[CONTAINER_LEVELS_MAX];
                size_t n = container_parse(samples[i].path, levels);

                if (n != samples[i].n)
                        fail_msg("%s: %zu levels, not %zu", samples[i].path, n, samples[i].n);
                for (size_t k = 0; k < n; k++)
                        check_level(samples[i].path, levels + k, samples[i].levels + k);
        }
}

static void test_names(void **state) {
        const Container docker = {.engine = CONTAINER_DOCKER, .id = ID};
        const Container none = {.engine = CONTAINER_NONE};
        char name[CONTAINER_NAME_MAX], step[CONTAINER_STEP_MAX];

        assert_string_equal(container_name(&docker, name), "docker:" ID);
        assert_string_equal(container_name(&none, name), "");
        assert_string_equal(container_slurm_name(&none, step), "");
        for (ContainerEngine e = 0; e < _CONTAINER_ENGINE_MAX; e++)
                for (ContainerEngine other = 0; other < e; other++)
                        assert_string_not_equal(container_engine_to_string(other), container_engine_to_string(e));
        for (PodQos q = 0; q < _POD_QOS_MAX; q++)
                for (PodQos other = 0; other < q; other++)
                        assert_string_not_equal(pod_qos_to_string(other), pod_qos_to_string(q));
}

/* With two levels, each fact comes from the innermost level that has it. */
static void test_innermost(void **state) {
        ContainerNames n;

        container_names("/system.slice/docker-" ID2 ".scope/kubelet.slice/kubelet-kubepods-pod" UID_
                        ".slice/cri-containerd-" ID ".scope",
                        &n);
        assert_string_equal(n.container, "containerd:" ID);
        assert_string_equal(n.pod, UID);
        assert_string_equal(n.pod_qos, "guaranteed");
        assert_string_equal(n.slurm_job, "");
        container_names("/kubepods/burstable/pod" UID "/" ID "/system.slice/slurmstepd.scope/job_9/step_0/user/task_0",
                        &n);
        assert_string_equal(n.container, "cri:" ID);
        assert_string_equal(n.pod, UID);
        assert_string_equal(n.pod_qos, "burstable");
        assert_string_equal(n.slurm_job, "9.0");
        container_names("/system.slice/a.service", &n);
        assert_string_equal(n.container, "");
        assert_string_equal(n.pod, "");
        assert_string_equal(n.pod_qos, "");
        assert_string_equal(n.slurm_job, "");
}

/* Paths deeper than the reported levels, longer than any buffer, and of one character: nothing is written out of
 * bounds. */
static void test_bounds(void **state) {
        char path[8192] = "";
        Container levels[CONTAINER_LEVELS_MAX];

        for (unsigned i = 0; i < 20; i++)
                strcat(path, "/docker/" ID);
        assert_int_equal(container_parse(path, levels), CONTAINER_LEVELS_MAX);
        assert_false(levels[0].delegated);
        assert_true(levels[CONTAINER_LEVELS_MAX - 1].delegated);

        for (size_t n = CONTAINER_ID_MAX - 2; n < CONTAINER_ID_MAX + 2; n++) {
                strcpy(path, "/machine.slice/systemd-nspawn@");
                size_t at = strlen(path);
                memset(path + at, 'x', n);
                strcpy(path + at + n, ".service");
                assert_int_equal(container_parse(path, levels), n < CONTAINER_ID_MAX ? 1 : 0);
        }
        assert_int_equal(container_parse("/machine.slice/systemd-nspawn@.service", levels), 0);
        assert_int_equal(container_parse("", levels), 0);
        assert_int_equal(container_parse("////", levels), 0);
}

/* Every prefix and every single changed byte of the samples: no read out of bounds, whatever the result. */
static void test_damaged(void **state) {
        for (size_t i = 0; i < ELEMENTSOF(samples); i++) {
                Container levels[CONTAINER_LEVELS_MAX];
                size_t n = strlen(samples[i].path);

                for (size_t k = 0; k <= n; k++) {
                        char *s = strndup(samples[i].path, k);
                        assert_non_null(s);
                        assert_true(container_parse(s, levels) <= CONTAINER_LEVELS_MAX);
                        free(s);
                        s = strdup(samples[i].path);
                        assert_non_null(s);
                        s[k] = k == n ? '\0' : (char) (s[k] ^ 0x55);
                        assert_true(container_parse(s, levels) <= CONTAINER_LEVELS_MAX);
                        free(s);
                }
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_samples),
                        cmocka_unit_test(test_names),
                        cmocka_unit_test(test_innermost),
                        cmocka_unit_test(test_bounds),
                        cmocka_unit_test(test_damaged),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
