/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * xsched.conf and classes: precedence of places, the settings of a device, and that a reload of broken files loses
 * nothing
 *
 * Arguments: the shipped xsched.conf and the shipped classes.d.
 */

#include <config.h>

#include <stdio.h>
#include <sys/stat.h>

#include "tests/unit/config-fixture.h"

static const char *shipped_config, *shipped_classes;

static void test_nothing_is_defaults(void **state) {
        _cleanup_(config_freep)
        Config *c = load(NULL);

        assert_int_equal(n_problems, 0);
        assert_defaults(c);
        assert_int_equal(c->n_sections, 0);
        assert_int_equal(c->classes.n, 1);
        assert_string_equal(c->classes.classes[0].name, "default");
        assert_int_equal(c->classes.classes[0].settings.mask, 0);
}

/* The comments of the shipped file give the defaults: uncommented, they must change nothing and name every key. */
static void test_shipped_file(void **state) {
        char line[512], text[16384] = "";
        FILE *f = fopen(shipped_config, "re");
        assert_non_null(f);
        while (fgets(line, sizeof(line), f)) {
                size_t n = strlen(text);
                bool commented = line[0] == '#' && line[1] >= 'A' && line[1] <= 'Z' && strchr(line, '=');
                (void) snprintf(text + n, sizeof(text) - n, "%s", line + (commented ? 1 : 0));
        }
        (void) fclose(f);

        for (size_t i = 0; i < config_sections_n; i++)
                for (size_t k = 0; k < config_sections[i].n_items; k++) {
                        char key[64];
                        (void) snprintf(key, sizeof(key), "\n%s=", config_sections[i].items[k].key);
                        if (!strstr(text, key))
                                fail_msg("The shipped file does not mention %s", key + 1);
                }

        put(ETC "/xsched.conf", text);
        _cleanup_(config_freep)
        Config *c = load(NULL);
        assert_string_equal(problems, "");
        assert_defaults(c);

        put(ETC "/xsched.conf", "[Scheduler]\nTimeSlice=7ms\n");
        _cleanup_(config_freep)
        Config *other = load(NULL);
        assert_int_equal(other->device.params.timeslice_ns, 7 * NSEC_PER_MSEC);
}

static void test_all_keys(void **state) {
        put(ETC "/xsched.conf",
                        "[Scheduler]\nPolicy=tree\nConcurrency=4\nTimeSlice=2ms\nStarveAfter=2s\nStarveRun=20ms\n"
                        "Linger=0\nThreshold=8\nBudget=1ms\nBusyPoll=2ms\nCPULatency=20us\n"
                        "Preemption=3\nAdaptive=no\nAllowMESPreemption=yes\n"
                        "[Limits]\nMaxClientsPerUser=1\nMaxQueuesPerUser=2\nMaxQueuesPerClient=3\n"
                        "MaxJobsPerUser=4\nMaxDevicesPerUser=5\n"
                        "[Log]\nLevel=debug\nTarget=console\n");
        _cleanup_(config_freep)
        Config *c = load(NULL);
        assert_string_equal(problems, "");
        assert_string_equal(c->device.policy->name, "tree");
        assert_int_equal(c->device.params.concurrency, 4);
        assert_int_equal(c->device.params.timeslice_ns, 2 * NSEC_PER_MSEC);
        assert_int_equal(c->device.params.starve_ns, 2 * NSEC_PER_SEC);
        assert_int_equal(c->device.params.starve_run_ns, 20 * NSEC_PER_MSEC);
        assert_int_equal(c->device.params.linger_ns, 0);
        assert_int_equal(c->device.params.threshold, 8);
        assert_int_equal(c->device.tuning.budget_us, 1000);
        assert_int_equal(c->device.tuning.busy_poll_ns, 2 * NSEC_PER_MSEC);
        assert_int_equal(c->device.tuning.cpu_latency_ns, 20 * NSEC_PER_USEC);
        assert_int_equal(c->device.tuning.preemption, PREEMPTION_INTERRUPT);
        assert_false(c->device.tuning.adaptive);
        assert_true(c->device.tuning.allow_mes);
        assert_int_equal(c->limits.clients_per_user, 1);
        assert_int_equal(c->limits.queues_per_user, 2);
        assert_int_equal(c->limits.queues_per_client, 3);
        assert_int_equal(c->limits.jobs_per_user, 4);
        assert_int_equal(c->limits.devices_per_user, 5);
        assert_int_equal(c->log_level, LOG_DEBUG);
        assert_int_equal(c->log_target, LOG_TARGET_CONSOLE);
}

static void test_precedence(void **state) {
        put(USR "/xsched.conf", "[Scheduler]\nThreshold=2\nConcurrency=2\n");
        put(USR "/xsched.conf.d/50-x.conf", "[Scheduler]\nThreshold=3\n");
        put(USR "/xsched.conf.d/70-last.conf", "[Limits]\nMaxJobsPerUser=70\n");
        put(USR "/xsched.conf.d/60-masked.conf", "[Limits]\nMaxJobsPerUser=60\nMaxQueuesPerUser=60\n");
        _cleanup_(config_freep)
        Config *a = load(NULL);
        assert_int_equal(a->device.params.threshold, 3);
        assert_int_equal(a->device.params.concurrency, 2);
        assert_int_equal(a->limits.jobs_per_user, 70);
        assert_int_equal(a->limits.queues_per_user, 60);

        /* The first main file that exists is read, and only that. */
        put(ETC "/xsched.conf", "[Scheduler]\nThreshold=9\n");
        /* A file of the same name masks the other, and keeps its place in the order. */
        put(RUN "/xsched.conf.d/50-x.conf", "[Limits]\nMaxJobsPerUser=50\n");
        put(ETC "/xsched.conf.d/60-masked.conf", "");
        _cleanup_(config_freep)
        Config *b = load(NULL);
        assert_string_equal(problems, "");
        assert_int_equal(b->device.params.threshold, 9);
        assert_int_equal(b->device.params.concurrency, 1);
        assert_int_equal(b->limits.jobs_per_user, 70);
        assert_int_equal(b->limits.queues_per_user, 16384);
}

static void test_devices(void **state) {
        DeviceConfig d;

        put(ETC "/xsched.conf",
                        "[Scheduler]\nTimeSlice=4ms\nThreshold=2\n"
                        "[Device pci:*]\nThreshold=3\nBudget=100us\n"
                        "[Device pci:0000:6[5-6]:00.*]\nConcurrency=2\nThreshold=4\n"
                        "[Device opencl:portable-computing-language:pthread-some-very-long-name-of-a-processor:0]\n"
                        "Linger=1ms\n"
                        "[Device pci:0000:66:*]\nThreshold=5\nBudget=\n"
                        "[Device pci:*]\nTimeSlice=1ms\n");
        _cleanup_(config_freep)
        Config *c = load(NULL);
        assert_string_equal(problems, "");
        assert_int_equal(c->n_sections, 4);

        config_device(c, "opencl:other:0", &d);
        assert_same_device(&d, &c->device);

        config_device(c, "pci:0000:01:00.0", &d);
        assert_int_equal(d.params.threshold, 3);
        assert_int_equal(d.params.timeslice_ns, NSEC_PER_MSEC);
        assert_int_equal(d.params.concurrency, 1);
        assert_int_equal(d.tuning.budget_us, 100);

        config_device(c, "pci:0000:65:00.0", &d);
        assert_int_equal(d.params.threshold, 4);
        assert_int_equal(d.params.concurrency, 2);

        config_device(c, "pci:0000:66:00.1", &d); /* the later section wins; an emptied key is not given */
        assert_int_equal(d.params.threshold, 5);
        assert_int_equal(d.params.concurrency, 2);
        assert_int_equal(d.tuning.budget_us, 100);

        config_device(c, "opencl:portable-computing-language:pthread-some-very-long-name-of-a-processor:0", &d);
        assert_int_equal(d.params.linger_ns, NSEC_PER_MSEC);
        assert_int_equal(d.params.threshold, 2);
}

static void test_starvation_must_make_sense(void **state) {
        DeviceConfig d;

        put(ETC "/xsched.conf",
                        "[Scheduler]\nStarveAfter=20ms\nStarveRun=1s\nConcurrency=2\n"
                        "[Device a]\nStarveAfter=10ms\n"
                        "[Device b]\nStarveRun=2s\n[Device b*]\nStarveAfter=3s\n");
        _cleanup_(config_freep)
        Config *c = load(NULL);
        assert_string_equal(problems,
                        "[Scheduler]:0: StarveRun=1s is not shorter than StarveAfter=20ms, both ignored\n"
                        "[Device a]:0: StarveRun=10ms is not shorter than StarveAfter=10ms, both ignored\n"
                        "[Device b]:0: StarveRun=2s is not shorter than StarveAfter=1s, both ignored\n");
        assert_int_equal(c->device.params.starve_ns, NSEC_PER_SEC);
        assert_int_equal(c->device.params.starve_run_ns, 10 * NSEC_PER_MSEC);
        assert_int_equal(c->device.params.concurrency, 2);
        config_device(c, "a", &d);
        assert_true(d.params.starve_run_ns < d.params.starve_ns);
        config_device(c, "b", &d);
        assert_int_equal(d.params.starve_ns, 3 * NSEC_PER_SEC);
        assert_int_equal(d.params.starve_run_ns, 10 * NSEC_PER_MSEC);
}

static void test_reload_keeps_what_was_good(void **state) {
        put(ETC "/xsched.conf",
                        "[Scheduler]\nTimeSlice=7ms\nThreshold=6\nPolicy=tree\n[Log]\nLevel=debug\n"
                        "[Device pci:*]\nBudget=1ms\nConcurrency=3\n");
        put(ETC "/classes.d/gold.class", "[Class]\nPriority=20\nWeight=300\nDescription=Gold\n");
        _cleanup_(config_freep)
        Config *before = load(NULL);
        assert_string_equal(problems, "");

        put(ETC "/xsched.conf",
                        "[Scheduler]\nTimeSlice=7 bananas\nConcurrency=2\nPolicy=nosuch\n[Log]\nLevel=loud\n"
                        "[Device pci:*]\nBudget=everything\nConcurrency=none\nLinger=nonsense\n");
        put(ETC "/classes.d/gold.class", "[Class]\nPriority=high\nWeight=400\nDescription=\x01\n");
        _cleanup_(config_freep)
        Config *after = load(before);
        assert_int_equal(n_problems, 8);
        assert_non_null(strstr(problems, ETC "/xsched.conf:2: TimeSlice=7 bananas"));
        assert_non_null(strstr(problems, ETC "/xsched.conf:4: Policy=nosuch is not the name of a policy"));
        assert_non_null(strstr(problems, ETC "/xsched.conf:6: Level=loud"));
        assert_non_null(strstr(problems, ETC "/xsched.conf:9: Concurrency=none"));
        assert_non_null(strstr(problems, ETC "/classes.d/gold.class:2: Priority=high"));

        assert_int_equal(after->device.params.timeslice_ns, 7 * NSEC_PER_MSEC);
        assert_int_equal(after->device.params.concurrency, 2);
        assert_int_equal(after->device.params.threshold, 0); /* the key was removed: by level again */
        assert_int_equal(after->log_level, LOG_DEBUG);
        DeviceConfig d;
        config_device(after, "pci:0", &d);
        assert_int_equal(d.tuning.budget_us, 1000);
        assert_int_equal(d.params.concurrency, 3);
        assert_int_equal(d.params.linger_ns, after->device.params.linger_ns); /* a key that was never given */
        const Class *gold = config_class(after, "gold");
        assert_non_null(gold);
        assert_int_equal(gold->settings.priority, 20);
        assert_int_equal(gold->settings.weight, 400);
        assert_string_equal(gold->description, "Gold");
        assert_true(settings_has(&gold->settings, SETTINGS_PRIORITY));
        assert_false(settings_has(&gold->settings, SETTINGS_THRESHOLD));
}

/* A directory in the place of a file: cannot be read even by root. */
static void test_unreadable(void **state) {
        Config *none = NULL;

        put(ETC "/xsched.conf", "[Scheduler]\nTimeSlice=7ms\n");
        _cleanup_(config_freep)
        Config *before = load(NULL);

        take_away(ETC "/xsched.conf");
        put(ETC "/xsched.conf/in-the-way", "x");
        assert_int_equal(try_load(before, &none), -EISDIR); /* at a reload all settings stay */
        assert_null(none);
        assert_int_equal(n_problems, 1);

        /* What is wrong with the classes is told along with it. */
        put(ETC "/classes.d/batch.class", "[Class]\nColour=blue\n");
        assert_int_equal(try_load(before, &none), -EISDIR);
        assert_int_equal(n_problems, 2);
        assert_non_null(strstr(problems, "batch.class"));
        take_away(ETC "/classes.d/batch.class");

        put(ETC "/xsched.conf.d/10-x.conf", "[Scheduler]\nThreshold=5\n");
        _cleanup_(config_freep)
        Config *fresh = load(NULL); /* at a start the other files apply */
        assert_int_equal(n_problems, 1);
        assert_int_equal(fresh->device.params.threshold, 5);
}

typedef enum InTheWay { IN_THE_WAY_LINK, IN_THE_WAY_FILE, IN_THE_WAY_DIRECTORY, IN_THE_WAY_FIFO } InTheWay;

static void put_in_the_way(const char *name, InTheWay what) {
        char path[1024];

        put(name, "x");
        if (what == IN_THE_WAY_FILE)
                return;
        take_away(name);
        path_of(path, sizeof(path), name);
        if (what == IN_THE_WAY_LINK)
                put_link(name, "nowhere");
        else
                assert_return_code(what == IN_THE_WAY_FIFO ? mkfifo(path, 0600) : mkdir(path, 0700), errno);
}

typedef struct InTheWayCase {
        const char *name;
        InTheWay what;
        int error;
        unsigned n_problems;
} InTheWayCase;

static void check_in_the_way(const InTheWayCase *c) {
        Config *none = NULL;

        put(USR "/classes.d/batch.class", "[Class]\nPriority=-50\n");
        put(USR "/xsched.conf.d/20.conf", "[Scheduler]\nThreshold=5\n");
        put(ETC "/xsched.conf", "[Scheduler]\nTimeSlice=7ms\n");
        _cleanup_(config_freep)
        Config *before = load(NULL);
        assert_string_equal(problems, "");
        take_away(ETC "/xsched.conf");
        if (streq(c->name, ETC))
                take_away(ETC);

        put_in_the_way(c->name, c->what);
        assert_int_equal(try_load(before, &none), c->error);
        assert_null(none);
        assert_non_null(strstr(problems, c->name));

        _cleanup_(config_freep)
        Config *fresh = load(NULL);
        assert_int_equal(n_problems, c->n_problems);
        assert_int_equal(fresh->device.params.threshold, 5);

        take_away(c->name);
        _cleanup_(config_freep)
        Config *after = load(before);
        assert_string_equal(problems, "");
        assert_int_equal(after->device.params.timeslice_ns, 20 * NSEC_PER_MSEC);
        assert_int_equal(config_class(after, "batch")->settings.priority, -50);
}

/* Something unreadable has the name of a file or directory: a reload keeps all settings; a start reports it and reads
 * the other files. When the name is removed, so are the settings. */
static void test_in_the_way(void **state) {
        static const InTheWayCase cases[] = {
                        {ETC "/xsched.conf", IN_THE_WAY_LINK, -ENOLINK, 1},
                        {ETC "/xsched.conf", IN_THE_WAY_FIFO, -EBADF, 1},
                        {ETC "/xsched.conf.d/10.conf", IN_THE_WAY_LINK, -ENOLINK, 1},
                        {ETC "/xsched.conf.d/10.conf", IN_THE_WAY_DIRECTORY, -EISDIR, 1},
                        {ETC "/xsched.conf.d/10.conf", IN_THE_WAY_FIFO, -EBADF, 1},
                        {ETC "/xsched.conf.d", IN_THE_WAY_LINK, -ENOLINK, 1},
                        {ETC "/xsched.conf.d", IN_THE_WAY_FILE, -ENOTDIR, 1},
                        {ETC "/classes.d", IN_THE_WAY_LINK, -ENOLINK, 1},
                        {ETC "/classes.d", IN_THE_WAY_FILE, -ENOTDIR, 1},
                        {ETC "/classes.d/batch.class", IN_THE_WAY_LINK, -ENOLINK, 1},
                        {ETC "/classes.d/batch.class", IN_THE_WAY_DIRECTORY, -EISDIR, 1},
                        {ETC "/classes.d/batch.class", IN_THE_WAY_FIFO, -EBADF, 1},
                        {ETC "/classes.d/batch.class.d", IN_THE_WAY_LINK, -ENOLINK, 1},
                        {ETC "/classes.d/batch.class.d/10.conf", IN_THE_WAY_LINK, -ENOLINK, 1},
                        /* The main file, the drop-ins and the classes are each reported. */
                        {ETC, IN_THE_WAY_LINK, -ENOLINK, 3},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                assert_int_equal(config_setup(state), 0);
                check_in_the_way(cases + i);
                assert_int_equal(config_teardown(state), 0);
        }
}

/* A link to /dev/null masks, as among drop-ins. */
static void test_main_file_masked(void **state) {
        char path[1024];
        Config *loaded = NULL;

        put(USR "/xsched.conf", "[Scheduler]\nThreshold=2\n");
        put(USR "/xsched.conf.d/10-x.conf", "[Scheduler]\nConcurrency=3\n");
        _cleanup_(config_freep)
        Config *before = load(NULL);
        put_link(ETC "/xsched.conf", "/dev/null");
        _cleanup_(config_freep)
        Config *masked = load(before);
        assert_string_equal(problems, "");
        assert_int_equal(masked->device.params.threshold, 0);
        assert_int_equal(masked->device.params.concurrency, 3);

        path_of(path, sizeof(path), ETC "/xsched.conf");
        const ConfigPaths paths = {.file = path};
        assert_int_equal(config_load(&paths, before, remember, NULL, &loaded), 0);
        _cleanup_(config_freep)
        Config *named = loaded;
        assert_string_equal(problems, "");
        assert_int_equal(named->device.params.concurrency, 1);
}

static void test_classes(void **state) {
        put(USR "/classes.d/batch.class", "[Class]\nDescription=Vendor\nPriority=-50\nWeight=10\n");
        put(USR "/classes.d/idle.class", "[Class]\nPriority=-200\n");
        put(USR "/classes.d/masked.class", "[Class]\nPriority=-200\n");
        put(USR "/classes.d/batch.class.d/10-a.conf", "[Class]\nWeight=20\nThreshold=4\n");
        put(ETC "/classes.d/batch.class.d/20-b.conf", "[Class]\nThreshold=5\n");
        put(ETC "/classes.d/masked.class", "");
        put(RUN "/classes.d/idle.class", "[Class]\nPriority=-100\n");
        put(ETC "/classes.d/with space.class", "[Class]\nPriority=1\n");
        put(ETC "/classes.d/bad.class",
                        "[Class]\nPriority=256\nWeight=0\nThreshold=65536\nPreemption=9\nNonesuch=9\n"
                        "[Matches]\nUnit=x\n[Class]\nMin=101%\n");
        put(ETC "/classes.d/notes.txt", "not a class");
        _cleanup_(config_freep)
        Config *c = load(NULL);

        assert_int_equal(n_problems, 8);
        assert_non_null(strstr(problems, ETC "/classes.d/with space.class:0: The file's name is no name for a class"));
        assert_non_null(strstr(problems, ETC "/classes.d/bad.class:2: Priority=256 is out of range (-255 to 255)"));
        assert_non_null(strstr(problems, ETC "/classes.d/bad.class:3: Weight=0 is out of range (1 to 10000)"));
        assert_non_null(strstr(problems, ETC "/classes.d/bad.class:4: Threshold=65536 is out of range (0 to 65535)"));
        assert_non_null(strstr(problems,
                        ETC "/classes.d/bad.class:5: Preemption=9 is not one of auto, off, 1, 2, 3 and privileged"));
        assert_non_null(strstr(problems, ETC "/classes.d/bad.class:6: Unknown key Nonesuch="));
        assert_non_null(strstr(problems, ETC "/classes.d/bad.class:7: Unknown section [Matches]"));
        assert_non_null(strstr(problems, ETC "/classes.d/bad.class:10: Min=101% is out of range (0% to 100%)"));

        assert_int_equal(c->classes.n, 4);
        assert_string_equal(c->classes.classes[0].name, "bad");
        assert_int_equal(c->classes.classes[0].settings.mask, 0);
        assert_string_equal(c->classes.classes[1].name, "batch");
        assert_string_equal(c->classes.classes[2].name, "default");
        assert_string_equal(c->classes.classes[3].name, "idle");
        assert_null(config_class(c, "masked"));

        const Class *batch = config_class(c, "batch"), *idle = config_class(c, "idle");
        assert_string_equal(batch->description, "Vendor");
        assert_int_equal(batch->settings.priority, -50);
        assert_int_equal(batch->settings.weight, 20);
        assert_int_equal(batch->settings.threshold, 5);
        assert_int_equal(idle->settings.priority, -100);
        assert_int_equal(idle->settings.mask, 1U << SETTINGS_PRIORITY);
}

static bool matches(const Config *c, const char *name, const char *cgroup) {
        MatchFacts f;

        match_facts_trusted(cgroup, SIZE_MAX, 0, &f);
        const Class *class = classes_match(&c->classes, &f, NULL);
        return name ? class && streq(class->name, name) : !class;
}

/* The first class by name matches, drop-ins add to their class, and a class with a bad line keeps its former state as a
 * whole. */
static void test_match(void **state) {
        put(USR "/classes.d/b.class", "[Class]\nPriority=1\n[Match]\nUnit=a.service\nUnit=b.service\n");
        put(ETC "/classes.d/c.class", "[Match]\nSlice=one.slice\n");
        put(ETC "/classes.d/b.class.d/10-not.conf", "[Match]\nUnit=!b-*.service\n");
        put(ETC "/classes.d/nobody.class", "[Match]\nUnit=\n");
        _cleanup_(config_freep)
        Config *before = load(NULL);
        assert_string_equal(problems, "");
        assert_true(matches(before, "b", "/one.slice/a.service"));
        assert_true(matches(before, "c", "/one.slice/z.service"));
        assert_true(matches(before, NULL, "/two.slice/z.service"));
        /* As with systemd, drop-ins of one name mask each other, and later names are read later. */
        put(RUN "/classes.d/b.class.d/10-not.conf", "[Match]\nUnit=\n");
        put(RUN "/classes.d/b.class.d/20-more.conf", "[Match]\nSlice=one.slice\n");
        _cleanup_(config_freep)
        Config *masked = load(before);
        assert_true(matches(masked, "b", "/one.slice/a.service"));
        assert_true(matches(masked, NULL, "/two.slice/a.service"));

        take_away(RUN "/classes.d/b.class.d/10-not.conf");
        take_away(RUN "/classes.d/b.class.d/20-more.conf");
        put(ETC "/classes.d/a.class", "[Match]\nUnit=a.service\nUser=no-such-user\n");
        put(USR "/classes.d/b.class", "[Class]\nPriority=2\n[Match]\nUnit=b\n");
        put(ETC "/classes.d/c.class", "[Match]\nUnit=*.service\nKernel=6.1\n");
        _cleanup_(config_freep)
        Config *after = load(before);
        assert_non_null(strstr(problems, ETC "/classes.d/a.class:3: User=no-such-user is not a list of names"));
        assert_non_null(strstr(problems, ETC "/classes.d/a.class:0: [Match] has mistakes"));
        assert_non_null(strstr(problems, USR "/classes.d/b.class:4: Unit=b is not names"));
        assert_non_null(strstr(problems, USR "/classes.d/b.class:0: [Match] has mistakes"));
        assert_non_null(strstr(problems, ETC "/classes.d/c.class:3: Unknown key Kernel="));
        assert_int_equal(n_problems, 6);
        assert_true(matches(after, "b", "/two.slice/a.service"));
        assert_true(matches(after, "c", "/one.slice/z.service"));
        assert_true(matches(after, NULL, "/two.slice/z.service"));
        assert_int_equal(config_class(after, "b")->settings.priority, 2);
}

static void test_shipped_classes(void **state) {
        static const char *const names[] = {"batch", "default", "idle", "interactive", "system"};
        const ConfigPaths paths = {.classes_dir = shipped_classes};
        Config *loaded = NULL;

        put(ETC "/classes.d/other.class", "[Class]\nPriority=1\n"); /* not looked at */
        assert_int_equal(config_load(&paths, NULL, remember, NULL, &loaded), 0);
        _cleanup_(config_freep)
        Config *c = loaded;
        assert_int_equal(c->n_problems, 0);
        assert_int_equal(c->classes.n, ELEMENTSOF(names));
        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                assert_string_equal(c->classes.classes[i].name, names[i]);
                assert_true(c->classes.classes[i].description[0] != '\0');
        }
        int idle = config_class(c, "idle")->settings.priority, batch = config_class(c, "batch")->settings.priority,
            normal = config_class(c, "default")->settings.priority,
            interactive = config_class(c, "interactive")->settings.priority,
            system = config_class(c, "system")->settings.priority;
        assert_true(idle < batch && batch < normal && normal < interactive && interactive < system);
        assert_int_equal(normal, POLICY_PRIORITY_DEFAULT);
}

static void test_explicit_file(void **state) {
        char path[1024];
        Config *loaded = NULL;

        put(ETC "/xsched.conf", "[Scheduler]\nThreshold=9\n");
        put(ETC "/xsched.conf.d/10-x.conf", "[Scheduler]\nConcurrency=9\n");
        put(USR "/classes.d/vendor.class", "[Class]\nPriority=1\n");
        put(ETC "/classes.d/local.class", "[Class]\nPriority=2\n");
        put("/mine/my.conf", "[Scheduler]\nThreshold=2\n");
        put("/mine/my.conf.d/10-x.conf", "[Scheduler]\nBudget=1ms\n");
        put("/mine/classes.d/mine.class", "[Class]\nPriority=3\n");
        path_of(path, sizeof(path), "/mine/my.conf");
        const ConfigPaths paths = {.file = path};

        assert_int_equal(config_load(&paths, NULL, remember, NULL, &loaded), 0);
        _cleanup_(config_freep)
        Config *c = loaded;
        assert_int_equal(c->device.params.threshold, 2);
        assert_int_equal(c->device.params.concurrency, 1);
        assert_int_equal(c->device.tuning.budget_us, 1000);
        assert_int_equal(c->classes.n, 3);
        assert_non_null(config_class(c, "mine"));
        assert_non_null(config_class(c, "vendor"));

        take_away("/mine/my.conf");
        problems[0] = '\0';
        assert_int_equal(config_load(&paths, NULL, remember, NULL, &loaded), -ENOENT);
        assert_string_equal(problems, "/mine/my.conf:0: Failed to read the file: No such file or directory\n");
}

int main(int argc, char *argv[]) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test_setup_teardown(test_nothing_is_defaults, config_setup, config_teardown),
                        cmocka_unit_test_setup_teardown(test_shipped_file, config_setup, config_teardown),
                        cmocka_unit_test_setup_teardown(test_all_keys, config_setup, config_teardown),
                        cmocka_unit_test_setup_teardown(test_precedence, config_setup, config_teardown),
                        cmocka_unit_test_setup_teardown(test_devices, config_setup, config_teardown),
                        cmocka_unit_test_setup_teardown(test_starvation_must_make_sense, config_setup, config_teardown),
                        cmocka_unit_test_setup_teardown(test_reload_keeps_what_was_good, config_setup, config_teardown),
                        cmocka_unit_test_setup_teardown(test_unreadable, config_setup, config_teardown),
                        cmocka_unit_test(test_in_the_way),
                        cmocka_unit_test_setup_teardown(test_main_file_masked, config_setup, config_teardown),
                        cmocka_unit_test_setup_teardown(test_classes, config_setup, config_teardown),
                        cmocka_unit_test_setup_teardown(test_match, config_setup, config_teardown),
                        cmocka_unit_test_setup_teardown(test_shipped_classes, config_setup, config_teardown),
                        cmocka_unit_test_setup_teardown(test_explicit_file, config_setup, config_teardown),
        };
        if (argc != 3)
                return EXIT_FAILURE;
        shipped_config = argv[1];
        shipped_classes = argv[2];
        return cmocka_run_group_tests(tests, NULL, NULL);
}
