/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * fleet-sim: traces in both published formats, and fleets small enough to compute by hand
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tools/fleet/report.h"
#include "tools/fleet/trace-pai.h"
#include "tools/fleet/trace-philly.h"

/* Two user names whose hashes make one user heavy, and one light. */
static char heavy[16], light[16];

static int find_users(void **state) {
        for (unsigned i = 0; !heavy[0] || !light[0]; i++) {
                char name[16];

                (void) snprintf(name, sizeof(name), "u%u", i);
                memcpy(trace_hash(name) % 4 == 0 ? heavy : light, name, sizeof(name));
        }
        return 0;
}

static void free_trace(Trace *t) {
        trace_done(t);
}

/* --- traces --- */

static int read_philly(const char *text, Trace *ret) {
        FILE *f = fmemopen((void *) text, strlen(text), "r");

        assert_non_null(f);
        int r = trace_read_philly(f, ret);
        (void) fclose(f);
        return r;
}

#define EIGHT "[\"gpu0\",\"gpu1\",\"gpu2\",\"gpu3\",\"gpu4\",\"gpu5\",\"gpu6\",\"gpu7\"]"

static const char philly[] =
                "[{\"status\": \"Pass\", \"vc\": \"ee9e8c\", \"jobid\": \"application_1506638472019_14199\",\n"
                "\"attempts\": [{\"start_time\": \"2017-10-07 01:12:09\",\n"
                "\"end_time\": \"2017-10-07 01:13:23\", \"detail\": [{\"ip\": \"m47\", \"gpus\": [\"gpu0\"]}]},\n"
                "{\"start_time\": \"2017-10-07 01:13:30\", \"end_time\": \"2017-10-09 06:53:12\",\n"
                "\"detail\": [{\"ip\": \"m412\", \"gpus\": " EIGHT "},\n"
                "{\"ip\": \"m413\", \"gpus\": " EIGHT "}]},\n"
                "{\"start_time\": \"2017-10-09 06:54:00\", \"end_time\": null, \"detail\": []}],\n"
                "\"submitted_time\": \"2017-10-07 01:11:39\", \"user\": \"ce2f4c\"},\n"
                "{\"jobid\": \"b\", \"vc\": \"v\", \"submitted_time\": \"2017-10-07 01:11:39\",\n"
                "\"attempts\": [{\"start_time\": \"2017-10-07 01:12:09\", \"end_time\": \"None\", \"detail\": []}]},\n"
                "{\"jobid\": \"c\", \"vc\": \"v\", \"submitted_time\": \"2017-10-07 01:11:39\", \"attempts\": []},\n"
                "{\"jobid\": \"d\", \"vc\": \"v\", \"submitted_time\": \"2017-10-07 01:11:39\",\n"
                "\"attempts\": [{\"start_time\": \"2017-10-07 01:12:09\",\n"
                "\"end_time\": \"2017-10-07 01:12:10\", \"detail\": []}]}]";

/* The published example, with a second host; a job that still runs, one without attempts, one without GPUs. */
static void test_philly(void **state) {
        _cleanup_(free_trace)
        Trace t = {0};

        assert_return_code(read_philly(philly, &t), 0);
        assert_int_equal(t.n, 1);
        assert_int_equal(t.n_left_out, 3);
        trace_sort(&t, 10);
        assert_int_equal(t.jobs[0].n_gpus, 16);
        assert_int_equal(t.jobs[0].submit_ns, 0);
        assert_int_equal(t.jobs[0].duration_ns, (2 * 86400 + 5 * 3600 + 39 * 60 + 42) * NSEC_PER_SEC / 10);
        assert_int_equal(t.jobs[0].class, trace_hash("ee9e8c") % 4 ? CLASS_LIGHT : CLASS_HEAVY);
}

static void test_not_philly(void **state) {
        static const char *const wrong[] = {"{}", "[1]", "[{]", "hello", "[\"x\"]"};

        for (size_t i = 0; i < ELEMENTSOF(wrong); i++) {
                _cleanup_(free_trace)
                Trace t = {0};

                assert_int_equal(read_philly(wrong[i], &t), -EINVAL);
        }
}

static int read_pai(const char *jobs, const char *tasks, Trace *ret) {
        FILE *a = fmemopen((void *) jobs, strlen(jobs), "r"), *b = fmemopen((void *) tasks, strlen(tasks), "r");

        assert_non_null(a);
        assert_non_null(b);
        int r = trace_read_pai(a, b, ret);
        (void) fclose(a);
        (void) fclose(b);
        return r;
}

#define PAI_JOBS                                                                                                       \
        "job_name,inst_id,user,status,start_time,end_time\n"                                                           \
        "a,i1,58540f191766,Terminated,4550879.0,4551416.0\n"                                                           \
        "b,i2,58540f191766,Terminated,4550880.0,4551416.0\n"                                                           \
        "c,i3,58540f191766,Running,4550900.0,\n"

/* Two half GPUs are two services; workers with whole GPUs are one gang, without the parameter servers; one job still
 * runs. */
static void test_pai(void **state) {
        _cleanup_(free_trace)
        Trace t = {0};

        assert_return_code(read_pai(PAI_JOBS,
                                           "a,evaluator,2.0,Terminated,4551000.0,4551038.0,600.0,29.296875,50.0,MISC\n"
                                           "b,worker,3.0,Terminated,4551000.0,4551100.0,600.0,29.296875,200.0,V100\r\n"
                                           "b,chief,1.0,Terminated,4551000.0,4551090.0,600.0,29.296875,100.0,\n"
                                           "b,ps,4.0,Terminated,4551000.0,4551100.0,600.0,29.296875,,\n"
                                           "c,worker,1.0,Running,4551000.0,,600.0,29.296875,100.0,P100\n"
                                           "nobody's,worker,1.0,Terminated,4551000.0,4551001.0,1.0,1.0,100.0,P100\n",
                                           &t),
                        0);
        trace_sort(&t, 1);
        assert_int_equal(t.n, 3);
        assert_int_equal(t.n_left_out, 2);
        for (size_t i = 0; i < 2; i++) {
                assert_int_equal(t.jobs[i].class, CLASS_INTERACTIVE);
                assert_int_equal(t.jobs[i].percent, 50);
                assert_int_equal(t.jobs[i].duration_ns, 38 * NSEC_PER_SEC);
        }
        assert_int_equal(t.jobs[2].n_gpus, 7);
        assert_int_equal(t.jobs[2].submit_ns, NSEC_PER_SEC);
        assert_int_equal(t.jobs[2].duration_ns, 100 * NSEC_PER_SEC);
        assert_int_equal(t.jobs[2].user, t.jobs[0].user);
}

static void test_not_pai(void **state) {
        _cleanup_(free_trace)
        Trace t = {0};

        assert_int_equal(read_pai("a,b\n", "", &t), -EINVAL);
        assert_int_equal(read_pai(PAI_JOBS, "a,b,c,d,e,f,g,h,i,j,k,l,m\n", &t), -EINVAL);
        assert_return_code(read_pai(PAI_JOBS, "a,w,1e9,T,-1,nan,x,x,1e300,x\na,w,1,T,0,1e99,x,x,100,x\n", &t), 0);
        assert_int_equal(t.n, 0);
        assert_int_equal(t.n_left_out, 2);
}

/* --- fleets --- */

#define S NSEC_PER_SEC

static void add(Trace *t, const char *user, double gpus, double submit_s, double duration_s) {
        assert_return_code(trace_add(t, "job", user, gpus, submit_s, duration_s), 0);
}

static FleetConfig config_of(Discipline d, uint32_t hosts, uint32_t gpus) {
        return (FleetConfig){
                        .discipline = d,
                        .n_hosts = hosts,
                        .gpus_per_host = gpus,
                        .slots = 3,
                        .seed = 1,
                        .policy = POLICY_CONFIG_DEFAULT,
        };
}

/* Runs the trace after sorting it. */
static FleetResult *run(const FleetConfig *c, const Trace *t) {
        FleetResult *r = calloc(1, sizeof(*r));

        assert_non_null(r);
        assert_return_code(fleet_run(c, t, r), 0);
        assert_true(report_check(c, r, t));
        if (c->discipline == DISCIPLINE_XSCHED && r->requests.n > 0)
                assert_true(report_check_behind(c, r, t));
        return r;
}

static void assert_near(double a, double b, double by) {
        if (!(a >= b - by && a <= b + by))
                fail_msg("%f is not within %f of %f", a, by, b);
}

/* Ten seconds each, at 300:100 on one GPU: the heavy one has three of four parts until it ends after 13.3 s. */
static void test_weights(void **state) {
        static const double expected[_DISCIPLINE_MAX][2] = {
                        [DISCIPLINE_FIRST_COME] = {2.0, 2.0},
                        [DISCIPLINE_EXCLUSIVE] = {1.0, 2.0},
                        [DISCIPLINE_TIME_SLICING] = {2.0, 2.0},
                        [DISCIPLINE_XSCHED] = {4 / 3.0, 2.0},
        };
        _cleanup_(free_trace)
        Trace t = {0};

        add(&t, heavy, 1, 0, 10);
        add(&t, light, 1, 0, 10);
        trace_sort(&t, 1);
        for (unsigned d = 0; d < _DISCIPLINE_MAX; d++) {
                FleetConfig c = config_of(d, 1, 1);
                _cleanup_free_ FleetResult *r = run(&c, &t);

                /* Each turn of some 20 ms loses 0.1 ms to the hand-over. */
                assert_near(r->classes[CLASS_HEAVY].slowdown, expected[d][0], 0.02);
                assert_near(r->classes[CLASS_LIGHT].slowdown, expected[d][1], 0.02);
                assert_near((double) r->end_ns / S, 20, 0.2);
                assert_int_equal(r->done_ns, 20 * S);
                if (d == DISCIPLINE_EXCLUSIVE) {
                        assert_int_equal(r->n_epochs, 0);
                        continue;
                }
                assert_int_equal(r->n_epochs, 1);
                assert_near(r->share_off / r->share_ns, d == DISCIPLINE_XSCHED ? 0 : 0.25, 0.01);
        }
}

/* A service beside training: the bound holds under xsched, and the compared schedulers break it. */
static void test_service(void **state) {
        _cleanup_(free_trace)
        Trace t = {0};

        add(&t, light, 0.3, 0, 30);
        add(&t, light, 1, 0, 20);
        add(&t, heavy, 1, 0, 20);
        trace_sort(&t, 1);
        double p99[_DISCIPLINE_MAX];
        for (unsigned d = 0; d < _DISCIPLINE_MAX; d++) {
                FleetConfig c = config_of(d, 1, 1);
                _cleanup_free_ FleetResult *r = run(&c, &t);

                assert_in_range(r->classes[CLASS_INTERACTIVE].n, 900, 1400);
                assert_int_equal(r->requests.n, r->classes[CLASS_INTERACTIVE].n);
                p99[d] = (double) histogram_percentile(&r->requests, 99);
                if (d != DISCIPLINE_XSCHED)
                        continue;
                assert_in_range(r->low.n, 100, 2000);
                assert_in_range(r->low.max, NSEC_PER_MSEC, fleet_bound(&c, &t));
                assert_in_range(r->behind.max, NSEC_PER_MSEC, fleet_bound(&c, &t));

                /* The check notices a lost nanosecond. */
                r->done_ns--;
                assert_false(report_check(&c, r, &t));
        }
        assert_true(p99[DISCIPLINE_XSCHED] * 10 < p99[DISCIPLINE_FIRST_COME]);
        assert_true(p99[DISCIPLINE_XSCHED] * 3 < p99[DISCIPLINE_TIME_SLICING]);
}

/* --- policies that break the promise: the check has to tell --- */

static int level_high, level_low;
static uint32_t weight_low;

/* The default policy with other priorities and weights than the jobs have. */
static int told_otherwise(Policy *p, PolicyNode *node, void *owner, const PolicySettings *s, uint64_t now_ns,
                PolicyEntity **ret) {
        PolicySettings other = *s;
        bool low = s->priority < 0;

        other.priority = low ? level_low : level_high;
        other.weight = low ? weight_low : s->weight;
        return policy_tree_ops.entity_new(p, node, owner, &other, now_ns, ret);
}

static FleetResult *run_broken(int high, int low, uint32_t weight, Trace *t, FleetConfig *ret) {
        static PolicyOps broken;
        FleetResult *r = calloc(1, sizeof(*r));

        assert_non_null(r);
        broken = policy_tree_ops;
        broken.entity_new = told_otherwise;
        level_high = high;
        level_low = low;
        weight_low = weight;
        *ret = config_of(DISCIPLINE_XSCHED, 1, 1);
        ret->ops = &broken;
        assert_return_code(fleet_run(ret, t, r), 0);
        assert_true(report_check(ret, r, t)); /* the accounts stay exact */
        return r;
}

/* Without its change the policy passes. Training above services runs without a break. Beside training that is their
 * equal, services that need more than half of the GPU wait again and again, though never longer than a slice and a
 * launch at a time. */
static void test_broken(void **state) {
        static const struct {
                int high, low;
                uint32_t weight;
                bool broken, in_pieces;
        } cases[] = {
                        {50, -50, 100, false, false},
                        {-50, 50, 100, true, false},
                        {0, 0, 100, true, true},
        };
        _cleanup_(free_trace)
        Trace t = {0};

        add(&t, light, 0.9, 0, 20);
        add(&t, light, 1, 0, 20);
        trace_sort(&t, 1);
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                FleetConfig c;
                _cleanup_free_ FleetResult *r = run_broken(cases[i].high, cases[i].low, cases[i].weight, &t, &c);

                assert_true(r->behind.n > 100);
                assert_int_equal(r->low.max > fleet_bound(&c, &t), cases[i].broken && !cases[i].in_pieces);
                assert_int_equal(r->n_behind_too_long > 0, cases[i].broken);
                assert_int_equal(report_check_behind(&c, r, &t), !cases[i].broken);
        }
}

/* The same under policies that know no priorities, or other ones. */
static void test_policies(void **state) {
        static const struct {
                const char *name;
                bool holds;
        } cases[] = {{"tree", true}, {"hpf", true}, {"cfs", false}};
        _cleanup_(free_trace)
        Trace t = {0};

        add(&t, light, 0.45, 0, 20);
        add(&t, light, 1, 0, 20);
        add(&t, heavy, 1, 0, 20);
        trace_sort(&t, 1);
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                FleetConfig c = config_of(DISCIPLINE_XSCHED, 1, 1);
                _cleanup_free_ FleetResult *r = calloc(1, sizeof(*r));

                assert_non_null(r);
                c.ops = policy_find(cases[i].name);
                assert_return_code(fleet_run(&c, &t, r), 0);
                assert_int_equal(report_check_behind(&c, r, &t), cases[i].holds);
        }
}

/* No service, a service alone, training that comes when the service has ended: there is nothing to check. */
static void test_nothing_to_check(void **state) {
        for (unsigned i = 0; i < 3; i++) {
                _cleanup_(free_trace)
                Trace t = {0};
                FleetConfig c = config_of(DISCIPLINE_XSCHED, 1, 1);
                _cleanup_free_ FleetResult *r = calloc(1, sizeof(*r));

                assert_non_null(r);
                if (i > 0)
                        add(&t, light, 0.3, 0, 2);
                if (i != 1)
                        add(&t, light, 1, 5, 1);
                trace_sort(&t, 1);
                assert_return_code(fleet_run(&c, &t, r), 0);
                assert_true(report_check(&c, r, &t));
                assert_false(report_check_behind(&c, r, &t));
        }
}

/* Services that leave no time: training gets only the turns of the starvation floor, and these are within the bound. */
static void test_floor(void **state) {
        _cleanup_(free_trace)
        Trace t = {0};
        FleetConfig c = config_of(DISCIPLINE_XSCHED, 1, 1);

        add(&t, light, 0.95, 0, 20);
        add(&t, heavy, 0.95, 0, 20);
        add(&t, light, 1, 0, 1);
        trace_sort(&t, 1);
        _cleanup_free_ FleetResult *r = run(&c, &t);
        assert_true(r->classes[CLASS_LIGHT].slowdown > 10);
        assert_in_range(r->low.max, c.policy.starve_run_ns, fleet_bound(&c, &t));
}

/* A gang over two hosts, one of whose eight GPUs has another job: all wait for that one. */
static void test_gang(void **state) {
        _cleanup_(free_trace)
        Trace t = {0};

        add(&t, light, 1, 0, 100);
        add(&t, light, 8, 1, 10);
        trace_sort(&t, 1);
        for (unsigned d = 0; d < _DISCIPLINE_MAX; d++) {
                FleetConfig c = config_of(d, 2, 4);
                _cleanup_free_ FleetResult *r = run(&c, &t);
                bool shared = d != DISCIPLINE_EXCLUSIVE;

                assert_int_equal(r->gangs[2].n, 1);
                /* Two are equal on one GPU, seven wait half of the time; exclusive: it waits for the other to end. */
                assert_near(r->gangs[2].slowdown, shared ? 2.0 : 10.9, 0.2);
                assert_near(r->gangs[2].waited_ns / r->gangs[2].running_ns, shared ? 7 / 16.0 : 0, 0.03);
        }
}

/* A job that is larger than the fleet, and jobs that wait behind it: every other job gets the GPUs that it asked
 * for. */
static void test_room(void **state) {
        _cleanup_(free_trace)
        Trace t = {0};

        add(&t, light, 9, 0, 10);
        for (unsigned i = 0; i < 50; i++)
                add(&t, i % 2 ? light : heavy, 1 + i % 4, i / 10.0, 1);
        trace_sort(&t, 1);
        for (unsigned d = 0; d < _DISCIPLINE_MAX; d++) {
                FleetConfig c = config_of(d, 2, 4);
                _cleanup_free_ FleetResult *r = run(&c, &t);

                assert_int_equal(r->n_too_large, 1);
                assert_int_equal(r->n_jobs, 50);
        }
}

static void test_histogram(void **state) {
        _cleanup_free_ Histogram *h = calloc(1, sizeof(*h));

        assert_non_null(h);
        assert_int_equal(histogram_percentile(h, 99), 0);
        for (uint64_t i = 1; i <= 1000; i++)
                histogram_add(h, i * 1000);
        histogram_add(h, UINT64_MAX);
        assert_near((double) histogram_percentile(h, 50), 500000, 500000 / 32.0);
        assert_near((double) histogram_percentile(h, 99), 990000, 990000 / 32.0);
        assert_near((double) histogram_percentile(h, 100), (double) UINT64_MAX, (double) UINT64_MAX / 32);
        for (unsigned i = 0; i < 63; i++)
                assert_int_equal(histogram_cell(UINT64_C(1) << i) < histogram_cell(UINT64_C(1) << (i + 1)), true);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_philly),
                        cmocka_unit_test(test_not_philly),
                        cmocka_unit_test(test_pai),
                        cmocka_unit_test(test_not_pai),
                        cmocka_unit_test(test_weights),
                        cmocka_unit_test(test_service),
                        cmocka_unit_test(test_broken),
                        cmocka_unit_test(test_policies),
                        cmocka_unit_test(test_nothing_to_check),
                        cmocka_unit_test(test_floor),
                        cmocka_unit_test(test_gang),
                        cmocka_unit_test(test_room),
                        cmocka_unit_test(test_histogram),
        };

        return cmocka_run_group_tests(tests, find_users, NULL);
}
