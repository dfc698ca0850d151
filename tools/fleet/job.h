/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Job: its requests, steps, and the waits of a gang
 */

#include "fleet.h"

int job_place(Job *j, Gpu **gpus, uint64_t now);
void job_free(Job *j);
bool worker_is_service(const Worker *w);
void worker_burst_over(Worker *w, uint64_t now);
void worker_look(Worker *w, uint64_t now); /* handles requests that have come, and a step that begins */
uint64_t worker_next(const Worker *w);     /* time of its next request or step; NSEC_INFINITY: none */
