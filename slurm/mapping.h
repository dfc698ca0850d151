/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Mapping: the arguments of the plugin's line in plugstack.conf
 *
 *     partition.NAME=CLASS    jobs of this partition are of the class
 *     qos.NAME=CLASS          jobs of this QOS are of the class, whatever their partition
 *     class=CLASS             all other jobs are of the class
 *     min=PERCENT             limit of --gpu-min=; without it, --gpu-min= is refused
 *     shim=no                 the shim is not put into the environment of jobs
 *
 * Of several arguments with the same name, the last counts. Pure: no Slurm, no files.
 */

#include <stdbool.h>
#include <stdint.h>

#define MAPPING_CLASS_MAX 64U

bool mapping_is_valid(const char *argument);

/* Whether the class depends on partition or QOS, which only the controller knows. */
bool mapping_asks_controller(int n, char *arguments[]);

/* The class of a job; NULL: none. `partition` and `qos` are NULL where they are not known. */
const char *mapping_class(int n, char *arguments[], const char *partition, const char *qos);

int64_t mapping_min(int n, char *arguments[]);
bool mapping_shim(int n, char *arguments[]);
