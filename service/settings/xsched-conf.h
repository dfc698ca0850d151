/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * xsched.conf: the configuration of the administrator
 *
 * A Config is read as a whole, never changed afterwards, and replaced as a whole by a reload. Reading never makes
 * things worse: a bad line leaves its setting as it was before the reload, and a file that cannot be read leaves
 * everything as it was.
 */

#include "class.h"
#include "common/conf-parser.h"
#include "device-tuning.h"
#include "policy/policy.h"
#include "service/base/log.h"

/* How a device is shared. */
typedef struct DeviceConfig {
        const PolicyOps *policy;
        PolicyConfig params; /* threshold 0: "auto", see DeviceTuning */
        DeviceTuning tuning;
} DeviceConfig;

#define CONFIG_GLOB_MAX 256U

/* [Device GLOB]: those settings of [Scheduler] that differ for the devices whose id matches. */
typedef struct DeviceSection {
        char glob[CONFIG_GLOB_MAX];
        uint64_t given; /* bits of the section's items */
        DeviceConfig values;
} DeviceSection;

typedef struct ConfigLimits {
        uint32_t clients_per_user;
        uint32_t queues_per_user;
        uint32_t queues_per_client;
        uint32_t jobs_per_user;
        uint32_t devices_per_user;
} ConfigLimits;

typedef struct Config {
        DeviceConfig device; /* [Scheduler] */
        DeviceSection *sections;
        size_t n_sections;
        ConfigLimits limits;
        int log_level;
        LogTarget log_target;
        Classes classes;
        unsigned n_problems; /* reported while it was read */
} Config;

/* Where to read. All NULL: the installed places. */
typedef struct ConfigPaths {
        const char *file; /* --config=: this file, FILE.d/, and classes.d/ beside it, above the vendor's classes */
        const char *classes_dir; /* --classes-dir=: the only directory with classes */
} ConfigPaths;

/* Reads everything. Problems go to `report`; none of them makes it fail, except: -ENOMEM; the file that `paths` names
 * cannot be read; or there is a `last_good` and something cannot be read, so that last_good had better stay. */
int config_load(const ConfigPaths *paths, const Config *last_good, ConfReport report, void *userdata, Config **ret);
Config *config_free(Config *c); /* NULL is fine; returns NULL */
DEFINE_TRIVIAL_CLEANUP_FUNC(Config *, config_free);

/* Finds the configuration of one device: [Scheduler], and on top of it every [Device] section that matches; later
 * sections win. */
void config_device(const Config *c, const char *device_id, DeviceConfig *ret);

/* Whether a [Device] section is for that device alone: its glob is just the id. */
bool config_names_device(const Config *c, const char *device_id);

static inline const Class *config_class(const Config *c, const char *name) {
        return classes_find(&c->classes, name);
}

/* A ConfReport that logs, with MESSAGE_CONFIG_PROBLEM and CONFIG_FILE=, CONFIG_LINE=. */
void config_log_problem(const ConfProblem *problem, void *userdata);

/* The tables, for the test that compares them with the manual page and the shipped file. */
extern const ConfSection config_sections[];
extern const size_t config_sections_n;
