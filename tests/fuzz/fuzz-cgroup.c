/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Any path as a cgroup's
 *
 * The owner of a delegated cgroup names the directories below it. All results are terminated text of the path. No name
 * below a user's unit gives a process a unit or container that only root can name.
 */

#include "cgroup/cgroup-path.h"
#include "cgroup/container.h"
#include "cgroup/unit-query.h"
#include "service/settings/match.h"
#include "tests/fuzz/fuzz-settings.h"

static void check_levels(const char *path) {
        Container levels[CONTAINER_LEVELS_MAX];
        char name[CONTAINER_NAME_MAX], step[CONTAINER_STEP_MAX];

        size_t n = container_parse(path, levels);
        require(n <= CONTAINER_LEVELS_MAX);
        for (size_t i = 0; i < n; i++) {
                const Container *c = levels + i;
                require(strnlen(c->id, sizeof(c->id)) < sizeof(c->id));
                require(strnlen(c->pod, sizeof(c->pod)) < sizeof(c->pod));
                require(strnlen(c->slurm_job, sizeof(c->slurm_job)) < sizeof(c->slurm_job));
                require(strnlen(c->slurm_step, sizeof(c->slurm_step)) < sizeof(c->slurm_step));
                require(strlen(container_name(c, name)) < sizeof(name));
                require(strlen(container_slurm_name(c, step)) < sizeof(step));
                require(i == 0 || levels[i].delegated || !levels[i - 1].delegated); /* once given away, always */
        }
}

/* Below the tree's root there is no way out of it by a normal path. */
static void check_normal(const char *path) {
        _cleanup_free_ char *copy = strdup(path);
        char *saved = NULL;
        size_t n = 1;

        require(copy);
        if (!cgroup_path_is_normal(path))
                return;
        for (char *name = strtok_r(copy, "/", &saved); name; name = strtok_r(NULL, "/", &saved)) {
                require(!streq(name, ".") && !streq(name, ".."));
                n += strlen(name) + 1;
        }
        require(n == strlen(path) + (path[1] != '\0')); /* no slash but one before each name */
}

static void check_names(const char *path) {
        _cleanup_free_ char *unit = NULL, *slice = NULL, *own = NULL;

        require(cgroup_path_unit(path, &unit) == 0 && cgroup_path_slice(path, &slice) == 0);
        require(isempty(unit) || strstr(path, unit));
        require(isempty(slice) || strstr(path, slice));
        int r = cgroup_path_is_unit(path, &own);
        require(r == 0 ? !own : r > 0 && own);
        size_t n = cgroup_path_trusted(path);
        require(n <= strlen(path));
        require(path[n] == '\0' || path[n] == '/');
}

/* Cgroups below a service do not make the service match more. */
static void check_match(const char *path) {
        static const struct {
                MatchKey key;
                const char *value;
        } all[] = {{MATCH_UNIT, "vip.service"}, {MATCH_SLICE, "vip.slice"}, {MATCH_CONTAINER, "*"}, {MATCH_POD, "*"},
                        {MATCH_SLURM_JOB, "*"}};
        _cleanup_free_ char *below = NULL;
        MatchFacts f;

        require(asprintf(&below, "/user.slice/user@1.service/%s", path) > 0);
        match_facts_trusted(below, SIZE_MAX, 1, &f);
        for (size_t i = 0; i < ELEMENTSOF(all); i++) {
                _cleanup_(match_done)
                Match m = MATCH_NULL;
                require(match_assign(&m, match_items + all[i].key, all[i].value, "x", 1) == 0);
                require(!match_test(&m, &f));
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_free_ char *path = malloc(size + 1);

        require(path);
        memcpy(path, data, size);
        path[size] = '\0';
        check_normal(path);
        check_names(path);
        check_levels(path);
        check_match(path);
        return 0;
}
