/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Tapped: the functions of a policy's table; each makes the call of the core (core.h), and tells the tap (tap.h).
 */

#include "tap.h"

int tapped_configure(Policy *p, const PolicyConfig *config, uint64_t now_ns);
int tapped_node_new(Policy *p, PolicyNode *parent, const PolicyNodeSettings *s, uint64_t now_ns, PolicyNode **ret);
PolicyNode *tapped_node_free(PolicyNode *n, uint64_t now_ns);
void tapped_node_configure(PolicyNode *n, const PolicyNodeSettings *s, uint64_t now_ns);
int tapped_entity_new(
                Policy *p, PolicyNode *node, void *owner, const PolicySettings *s, uint64_t now_ns, PolicyEntity **ret);
PolicyEntity *tapped_entity_free(PolicyEntity *e, uint64_t now_ns);
void tapped_entity_configure(PolicyEntity *e, const PolicySettings *s, uint64_t now_ns);
int tapped_entity_move(PolicyEntity *e, PolicyNode *to, uint64_t now_ns);
void tapped_entity_ready(PolicyEntity *e, uint64_t now_ns);
void tapped_entity_idle(PolicyEntity *e, uint64_t now_ns);
void tapped_entity_drained(PolicyEntity *e, uint64_t now_ns);
void tapped_entity_tail(PolicyEntity *e, uint64_t now_ns);
void tapped_entity_tail_had(PolicyEntity *e, uint64_t ns, uint64_t now_ns);
void tapped_outside(Policy *p, int level, uint64_t now_ns);
uint64_t tapped_dispatch(Policy *p, uint64_t now_ns);
