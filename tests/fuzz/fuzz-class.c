/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Any bytes as a class, and as its drop-in
 *
 * Every value is within its range. A [Match] of which a line was refused matches no process, and a class that was good
 * before the drop-in stays good.
 */

#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "service/settings/class.h"
#include "tests/fuzz/fuzz-settings.h"

static char directory[] = "/tmp/fuzz-class.XXXXXX";

static void clean_up(void) {
        char path[128];

        (void) snprintf(path, sizeof(path), "%s/x.class", directory);
        (void) unlink(path);
        (void) snprintf(path, sizeof(path), "%s/good.class", directory);
        (void) unlink(path);
        (void) rmdir(directory);
}

static void link_file(const char *name, int fd) {
        char path[128], target[64];

        (void) snprintf(path, sizeof(path), "%s/%s", directory, name);
        (void) snprintf(target, sizeof(target), "/proc/self/fd/%i", fd);
        require(symlink(target, path) == 0);
}

/* The file that is read, by its fd. */
static int set_up(void) {
        static const char good[] = "[Class]\nPriority=7\n[Match]\nUnit=good.service\n";
        int fd = memfd_create("x.class", MFD_CLOEXEC), other = memfd_create("good.class", MFD_CLOEXEC);

        require(fd >= 0 && other >= 0 && mkdtemp(directory));
        require(write(other, good, strlen(good)) == (ssize_t) strlen(good));
        link_file("x.class", fd);
        link_file("good.class", other);
        (void) atexit(clean_up);
        return fd;
}

static void count(const ConfProblem *p, void *userdata) {
        require(p->message[0] != '\0' && p->file[0] != '\0');
}

static void check_classes(const Classes *classes) {
        static const char *const paths[] = {"/", "/a.slice/good.service", "/user.slice/user@1.service/x.slice/y.scope"};
        MatchFacts all, trusted;

        for (size_t i = 0; i < classes->n; i++)
                check_settings(&classes->classes[i].settings);
        for (size_t i = 0; i < ELEMENTSOF(paths); i++) {
                match_facts_all(paths[i], 1, "/usr/bin/x", &all);
                match_facts_trusted(paths[i], SIZE_MAX, 1, &trusted);
                const Class *c = classes_match(classes, &trusted, NULL);
                require(!c || !c->match.broken);
                c = classes_match(classes, &all, &trusted);
                require(!c || !match_test(&c->match, &trusted));
                _cleanup_free_ char *why = NULL;
                require(!c || (match_explain(&c->match, &all, &why) == 0 && !isempty(why)));
        }
        const Class *good = classes_find(classes, "good");
        require(good && good->settings.priority == 7 && good->match.n == 1 && classes_find(classes, "default"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static int fd = -1;

        if (fd < 0)
                fd = set_up();
        require(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t) size);
        const char *const dirs[] = {directory, NULL};
        Classes first = CLASSES_NULL, second = CLASSES_NULL;
        require(classes_load(dirs, NULL, count, NULL, &first) == 0);
        check_classes(&first);
        require(classes_load(dirs, &first, count, NULL, &second) == 0);
        check_classes(&second);
        require(first.n == second.n);
        classes_done(&first);
        classes_done(&second);
        return 0;
}
