/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * GPU: whose launches run, and until when
 */

#include "fleet.h"

int gpu_new(Gpu *g, Fleet *f, size_t number);
void gpu_done(Gpu *g);
int gpu_add(Gpu *g, Worker *w, uint64_t now);
void gpu_remove(Gpu *g, Worker *w, uint64_t now);
void gpu_look(Gpu *g, uint64_t now); /* handles all events until now, and sets next_ns */
void gpu_worker_ready(Gpu *g, Worker *w, uint64_t burst_ns, uint64_t now);
void gpu_worker_idle(Gpu *g, Worker *w, uint64_t now);
