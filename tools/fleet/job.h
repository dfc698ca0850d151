/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What jobs do on their GPUs: requests, steps, and the waits of gangs
 */

#include "fleet.h"

int job_place(Job *j, Gpu **gpus, uint64_t now);
void job_free(Job *j);
bool worker_is_service(const Worker *w);
void worker_burst_over(Worker *w, uint64_t now);
void worker_look(Worker *w, uint64_t now); /* requests that have come, a step that begins */
uint64_t worker_next(const Worker *w);     /* when something comes to it; NSEC_INFINITY */
