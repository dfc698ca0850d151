/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Bench: functions that the benchmarks of the service share: the bus, synthetic clients, and data of /proc about a
 * process
 *
 * A benchmark runs inside of xsched-session and starts itself again for each synthetic client, since a process reads
 * its job from the environment when libxsched is loaded. A client is told its role and the descriptor of a shared
 * memory on its command line, says that it is attached through a pipe, and dies with its parent. Figures are ratios or
 * rates of this very run; nothing is ever asserted about an absolute time. Whatever cannot be measured ends the
 * benchmark with a message and exit status 1.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <systemd/sd-bus.h>

#include "common/macro.h"
#include "common/samples.h"
#include "common/time-util.h"
#include "xsched/xsched.h"

_noreturn_ void bench_die(const char *format, ...) _printf_(1, 2);

/* Returns r if it is not negative; else prints what failed, and ends the benchmark. */
int bench_check(int r, const char *what);

/* --- the service --- */

typedef struct Service {
        sd_bus *bus;
        pid_t pid;
} Service;

typedef struct DecisionLatency {
        uint64_t p50_us, p99_us, max_us, n;
} DecisionLatency;

Service service_open(void);
void service_close(Service *s);
uint64_t service_get(const Service *s, const char *property);
DecisionLatency service_decision_latency(const Service *s);

/* What the process has used so far. */
uint64_t process_cpu_ns(pid_t pid);
uint64_t process_switches(pid_t pid); /* voluntary context switches */
uint64_t process_pss_kb(pid_t pid);

/* --- synthetic clients --- */

#define CLIENT_ROLE_MAX 16U

typedef struct Clients {
        const Service *service;
        void *memory; /* shared with all clients */
        int memory_fd;
        int ready[2];    /* a byte for each client that is attached */
        int lifetime[2]; /* closed by the parent to end the clients */
        pid_t *pids;
        size_t n;
} Clients;

/* `size` bytes of zeroed memory that all clients map, too. */
void clients_init(Clients *c, const Service *s, size_t size);

/* A client in a job of its own, with this priority. */
void clients_add(Clients *c, const char *role, int priority);

/* Waits until all are attached. */
void clients_wait(Clients *c);

/* Ends and reaps them; a client that failed ends the benchmark. */
void clients_done(Clients *c);

/* In the client: what main() got, if it was started by clients_add(). */
typedef struct ClientPlan {
        const char *role;
        void *memory;
        int ready_fd, lifetime_fd;
        unsigned index; /* counted from 0, in the order of clients_add() */
} ClientPlan;

bool client_plan(int argc, char *argv[], size_t size, ClientPlan *ret);

/* Makes a queue on the benchmark's device, waits until it is attached, and says so. */
XschedQueue *client_attach(const ClientPlan *p);

/* Makes the queue ready for good, by one counted launch that never completes. Needs a second entity on the device: the
 * launches of a single one are not counted. */
void client_stay_ready(XschedQueue *q);

/* Returns when the parent closes the clients' lifetime. */
void client_wait_for_end(const ClientPlan *p);

/* --- little things --- */

void sleep_until_ns(uint64_t ns);

/* An `--option`; and the number behind `--option=`, or a default. */
bool bench_flag(int argc, char *argv[], const char *option);
unsigned bench_number(int argc, char *argv[], const char *option, unsigned default_value);

static inline double usec(uint64_t ns) {
        return (double) ns / 1e3;
}
