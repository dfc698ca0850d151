/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A gate's counters, and how they move: from the slot that a gate leaves to the gate, and from a gate that ends to
 * whoever takes them
 *
 * A reader of many gates reads them without a lock. Counts that are on their way are in neither place, so the reader
 * asks whether any moved meanwhile, and reads again:
 *
 *      for (unsigned n = 0; n < GATE_COUNT_TRIES; n++) {
 *              uint32_t moves = gate_count_moves();
 *              ... gate_read() of all gates ...
 *              if (!gate_count_moved(moves))
 *                      break;
 *      }
 *
 * Thread safety: from any thread, and from signal handlers. The number of tries is for a handler that interrupted the
 * thread which moves counts.
 */

#include "shim/core/gate.h"

#define GATE_COUNT_TRIES 1000U

/* Returns the number of moves that have ended. */
uint32_t gate_count_moves(void);

/* Returns whether a move began or ended since gate_count_moves() returned `moves`, or was on its way then. */
bool gate_count_moved(uint32_t moves);

/* Counts move between these two. */
void gate_count_move_begin(void);
void gate_count_move_end(void);

/* In a child after fork: a thread that moved counts is gone. */
void gate_count_forget(void);

/* Moves the counts of the slots that the gate had to the gate. */
void gate_carry_back(Gate *g, PageSlot *s);
void gate_carry_all_back(Gate *g);

/* Adds the gate's counters to *counters. */
void gate_read(const Gate *g, GateCounters *counters);

/* As gate_read(), and resets the gate's counters. The caller is between gate_count_move_begin() and
 * gate_count_move_end() until they are where readers find them. */
void gate_take(Gate *g, GateCounters *counters);
