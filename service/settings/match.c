/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * [Match]
 */

#include <fnmatch.h>
#include <pwd.h>
#include <stdio.h>

#include "cgroup/cgroup-path.h"
#include "common/array.h"
#include "common/parse-util.h"
#include "match.h"

#define PATTERNS_MAX    ((size_t) 1024)
#define SPACE           " \t"
#define MATCH_LABEL_MAX ((size_t) 256) /* bytes of a key */

static const char *const match_key_table[_MATCH_KEY_MAX] = {
                [MATCH_UNIT] = "Unit",
                [MATCH_SLICE] = "Slice",
                [MATCH_GROUP] = "Group",
                [MATCH_USER] = "User",
                [MATCH_CONTAINER] = "Container",
                [MATCH_POD] = "Pod",
                [MATCH_NAMESPACE] = "Namespace",
                [MATCH_POD_LABEL] = "PodLabel",
                [MATCH_PRIORITY_CLASS] = "PriorityClass",
                [MATCH_SLURM_JOB] = "SlurmJob",
                [MATCH_EXECUTABLE] = "Executable",
};
DEFINE_STRING_TABLE_TO_STRING(match_key, MatchKey);

static const ConfType type_units = {"names of services and scopes (\"train.service\", \"train-*\")", NULL, NULL};
static const ConfType type_slices = {"names of slices (\"gpu-batch.slice\", \"gpu-*\")", NULL, NULL};
static const ConfType type_groups = {"paths of cgroups (\"/kubepods.slice\", \"/system.slice/train-*\")", NULL, NULL};
static const ConfType type_users = {"a list of names or numbers of existing users", NULL, NULL};
static const ConfType type_patterns = {"patterns (\"docker:*\")", NULL, NULL};
static const ConfType type_names = {"patterns of names (\"research-*\")", NULL, NULL};
static const ConfType type_labels = {
                "labels, with a pattern of their value (\"app=trainer-*\") or alone (\"app\")", NULL, NULL};
static const ConfType type_executables = {"paths or names of executables (\"/usr/bin/*\", \"python3*\")", NULL, NULL};

const ConfItem match_items[_MATCH_KEY_MAX] = {
                [MATCH_UNIT] = {.key = "Unit", .type = &type_units},
                [MATCH_SLICE] = {.key = "Slice", .type = &type_slices},
                [MATCH_GROUP] = {.key = "Group", .type = &type_groups},
                [MATCH_USER] = {.key = "User", .type = &type_users},
                [MATCH_CONTAINER] = {.key = "Container", .type = &type_patterns},
                [MATCH_POD] = {.key = "Pod", .type = &type_patterns},
                [MATCH_NAMESPACE] = {.key = "Namespace", .type = &type_names},
                [MATCH_POD_LABEL] = {.key = "PodLabel", .type = &type_labels},
                [MATCH_PRIORITY_CLASS] = {.key = "PriorityClass", .type = &type_names},
                [MATCH_SLURM_JOB] = {.key = "SlurmJob", .type = &type_patterns},
                [MATCH_EXECUTABLE] = {.key = "Executable", .type = &type_executables},
};

/* --- reading --- */

static void pattern_done(MatchPattern *p) {
        free(p->text);
        free(p->file);
}

void match_done(Match *m) {
        for (size_t i = 0; i < m->n; i++)
                pattern_done(m->patterns + i);
        free(m->patterns);
        *m = MATCH_NULL;
}

static void match_forget(Match *m, MatchKey key) {
        size_t kept = 0;

        for (size_t i = 0; i < m->n; i++)
                if (m->patterns[i].key == key)
                        pattern_done(m->patterns + i);
                else
                        m->patterns[kept++] = m->patterns[i];
        m->n = kept;
}

static int parse_user(const char *name, uid_t *ret) {
        uint64_t v;

        if (parse_uint64(name, 0, UINT32_MAX - 1, &v) >= 0) {
                *ret = (uid_t) v;
                return 0;
        }
        const struct passwd *p = getpwnam(name);
        if (!p)
                return -EINVAL;
        *ret = p->pw_uid;
        return 0;
}

/* Refuses words that can match nothing: a unit without its suffix, an executable by a relative path. */
static bool is_sensible(MatchKey key, const char *word) {
        if (isempty(word) || strlen(word) >= 4096 || !string_is_printable(word))
                return false;
        switch (key) {
        case MATCH_UNIT:
        case MATCH_SLICE:
                return !strchr(word, '/') && strpbrk(word, ".*?[");
        case MATCH_GROUP:
                return cgroup_path_is_normal(word);
        case MATCH_EXECUTABLE:
                return !strchr(word, '/') || strchr("/*?[", word[0]);
        case MATCH_NAMESPACE:
        case MATCH_PRIORITY_CLASS:
                return !strchr(word, '/');
        case MATCH_POD_LABEL:
                return word[0] != '=' && strcspn(word, "*?[") >= strcspn(word, "=");
        default:
                return true;
        }
}

static int match_add(Match *m, const MatchPattern *from) {
        if (m->n >= PATTERNS_MAX)
                return -E2BIG;
        MatchPattern *grown = array_grow(m->patterns, m->n, sizeof(MatchPattern));
        if (!grown)
                return -ENOMEM;
        m->patterns = grown;

        MatchPattern p = *from;
        p.text = strdup(from->text);
        p.file = strdup(from->file);
        if (!p.text || !p.file) {
                pattern_done(&p);
                return -ENOMEM;
        }
        m->patterns[m->n++] = p;
        return 0;
}

static int add_word(Match *m, const MatchPattern *where, char *word) {
        MatchPattern p = *where;

        if (*word == '!') {
                p.negated = true;
                word++;
        }
        if (!is_sensible(p.key, word))
                return -EINVAL;
        if (p.key == MATCH_USER) {
                int r = parse_user(word, &p.uid);
                if (r < 0)
                        return r;
        }
        p.text = word;
        return match_add(m, &p);
}

/* Adds a list of words. "!a b" excludes both, as in systemd's files. */
static int add_words(Match *m, const MatchPattern *where, const char *value) {
        _cleanup_free_ char *copy = strdup(value);
        MatchPattern p = *where;
        char *saved = NULL;

        if (!copy)
                return -ENOMEM;
        p.negated = copy[strspn(copy, SPACE)] == '!';
        for (char *word = strtok_r(copy, SPACE, &saved); word; word = strtok_r(NULL, SPACE, &saved)) {
                int r = add_word(m, &p, word);
                if (r < 0)
                        return r;
        }
        return 0;
}

int match_assign(Match *m, const ConfItem *item, const char *value, const char *file, unsigned line) {
        if (!item) {
                m->broken = true;
                return 0;
        }

        const MatchPattern where = {.key = (MatchKey) (item - match_items), .file = (char *) file, .line = line};
        if (isempty(value)) {
                match_forget(m, where.key);
                return 0;
        }
        int r = add_words(m, &where, value);
        if (r < 0)
                m->broken = true;
        return r;
}

bool match_has(const Match *m, MatchKey key) {
        for (size_t i = 0; i < m->n; i++)
                if (m->patterns[i].key == key)
                        return true;
        return false;
}

int match_copy(const Match *m, Match *ret) {
        _cleanup_(match_done)
        Match copy = MATCH_NULL;

        for (size_t i = 0; i < m->n; i++) {
                int r = match_add(&copy, m->patterns + i);
                if (r < 0)
                        return r;
        }
        copy.broken = m->broken;
        *ret = TAKE_GENERIC(copy, MATCH_NULL);
        return 0;
}

/* --- asking --- */

void match_facts_trusted(const char *cgroup, size_t named, uid_t uid, MatchFacts *ret) {
        Container levels[CONTAINER_LEVELS_MAX];

        *ret = (MatchFacts){.cgroup = strempty(cgroup), .uid = uid};
        ret->cgroup_size = MIN(cgroup_path_trusted(ret->cgroup), named);
        size_t n = container_parse(ret->cgroup, levels);
        for (size_t i = 0; i < n; i++)
                if (!levels[i].delegated && levels[i].end <= named)
                        ret->levels[ret->n_levels++] = levels[i];
}

void match_facts_all(const char *cgroup, uid_t uid, const char *executable, MatchFacts *ret) {
        *ret = (MatchFacts){.cgroup = strempty(cgroup), .uid = uid, .executable = executable};
        ret->cgroup_size = strlen(ret->cgroup);
        ret->n_levels = container_parse(ret->cgroup, ret->levels);
}

void match_facts_add_label(MatchFacts *f, const char *key, const char *value) {
        if (f->n_labels < MATCH_LABELS_MAX)
                f->labels[f->n_labels++] = (MatchLabel){key, value};
}

static bool glob_fits(const char *pattern, const char *s) {
        return !isempty(s) && fnmatch(pattern, s, 0) == 0;
}

/* Matches a container by its id or name, or with its engine: "docker:0123...". */
static bool container_fits(const char *pattern, const Container *c) {
        char name[CONTAINER_NAME_MAX];

        return glob_fits(pattern, c->id) || glob_fits(pattern, container_name(c, name));
}

/* Matches a pod by its uid, or with its quality of service: "burstable:0123-...". */
static bool pod_fits(const char *pattern, const Container *c) {
        char name[CONTAINER_POD_MAX + 16];

        if (c->qos == POD_QOS_NONE)
                return false;
        (void) snprintf(name, sizeof(name), "%s:%s", pod_qos_to_string(c->qos), c->pod);
        return glob_fits(pattern, c->pod) || glob_fits(pattern, name);
}

/* Matches a job of Slurm by its number, or with its step: "4711.batch". */
static bool slurm_fits(const char *pattern, const Container *c) {
        char name[CONTAINER_STEP_MAX];

        return glob_fits(pattern, c->slurm_job) || glob_fits(pattern, container_slurm_name(c, name));
}

static bool any_level_fits(
                const MatchFacts *f, const char *pattern, bool (*fits)(const char *pattern, const Container *c)) {
        for (size_t i = 0; i < f->n_levels; i++)
                if (fits(pattern, f->levels + i))
                        return true;
        return false;
}

/* NULL: there is none. */
static const char *find_label(const MatchFacts *f, const char *key) {
        for (size_t i = 0; i < f->n_labels; i++)
                if (streq(f->labels[i].key, key))
                        return f->labels[i].value;
        return NULL;
}

/* "app=train*", whatever value "app" has, which may be an empty one. */
static bool pod_label_fits(const char *pattern, const MatchFacts *f) {
        char key[MATCH_LABEL_MAX];
        size_t n = strcspn(pattern, "=");

        int r = snprintf(key, sizeof(key), "pod-label.%.*s", (int) n, pattern);
        if (r < 0 || (size_t) r >= sizeof(key))
                return false;
        const char *value = find_label(f, key);
        return value && (pattern[n] == '\0' || fnmatch(pattern + n + 1, value, 0) == 0);
}

static bool executable_fits(const char *pattern, const char *s) {
        if (isempty(s) || strchr(pattern, '/'))
                return glob_fits(pattern, s);
        const char *slash = strrchr(s, '/');
        return glob_fits(pattern, slash ? slash + 1 : s);
}

static bool pattern_fits(const MatchPattern *p, const MatchFacts *f) {
        switch (p->key) {
        case MATCH_UNIT:
                return cgroup_path_has_unit(f->cgroup, f->cgroup_size, p->text);
        case MATCH_SLICE:
                return cgroup_path_has_slice(f->cgroup, f->cgroup_size, p->text);
        case MATCH_GROUP:
                return cgroup_path_is_in(f->cgroup, f->cgroup_size, p->text);
        case MATCH_USER:
                return f->uid == p->uid;
        case MATCH_CONTAINER:
                return any_level_fits(f, p->text, container_fits);
        case MATCH_POD:
                return any_level_fits(f, p->text, pod_fits);
        case MATCH_NAMESPACE:
                return glob_fits(p->text, find_label(f, "namespace"));
        case MATCH_POD_LABEL:
                return pod_label_fits(p->text, f);
        case MATCH_PRIORITY_CLASS:
                return glob_fits(p->text, find_label(f, "priority-class"));
        case MATCH_SLURM_JOB:
                return any_level_fits(f, p->text, slurm_fits);
        case MATCH_EXECUTABLE:
                return executable_fits(p->text, f->executable);
        default:
                return false;
        }
}

static bool is_known(MatchKey key, const MatchFacts *f) {
        return key == MATCH_USER ? f->uid != MATCH_NO_USER : key != MATCH_EXECUTABLE || f->executable;
}

/* Returns whether the key's condition is true. *ret_why: the pattern that matches, or the last of the excluding ones,
 * which do not; NULL: the key has no condition. */
static bool key_holds(const Match *m, MatchKey key, const MatchFacts *f, const MatchPattern **ret_why) {
        const MatchPattern *fits = NULL, *spares = NULL;
        bool must_fit = false;

        for (size_t i = 0; i < m->n; i++) {
                const MatchPattern *p = m->patterns + i;

                if (p->key != key)
                        continue;
                bool yes = pattern_fits(p, f);
                if (p->negated && yes)
                        return false;
                if (p->negated)
                        spares = p;
                else {
                        must_fit = true;
                        if (yes && !fits)
                                fits = p;
                }
        }
        *ret_why = fits ?: spares;
        if (must_fit && !fits)
                return false;
        return !*ret_why || is_known(key, f);
}

bool match_test(const Match *m, const MatchFacts *f) {
        const MatchPattern *why;

        if (m->broken || m->n == 0)
                return false;
        for (MatchKey key = 0; key < _MATCH_KEY_MAX; key++)
                if (!key_holds(m, key, f, &why))
                        return false;
        return true;
}

int match_explain(const Match *m, const MatchFacts *f, char **ret) {
        const MatchPattern *last = NULL, *why;
        char *text = NULL;
        size_t size;
        FILE *stream = open_memstream(&text, &size);

        if (!stream)
                return negative_errno();
        for (MatchKey key = 0; key < _MATCH_KEY_MAX; key++) {
                if (!key_holds(m, key, f, &why) || !why)
                        continue;
                if (last)
                        fputs(", ", stream);
                if (!last || last->line != why->line || !streq(last->file, why->file))
                        fprintf(stream, "%s:%u: ", why->file, why->line);
                fprintf(stream, "%s=%s%s", match_key_to_string(key), why->negated ? "!" : "", why->text);
                last = why;
        }
        bool failed = ferror(stream);
        if (fclose(stream) != 0 || failed) {
                free(text);
                return -ENOMEM;
        }
        *ret = text;
        return 0;
}
