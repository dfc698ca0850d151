/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Answers with long texts: the service looks for edges all the time while it makes and sends one
 *
 * The caller is a thread with the other end of the connection. Times are of the answering thread's CPU.
 */

#include <pthread.h>
#include <sys/socket.h>
#include <time.h>

#include "service/bus/answer.h"
#include "service/core/turn.h"
#include "tests/lib/unit.h"

#define PART_SIZE (4U << 20) /* a table's */
#define N_TABLES  4U

static struct { uint64_t last, longest, all; /* between two looks */ } looks;

static uint64_t cpu_ns(void) {
        struct timespec t;

        assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t), 0);
        return (uint64_t) t.tv_sec * NSEC_PER_SEC + (uint64_t) t.tv_nsec;
}

void __wrap_turn_look(Manager *m);
void __wrap_turn_look(Manager *m) {
        uint64_t took = cpu_ns() - looks.last;

        looks.longest = MAX(looks.longest, took);
        looks.all += took;
        looks.last = cpu_ns();
}

/* --- the text --- */

static const char *line_of(WalkTable table) {
        static const char *const lines[_WALK_TABLE_MAX] = {
                        [WALK_DEVICES] = "a line of letters\n",
                        [WALK_GROUPS] = "one with more: \303\244\342\202\254\360\237\230\200.\n",
                        [WALK_CLIENTS] = "a line that is longer than the others are, as most that is said of clients\n",
                        [WALK_QUEUES] = "what comes last\n",
        };

        return lines[table];
}

static int print_part(Answer *a, WalkTable table) {
        const char *line = line_of(table);

        for (size_t n = 0; n < PART_SIZE; n += strlen(line)) {
                if (fputs(line, a->file) < 0)
                        return -ENOMEM;
                if (n / (16U << 10) != (n + strlen(line)) / (16U << 10))
                        turn_look(a->manager);
        }
        return (int) PART_SIZE;
}

static int print_badly(Answer *a, WalkTable table) {
        return fputs(table == WALK_GROUPS ? "\303" : "(", a->file) < 0 ? -ENOMEM : 1;
}

static const AnswerOps long_ops =
                                       {
                                                       .begin = print_part,
                                                       .end = answer_send_text,
                                                       .tables = {WALK_DEVICES, WALK_GROUPS, WALK_CLIENTS, WALK_QUEUES},
                                                       .n_tables = N_TABLES,
},
                       bad_ops = {
                                       .begin = print_badly,
                                       .end = answer_send_text,
                                       .tables = {WALK_DEVICES, WALK_GROUPS, WALK_CLIENTS},
                                       .n_tables = 3,
};

/* Behind the part. */
static const char *check_part(const char *text, WalkTable table) {
        const char *line = line_of(table);

        for (size_t n = 0; n < PART_SIZE; n += strlen(line)) {
                assert_memory_equal(text, line, strlen(line));
                text += strlen(line);
        }
        return text;
}

/* --- the service, and who calls --- */

typedef struct World {
        int fds[2];
        const AnswerOps *ops;
        bool done;
        sd_bus_message *reply;
        int error;
} World;

static sd_bus *bus_new(int fd, bool server) {
        const int unread = 64 << 10;
        sd_bus *bus = NULL;
        sd_id128_t id = SD_ID128_MAKE(00, 01, 02, 03, 04, 05, 06, 07, 08, 09, 0a, 0b, 0c, 0d, 0e, 0f);

        assert_true(sd_bus_new(&bus) >= 0);
        assert_true(sd_bus_set_fd(bus, fd, fd) >= 0);
        assert_true(!server || sd_bus_set_server(bus, true, id) >= 0);
        assert_true(sd_bus_set_anonymous(bus, true) >= 0);
        assert_true(sd_bus_start(bus) >= 0);
        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &unread, sizeof(unread)), 0); /* as calls.c */
        return bus;
}

static void *call(void *userdata) {
        _cleanup_(sd_bus_error_free)
        sd_bus_error error = SD_BUS_ERROR_NULL;
        World *w = userdata;
        sd_bus *bus = bus_new(w->fds[1], false);

        int r = sd_bus_call_method(bus, NULL, "/", "org.xsched.test", "Ask", &error, &w->reply, NULL);
        w->error = r < 0 ? sd_bus_error_get_errno(&error) : 0;
        sd_bus_close_unref(bus);
        return NULL;
}

static int on_call(sd_bus_message *message, void *userdata, sd_bus_error *error) {
        static Manager manager;
        World *w = userdata;

        if (sd_bus_message_is_method_call(message, NULL, "Ask") <= 0)
                return 0;
        looks.longest = looks.all = 0;
        looks.last = cpu_ns();
        int r = answer_text(&manager, message, w->ops, NULL);
        turn_look(&manager);
        w->done = true;
        return r;
}

static void ask(World *w, const AnswerOps *ops) {
        pthread_t caller;
        int r;

        *w = (World){.ops = ops};
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, w->fds), 0);
        sd_bus *bus = bus_new(w->fds[0], true);
        assert_true(sd_bus_add_filter(bus, NULL, on_call, w) >= 0);
        assert_int_equal(pthread_create(&caller, NULL, call, w), 0);
        while ((r = sd_bus_process(bus, NULL)) >= 0)
                if (r == 0)
                        assert_true(sd_bus_wait(bus, UINT64_MAX) >= 0 || w->done);
        assert_int_equal(pthread_join(caller, NULL), 0);
        assert_true(w->done);
        sd_bus_close_unref(bus);
}

static void test_long(void **state) {
        const char *text = NULL;
        World w;

        ask(&w, &long_ops);
        assert_int_equal(w.error, 0);
        assert_true(sd_bus_message_read(w.reply, "s", &text) > 0);
        for (size_t i = 0; i < N_TABLES; i++)
                text = check_part(text, long_ops.tables[i]);
        assert_int_equal(*text, '\0');
        sd_bus_message_unref(w.reply);
        if (looks.longest * 16 >= looks.all)
                fail_msg("%" PRIu64 " of %" PRIu64 " us in one go", looks.longest / NSEC_PER_USEC,
                                looks.all / NSEC_PER_USEC);
}

/* The bus would end the connection of a service that sends such a text. */
static void test_bad(void **state) {
        World w;

        ask(&w, &bad_ops);
        assert_int_equal(w.error, EINVAL);
        assert_null(w.reply);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_long),
                        cmocka_unit_test(test_bad),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
